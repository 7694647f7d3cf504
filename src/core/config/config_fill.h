#pragma once

#include <string>
#include <vector>

#include "core/config/config_tree.h"
#include "core/config/config_visitor.h"

namespace chorus::inline config {

/// Assigns the values of a tree to the fields of a struct and collects mistakes. Used by ConfigDocument.
class ConfigFiller {
 public:
  ConfigFiller(std::vector<ConfigMistake>& mistakes, bool ignore_paths)
      : mistakes_(mistakes), ignore_paths_(ignore_paths) {}

  /// `path` is the section's dotted name, "" at the top; `skip` is a key that does not belong to the struct (`kind`,
  /// `name`).
  void fill(ConfigVisitor& visitor, const ConfigNodePtr& node, const std::string& path, const std::string& skip);

 private:
  void fill_field(ConfigField& field, const ConfigNodePtr& node, const std::string& path);
  void fill_items(ConfigField& field, const ConfigNode& node, const std::string& path);
  void fill_nested(ConfigField& field, const ConfigNodePtr& node, const std::string& path);
  void fill_element(ConfigField& field, std::size_t index, const ConfigNodePtr& node, const std::string& path);
  void fill_choice(ConfigField& field, std::size_t index, const ConfigNodePtr& node, const std::string& path);
  bool read_scalar(const ConfigField& field, const ConfigNode& node, const std::string& path, ConfigScalar& value);
  void report(const ConfigNode& node, const std::string& key, std::string message);

  std::vector<ConfigMistake>& mistakes_;
  const bool ignore_paths_;
};

}  // namespace chorus::inline config
