#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>

#include "application/data/synthetic/synthetic.h"
#include "application/data/synthetic/words.h"
#include "core/base/error.h"
#include "core/base/nearest.h"

namespace chorus::inline synthetic {
namespace {

template <typename T>
T number(std::string_view name, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw ConfigError(fmt::format("synthetic data: {} is '{}', but must be {}", name, text,
                                  std::is_integral_v<T> ? "a whole number, not negative" : "a number"));
  }
  return value;
}

}  // namespace

SyntheticConfig parse_synthetic(std::string_view text, const SyntheticConfig& defaults) {
  SyntheticConfig config = defaults;
  const std::pair<std::string_view, std::uint64_t*> counts[] = {
      {"examples", &config.examples}, {"validation_examples", &config.validation_examples},
      {"labels", &config.labels},     {"test_examples", &config.test_examples},
      {"clients", &config.clients},   {"sources", &config.sources},
      {"seed", &config.seed}};
  const std::pair<std::string_view, double*> shares[] = {
      {"activity", &config.activity},       {"skew", &config.skew},   {"overlap", &config.overlap},
      {"label_noise", &config.label_noise}, {"typos", &config.typos}, {"drift", &config.drift}};

  for (const std::string_view item : synthetic::cut(text)) {
    if (item.empty()) continue;
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      throw ConfigError(
          fmt::format("synthetic data: '{}' is not NAME=VALUE; write for example "
                      "'formulation=seq2seq,examples=500,seed=7'",
                      item));
    }
    const std::string_view name = item.substr(0, equals);
    const std::string_view value = item.substr(equals + 1);
    bool known = name == "formulation";
    std::vector<std::string> names{"formulation"};
    if (known) config.formulation = formulation_named(std::string(value));
    for (const auto& [field, target] : counts) {
      names.emplace_back(field);
      if (name != field) continue;
      *target = number<std::uint64_t>(name, value);
      known = true;
    }
    for (const auto& [field, target] : shares) {
      names.emplace_back(field);
      if (name != field) continue;
      *target = number<double>(name, value);
      known = true;
    }
    if (!known) {
      throw ConfigError(fmt::format("synthetic data: unknown name '{}'{}; the names are {}", name,
                                    did_you_mean(name, names), fmt::join(names, ", ")));
    }
  }
  validate(config);
  return config;
}

}  // namespace chorus::inline synthetic
