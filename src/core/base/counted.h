#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace chorus::inline base {

/// "1 client", "3 clients".
inline std::string counted(std::size_t count, std::string_view one) {
  return std::to_string(count) + " " + std::string(one) + (count == 1 ? "" : "s");
}

}  // namespace chorus::inline base
