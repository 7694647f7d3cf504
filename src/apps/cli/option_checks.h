#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace chorus::inline cli {

/// A whole number from `least` up. CLI11's own checks name the largest double, which has 309 digits.
CLI::Validator at_least(std::int64_t least);

/// Refuses negative numbers in every option of an unsigned type, of `app` and all its subcommands: CLI11 would turn -5
/// into 2^64 - 5.
void refuse_negative_numbers(CLI::App& app);

/// One of several names, each meaning a value of an enum:
///
///     command->add_option("--type", kind, "...")->transform(choice<Kind>({{"bpe", Kind::kBpe}, ...}));
template <typename Enum>
CLI::Validator choice(std::vector<std::pair<std::string, Enum>> choices) {
  std::string names;
  for (const auto& entry : choices) names += (names.empty() ? "" : ", ") + entry.first;
  const std::string description = "{" + names + "}";
  return {[choices = std::move(choices), names = std::move(names)](std::string& text) {
            for (const auto& [name, value] : choices) {
              if (text != name) continue;
              text = std::to_string(static_cast<std::int64_t>(value));
              return std::string();
            }
            return fmt::format("{} is none of {}", text, names);
          },
          description};
}

}  // namespace chorus::inline cli
