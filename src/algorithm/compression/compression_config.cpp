#include "algorithm/compression/compression_config.h"

namespace chorus::inline compression {

void CompressionConfig::describe(ConfigVisitor& visitor) {
  visitor.field("up", up, "filters from clients to the server, in this order");
  visitor.field("down", down, "filters from the server to clients, in this order");
  visitor.check([this]() -> std::string {
    if (const std::string mistake = order_mistake(up); !mistake.empty()) return "up: " + mistake;
    if (const std::string mistake = order_mistake(down); !mistake.empty()) return "down: " + mistake;
    if (const std::string mistake = down_mistake(down); !mistake.empty()) return "down: " + mistake;
    return "";
  });
}

}  // namespace chorus::inline compression
