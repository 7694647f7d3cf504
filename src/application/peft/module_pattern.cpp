#include "application/peft/module_pattern.h"

// GCC 12 warns about libstdc++'s own code when it is optimised.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <regex>
#pragma GCC diagnostic pop

namespace chorus::inline peft {

bool matches_module(const std::string& pattern, const std::string& module) {
  return std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")"));
}

bool is_module_pattern(const std::string& pattern) {
  try {
    const std::regex compiled(pattern);
    return true;
  } catch (const std::regex_error&) {
    return false;
  }
}

}  // namespace chorus::inline peft
