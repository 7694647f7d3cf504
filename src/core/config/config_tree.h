#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chorus {

struct ConfigNode;
using ConfigNodePtr = std::shared_ptr<const ConfigNode>;

/// What a configuration file says, before anybody knows what it should say: YAML as a tree that remembers where every
/// part came from. Nodes are immutable and shared, so an alias costs nothing however often it is used.
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

  /// The value of a map's key, or null.
  const Entry* find(std::string_view key) const;
};

/// One thing that is wrong, and where.
struct ConfigMistake {
  std::string where;
  std::string key;  ///< dotted path; empty when it concerns the whole
  std::string message;
};

/// Parses one YAML document. Keys that stand twice in a map are added to `mistakes`; text that is no YAML, has more
/// than one document, is nested deeper than 64 levels or has more than 200,000 parts is a ConfigError with line and
/// column. `origin` is the file's name; with `is_override` every place is just `origin`.
ConfigNodePtr parse_yaml(const std::string& text, const std::string& origin, bool is_override,
                         std::vector<ConfigMistake>& mistakes);

/// `a.b.0.c=value` (or `a.b[0].c`), applied: the tree with that place replaced by the YAML value. What is missing on
/// the way is made; a list that only the defaults have is taken from them; index = size appends; a choice written as a
/// plain name becomes {name: ...}. What cannot be done is added to `mistakes` and changes nothing.
ConfigNodePtr with_override(const ConfigNodePtr& tree, const ConfigNodePtr& defaults, const std::string& assignment,
                            std::vector<ConfigMistake>& mistakes);

}  // namespace chorus
