#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chorus::inline config {

struct ConfigNode;
using ConfigNodePtr = std::shared_ptr<const ConfigNode>;

/// A parsed YAML file, before it is matched to a struct: a tree that knows the location of every part. Nodes are
/// immutable and shared, so aliases cost nothing.
struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry {
    std::string key;
    std::string where;  ///< "file.yaml:12", or "override 'a.b=c'"
    ConfigNodePtr value;
  };

  Kind kind = Kind::kNull;
  std::string where;
  std::string text;                  ///< of a scalar
  bool quoted = false;               ///< the scalar was in quotes: never null
  std::vector<ConfigNodePtr> items;  ///< of a list
  std::vector<Entry> entries;        ///< of a map, each key once

  /// The entry of a map's key, or null.
  const Entry* find(std::string_view key) const;
};

/// One mistake and its location.
struct ConfigMistake {
  std::string where;
  std::string key;  ///< dotted path; empty when it concerns the whole file
  std::string message;
};

/// Parses one YAML document. Duplicate keys are added to `mistakes`. Text that is not YAML, has more than one document,
/// is nested deeper than 64 levels or has more than 200,000 nodes is a ConfigError with line and column. `origin` is
/// the file name; with `is_override` every location is just `origin`.
ConfigNodePtr parse_yaml(const std::string& text, const std::string& origin, bool is_override,
                         std::vector<ConfigMistake>& mistakes);

/// Applies `a.b.0.c=value` (or `a.b[0].c`): returns the tree with that node replaced by the YAML value. Missing nodes
/// on the path are created; a list that only the defaults have is copied from them; index = size appends; a choice
/// written as a plain name becomes {name: ...}. An impossible override is added to `mistakes` and changes nothing.
ConfigNodePtr with_override(const ConfigNodePtr& tree, const ConfigNodePtr& defaults, const std::string& assignment,
                            std::vector<ConfigMistake>& mistakes);

}  // namespace chorus::inline config
