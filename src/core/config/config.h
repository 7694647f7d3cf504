#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config_tree.h"
#include "core/config/config_visitor.h"

namespace chorus {

/// Calls `describe` of some struct, whatever its type.
using DescribeConfig = std::function<void(ConfigVisitor&)>;

/// A configuration file with the overrides of a command line, not yet given to a struct. `load` reports every mistake
/// at once, each with its place (file:line, or the override), the key, the value, what is allowed, and the nearest
/// valid name.
///
///     const auto document = ConfigDocument::read("experiment.yaml", {"training.rounds=10", "filters.0.norm=2"});
///     const auto config = document.load<ExperimentConfig>();
///
/// What YAML means here: a section that is absent or empty keeps its defaults; a list or map that is given replaces the
/// default one; null unsets an optional; a whole number may be written 1e4; aliases work; merge keys (<<) do not.
class ConfigDocument {
 public:
  /// DataError when the file cannot be read or is larger than 1 MiB; ConfigError when it is no YAML.
  static ConfigDocument read(const std::filesystem::path& path, std::vector<std::string> overrides = {});
  /// `origin` stands for the file's name in messages.
  static ConfigDocument parse(const std::string& text, std::string origin, std::vector<std::string> overrides = {});

  /// The value of the top-level key `kind`, which says what the file configures (RegistryIndex kind "config"), or
  /// `otherwise` when there is none. `load` and `fill` pass over that key.
  std::string kind(std::string_view otherwise) const;

  template <ConfigStruct T>
  T load() const {
    T config;
    fill([&](ConfigVisitor& visitor) { config.describe(visitor); });
    return config;
  }
  /// Fills the struct behind `describe`. ConfigError with all mistakes; the struct is then partly filled.
  void fill(const DescribeConfig& describe) const;

 private:
  std::string origin_;
  ConfigNodePtr tree_;
  std::vector<std::string> overrides_;
  std::vector<ConfigMistake> mistakes_;  // found while parsing
};

/// Every value as YAML that `ConfigDocument` reads back to the same values, doubles bit for bit. With `kind` a first
/// line `kind: ...`.
std::string to_yaml(const DescribeConfig& describe, std::string_view kind = "");
template <ConfigStruct T>
std::string config_to_yaml(T config, std::string_view kind = "") {
  return to_yaml([&](ConfigVisitor& visitor) { config.describe(visitor); }, kind);
}

/// The sentence of a ConfigError: one line a mistake, with a count before them when there are several.
std::string mistakes_text(const std::string& origin, const std::vector<ConfigMistake>& mistakes);

}  // namespace chorus
