#include "tests/any_transport.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/config/config.h"
#include "tests/broker.h"
#include "tests/support.h"

namespace chorus::inline tests {

std::unique_ptr<Transport> any_transport(const std::string& name) {
  if (name != "mqtt") return Transports::make(name);
  if (Broker::program().empty()) return nullptr;
  const int port = 30'000 + ::getpid() % 9'000;
  static TemporaryFolder* folder = new TemporaryFolder;
  const auto config = *folder / "mosquitto.conf";
  std::ofstream(config) << "listener " << port << " 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
                        << "max_inflight_messages 0\npersistence false\n";
  static const Broker broker(config, port);
  EXPECT_TRUE(broker.ready());
  const auto settings = RegistryIndex::global().get(Transport::kKind, "mqtt").make_config();
  ConfigVisitor visitor;
  settings->describe(visitor);
  visitor.find("address")->set({{"", ConfigScalar("127.0.0.1:" + std::to_string(port))}});
  return Transports::make_with("mqtt", *settings);
}

}  // namespace chorus::inline tests
