#include "application/text/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace chorus::inline text {

nlohmann::json parse_json(std::string_view json, const std::string& file) {
  if (json.find_first_not_of(" \t\r\n") == std::string_view::npos) throw DataError(fmt::format("{}: is empty", file));
  try {
    return nlohmann::json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 8: syntax error while ..."
    std::string_view reason = error.what();
    if (const auto end = reason.find("] "); end != std::string_view::npos) reason.remove_prefix(end + 2);
    if (reason.starts_with("parse error ")) reason.remove_prefix(12);
    throw DataError(fmt::format("{}: malformed JSON {}", file, reason));
  }
}

}  // namespace chorus::inline text
