#include "apps/cli/option_checks.h"

#include <charconv>

namespace chorus::inline cli {

CLI::Validator at_least(std::int64_t least) {
  return {[least](std::string& text) {
            std::int64_t number = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
            if (error == std::errc::result_out_of_range && !text.starts_with('-')) return std::string();
            if (error != std::errc() || end != text.data() + text.size()) {
              return fmt::format("{} is not a whole number", text);
            }
            return number < least ? fmt::format("{} is too small; it must be at least {}", text, least) : std::string();
          },
          fmt::format(">= {}", least)};
}

void refuse_negative_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](const CLI::Option*) { return true; })) {
    if (!option->get_type_name().starts_with("UINT")) continue;
    option->check(CLI::Validator(
        [](std::string& text) {
          if (text.starts_with('-')) return fmt::format("{} is negative; give 0 or a positive number", text);
          std::uint64_t number = 0;
          const auto error = std::from_chars(text.data(), text.data() + text.size(), number).ec;
          return error == std::errc::result_out_of_range ? text + " is too large" : std::string();
        },
        ""));
  }
  for (CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) refuse_negative_numbers(*sub);
}

}  // namespace chorus::inline cli
