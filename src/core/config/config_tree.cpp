#include "core/config/config_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline config {
namespace {

constexpr std::size_t kDeepestTree = 64;
constexpr std::size_t kMostNodes = 200000;

using Kind = ConfigNode::Kind;

/// Builds the tree from the parser's events. An alias shares the node; an alias inside its own anchor is an error.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& origin, bool is_override, std::vector<ConfigMistake>& mistakes)
      : origin_(origin), is_override_(is_override), mistakes_(mistakes) {}

  ConfigNodePtr root;
  std::string complaint;  // reported only when the parser has no error: an unclosed '[' looks like a key at first

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { finish(make(mark, Kind::kNull), anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw ConfigError(place(mark) + ": an alias refers to a node that contains it");
    place_value(found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const bool plain = tag == "?" || tag.empty();
    const bool null = plain && (value.empty() || value == "~" || value == "null" || value == "Null" || value == "NULL");
    auto node = make(mark, null ? Kind::kNull : Kind::kScalar);
    node->text = value;
    node->quoted = !plain;
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(make(mark, Kind::kList), anchor, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(make(mark, Kind::kMap), anchor, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    std::shared_ptr<ConfigNode> node;
    YAML::anchor_t anchor;
    std::set<std::string> keys{};
    bool has_key = false;
    bool repeated = false;
    std::string key{}, key_where{};
  };

  std::string place(const YAML::Mark& mark) const {
    return is_override_ ? origin_ : fmt::format("{}:{}:{}", origin_, mark.line + 1, mark.column + 1);
  }

  std::shared_ptr<ConfigNode> make(const YAML::Mark& mark, Kind kind) {
    if (++count_ > kMostNodes) {
      throw ConfigError(fmt::format("{}: the configuration has more than {} nodes", place(mark), kMostNodes));
    }
    auto node = std::make_shared<ConfigNode>();
    node->kind = kind;
    node->where = is_override_ ? origin_ : fmt::format("{}:{}", origin_, mark.line + 1);
    return node;
  }

  void open(std::shared_ptr<ConfigNode> node, YAML::anchor_t anchor, const YAML::Mark& mark) {
    if (stack_.size() >= kDeepestTree) {
      throw ConfigError(fmt::format("{}: nested deeper than {} levels", place(mark), kDeepestTree));
    }
    stack_.push_back({std::move(node), anchor});
  }

  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    finish(std::move(done.node), done.anchor);
  }

  void finish(ConfigNodePtr node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    place_value(node);
  }

  void place_value(const ConfigNodePtr& node) {
    if (stack_.empty()) {
      root = node;
      return;
    }
    Open& parent = stack_.back();
    if (parent.node->kind == Kind::kList) {
      parent.node->items.push_back(node);
    } else if (!parent.has_key) {
      if (node->kind == Kind::kList || node->kind == Kind::kMap) {
        if (complaint.empty()) complaint = node->where + ": a key must be a plain name, not a list or map";
      }
      parent.has_key = true;
      parent.key = node->text;
      parent.key_where = node->where;
      parent.repeated = !parent.keys.insert(node->text).second;
    } else {
      parent.has_key = false;
      if (!parent.repeated) {
        parent.node->entries.push_back({parent.key, parent.key_where, node});
        return;
      }
      const ConfigNode::Entry* first = parent.node->find(parent.key);
      mistakes_.push_back({parent.key_where, printable(parent.key),
                           fmt::format("is given twice in this section, first at {}; keep one", first->where)});
    }
  }

  const std::string& origin_;
  bool is_override_;
  std::vector<ConfigMistake>& mistakes_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, ConfigNodePtr> anchors_;
  std::size_t count_ = 0;
};

/// Splits "a.b[0].c" into its names. Empty when the syntax is wrong.
std::vector<std::string> split_path(const std::string& path) {
  std::string dotted;
  for (const char c : path) {
    if (c == ']') continue;
    dotted += c == '[' ? '.' : c;
  }
  std::vector<std::string> names;
  std::istringstream stream(dotted + ".");
  for (std::string name; std::getline(stream, name, '.');) {
    if (name.empty()) return {};
    names.push_back(name);
  }
  return names.size() > kDeepestTree ? std::vector<std::string>{} : names;
}

bool is_index(const std::string& name) { return name.find_first_not_of("0123456789") == std::string::npos; }

struct Assignment {
  const std::vector<std::string>& path;
  ConfigNodePtr value;
  std::string where;
};

ConfigNodePtr assign(const ConfigNodePtr& node, const ConfigNodePtr& defaults, const Assignment& to,
                     std::size_t depth) {
  if (depth == to.path.size()) return to.value;
  const std::string& name = to.path[depth];

  const bool absent = node == nullptr || node->kind == Kind::kNull;
  const bool use_default = absent && defaults != nullptr && defaults->kind == Kind::kList && is_index(name);
  ConfigNode copy;
  if (!absent) copy = *node;
  if (use_default) copy = *defaults;
  if (absent && !use_default) copy.kind = Kind::kMap;
  if (absent) copy.where = node != nullptr ? node->where : to.where;
  if (copy.kind == Kind::kScalar) {
    auto plain = std::make_shared<ConfigNode>(copy);
    copy = ConfigNode{Kind::kMap, to.where, "", false, {}, {{"name", plain->where, plain}}};
  }

  if (copy.kind == Kind::kList) {
    std::size_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size() || index > copy.items.size()) {
      throw std::out_of_range(fmt::format("'{}' is not an index of this list of {}; use 0 to {}", printable(name),
                                          copy.items.size(), copy.items.size()));
    }
    if (index == copy.items.size()) copy.items.push_back(nullptr);
    ConfigNodePtr& item = copy.items[index];
    item = assign(item, nullptr, to, depth + 1);
  } else {
    const ConfigNode::Entry* of_default =
        defaults != nullptr && defaults->kind == Kind::kMap ? defaults->find(name) : nullptr;
    const ConfigNode::Entry* present = copy.find(name);
    const ConfigNodePtr value = assign(present != nullptr ? present->value : nullptr,
                                       of_default != nullptr ? of_default->value : nullptr, to, depth + 1);
    std::erase_if(copy.entries, [&](const auto& entry) { return entry.key == name; });
    copy.entries.push_back({name, to.where, value});
  }
  return std::make_shared<ConfigNode>(std::move(copy));
}

}  // namespace

const ConfigNode::Entry* ConfigNode::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

ConfigNodePtr parse_yaml(const std::string& text, const std::string& origin, bool is_override,
                         std::vector<ConfigMistake>& mistakes) {
  if (text.find('\0') != std::string::npos) throw ConfigError(origin + ": is not a text file (it has zero bytes)");
  TreeBuilder builder(origin, is_override, mistakes);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    const ConfigNodePtr root = builder.root;
    if (parser.HandleNextDocument(builder)) {
      throw ConfigError(origin + ": has more than one YAML document (a line '---' starts another); keep one");
    }
    if (!builder.complaint.empty()) throw ConfigError(builder.complaint);
    return root != nullptr ? root : std::make_shared<ConfigNode>(ConfigNode{Kind::kNull, origin, "", false, {}, {}});
  } catch (const YAML::Exception& error) {
    const std::string place = is_override || error.mark.is_null()
                                  ? origin
                                  : fmt::format("{}:{}:{}", origin, error.mark.line + 1, error.mark.column + 1);
    throw ConfigError(fmt::format("{}: is not valid YAML: {}", place, printable(error.msg)));
  }
}

ConfigNodePtr with_override(const ConfigNodePtr& tree, const ConfigNodePtr& defaults, const std::string& assignment,
                            std::vector<ConfigMistake>& mistakes) {
  const std::string where = fmt::format("override '{}'", shortened(assignment, 60));
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    mistakes.push_back({where, "", "is not of the form key=value, for example trainer.epochs=2"});
    return tree;
  }
  const std::string key = assignment.substr(0, equals);
  const std::vector<std::string> path = split_path(key);
  if (path.empty()) {
    mistakes.push_back({where, "", "the key before '=' must be names joined by dots, for example trainer.epochs"});
    return tree;
  }
  try {
    const ConfigNodePtr value = parse_yaml(assignment.substr(equals + 1), where, true, mistakes);
    return assign(tree, defaults, {path, value, where}, 0);
  } catch (const std::out_of_range& error) {
    mistakes.push_back({where, printable(key), error.what()});
  } catch (const ConfigError& error) {
    std::string message = error.what();
    if (message.starts_with(where + ": ")) message.erase(0, where.size() + 2);
    mistakes.push_back({where, "", "the value after '=': " + message});
  }
  return tree;
}

}  // namespace chorus::inline config
