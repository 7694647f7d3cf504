#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config_tree.h"
#include "core/config/config_visitor.h"

namespace chorus::inline config {

/// Calls `describe` of a struct whose type is erased.
using DescribeConfig = std::function<void(ConfigVisitor&)>;

/// A configuration file with command-line overrides, not yet loaded into a struct. `load` reports every mistake at
/// once, each with its location (file:line, or the override), the key, the value, what is allowed and the nearest valid
/// name.
///
///     const auto document = ConfigDocument::read("experiment.yaml", {"rounds=10", "trainer.epochs=2"});
///     const auto config = document.load<ExperimentConfig>();
///
/// YAML semantics: a missing or empty section keeps its defaults; a list or map replaces the default one; null unsets
/// an optional; an integer may be written 1e4; aliases work; merge keys (<<) do not.
class ConfigDocument {
 public:
  /// DataError when the file cannot be read or is larger than 1 MiB; ConfigError when it is not YAML.
  static ConfigDocument read(const std::filesystem::path& path, std::vector<std::string> overrides = {});
  /// `origin` replaces the file name in messages.
  static ConfigDocument parse(const std::string& text, std::string origin, std::vector<std::string> overrides = {});

  /// Fields that name files or folders keep their defaults: another machine's configuration has no say in the files of
  /// this one, and must not learn which of them exist.
  ConfigDocument& ignore_paths() {
    ignores_paths_ = true;
    return *this;
  }

  /// The value of the top-level key `kind`, which names what the file configures (RegistryIndex kind "config"), or
  /// `otherwise` when it is absent. `load` and `fill` skip that key.
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
  bool ignores_paths_ = false;
  std::vector<ConfigMistake> mistakes_;  // found while parsing
};

/// All values as YAML that `ConfigDocument` reads back exactly, doubles bit for bit. With `kind`, the first line is
/// `kind: ...`.
std::string to_yaml(const DescribeConfig& describe, std::string_view kind = "");
template <ConfigStruct T>
std::string config_to_yaml(T config, std::string_view kind = "") {
  return to_yaml([&](ConfigVisitor& visitor) { config.describe(visitor); }, kind);
}

/// The message of a ConfigError: one line per mistake, preceded by their number when there are several.
std::string mistakes_text(const std::string& origin, const std::vector<ConfigMistake>& mistakes);

}  // namespace chorus::inline config
