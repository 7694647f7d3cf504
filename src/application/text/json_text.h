#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace chorus::inline text {

/// Parses JSON; DataError with file, line and column.
nlohmann::json parse_json(std::string_view json, const std::string& file);

}  // namespace chorus::inline text
