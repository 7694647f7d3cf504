#include "core/config/config_fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/config/registry.h"
#include "core/console/terminal.h"

namespace chorus::inline config {
namespace {

using Kind = ConfigNode::Kind;
using Type = ConfigField::Type;
using Shape = ConfigField::Shape;

std::string join(const std::string& path, const std::string& name) {
  const std::string shown = shortened(name, 80);
  return path.empty() ? shown : path + "." + shown;
}

std::string shown(const ConfigNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a section";
    case Kind::kScalar:
      break;
  }
  return fmt::format("'{}'", shortened(node.text, 60));
}

bool parse_bool(const std::string& text, bool& value) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  value = lower == "true" || lower == "yes" || lower == "on";
  return value || lower == "false" || lower == "no" || lower == "off";
}

bool parse_double(std::string_view text, double& value) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = text.substr(negative || text.starts_with('+') ? 1 : 0);
  if (digits == ".inf" || digits == ".Inf" || digits == "inf") {
    value = negative ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  // from_chars accepts "nan", "infinity" and a second sign.
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9'))) return false;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return false;
  if (negative) value = -value;
  return true;
}

bool parse_int(std::string_view text, std::int64_t& value) {
  const std::string_view digits = text.substr(text.starts_with('+') ? 1 : 0);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!digits.empty() && parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size()) return true;
  double number = 0;
  if (!parse_double(text, number) || std::abs(number) > 0x1p53 || number != std::floor(number)) return false;
  value = static_cast<std::int64_t>(number);
  return true;
}

template <typename T>
bool in_bounds(const ConfigField& field, T value) {
  const auto number = static_cast<double>(value);
  if (field.minimum && (field.above_minimum ? number <= *field.minimum : number < *field.minimum)) return false;
  return !(field.maximum && (field.below_maximum ? number >= *field.maximum : number > *field.maximum));
}

/// What one item of the field may be: the field as if it were not a list, map or optional.
std::string item_text(ConfigField field) {
  field.shape = Shape::kOne;
  return allowed_text(field);
}

/// "{name:fedavg}" is one key without a value in YAML: what to write instead, or nothing.
std::string missing_space(const ConfigNode::Entry& entry) {
  const std::size_t colon = entry.key.find(':');
  if (colon == std::string::npos || entry.value->kind != Kind::kNull) return "";
  return fmt::format("; write a space after the colon: '{}: {}'", entry.key.substr(0, colon),
                     shortened(entry.key.substr(colon + 1), 40));
}

/// What to write instead of an unknown key.
std::string help_for_unknown(const ConfigNode::Entry& entry, const std::vector<std::string>& names) {
  std::string help = missing_space(entry);
  if (help.empty()) help = did_you_mean(entry.key, names);
  if (!help.empty()) return help;
  return names.empty() ? "; this section has no keys" : fmt::format("; known keys: {}", fmt::join(names, ", "));
}

}  // namespace

void ConfigFiller::report(const ConfigNode& node, const std::string& key, std::string message) {
  mistakes_.push_back({node.where, key, std::move(message)});
}

void ConfigFiller::fill(ConfigVisitor& visitor, const ConfigNodePtr& node, const std::string& path,
                        const std::string& skip) {
  const std::size_t before = mistakes_.size();
  if (node->kind != Kind::kMap && node->kind != Kind::kNull) {
    report(*node, path, fmt::format("{} is given where a section (keys with values) is expected", shown(*node)));
    return;
  }
  std::vector<std::string> names;
  for (const ConfigField& field : visitor.fields()) names.push_back(field.name);
  for (const ConfigNode::Entry& entry : node->entries) {
    if (entry.key == skip || visitor.find(entry.key) != nullptr) continue;
    mistakes_.push_back({entry.where, join(path, entry.key), "unknown key" + help_for_unknown(entry, names)});
  }
  for (ConfigField& field : visitor.fields()) {
    const std::string key = join(path, field.name);
    if (ignore_paths_ && field.is_path) continue;
    if (const ConfigNode::Entry* entry = node->find(field.name)) {
      fill_field(field, entry->value, key);
    } else if (field.is_required) {
      report(*node, key, fmt::format("is required and missing; it takes {}", allowed_text(field)));
    } else if (field.shape == Shape::kOne && (field.type == Type::kSection || field.type == Type::kChoice)) {
      // Its own required fields may be missing.
      fill_element(field, 0, std::make_shared<ConfigNode>(ConfigNode{Kind::kNull, node->where, "", false, {}, {}}),
                   key);
    }
  }
  if (mistakes_.size() > before) return;
  for (const auto& check_section : visitor.checks()) {
    const std::string message = check_section();
    if (!message.empty()) report(*node, path, message);
  }
}

void ConfigFiller::fill_field(ConfigField& field, const ConfigNodePtr& node, const std::string& path) {
  if (field.type == Type::kSection || field.type == Type::kChoice) {
    fill_nested(field, node, path);
  } else {
    fill_items(field, *node, path);
  }
}

void ConfigFiller::fill_items(ConfigField& field, const ConfigNode& node, const std::string& path) {
  const std::size_t before = mistakes_.size();
  std::vector<ConfigItem> items;
  const auto add = [&](const std::string& key, const ConfigNode& item, const std::string& item_path) {
    ConfigScalar value;
    if (read_scalar(field, item, item_path, value)) items.emplace_back(key, std::move(value));
  };
  if (field.shape == Shape::kList) {
    if (node.kind != Kind::kList) {
      report(node, path,
             fmt::format("{} is not a list; write [a, b, ...]; allowed: {}", shown(node), allowed_text(field)));
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) add("", *node.items[i], fmt::format("{}.{}", path, i));
  } else if (field.shape == Shape::kMap) {
    if (node.kind != Kind::kMap) {
      report(node, path,
             fmt::format("{} is not a map; write {{name: value, ...}}; allowed: {}", shown(node), allowed_text(field)));
      return;
    }
    for (const auto& entry : node.entries) add(entry.key, *entry.value, join(path, entry.key));
  } else if (field.shape == Shape::kOne || node.kind != Kind::kNull) {
    add("", node, path);
  }
  if (field.is_not_empty && items.empty() && mistakes_.size() == before) {
    report(node, path, fmt::format("may not be empty; allowed: {}", allowed_text(field)));
  }
  if (mistakes_.size() == before) field.set(items);
}

bool ConfigFiller::read_scalar(const ConfigField& field, const ConfigNode& node, const std::string& path,
                               ConfigScalar& value) {
  const auto wrong = [&](const std::string& why) {
    report(node, path, fmt::format("{} {}; allowed: {}", shown(node), why, item_text(field)));
    return false;
  };
  if (node.kind == Kind::kNull) {
    report(node, path, fmt::format("has no value; allowed: {}", item_text(field)));
    return false;
  }
  if (node.kind != Kind::kScalar) return wrong("is given where one value is expected");
  switch (field.type) {
    case Type::kBool: {
      bool parsed = false;
      if (!parse_bool(node.text, parsed)) return wrong("is not true or false");
      value = parsed;
      return true;
    }
    case Type::kInt: {
      std::int64_t parsed = 0;
      if (!parse_int(node.text, parsed)) return wrong("is not a whole number that fits 64 bits");
      value = parsed;
      return in_bounds(field, parsed) || wrong("is out of range");
    }
    case Type::kDouble: {
      double parsed = 0;
      if (!parse_double(node.text, parsed)) return wrong("is not a number");
      value = parsed;
      // A setting with a bound is a rate, a share, a size: none may be infinite.
      if (std::isinf(parsed) && (field.minimum || field.maximum)) return wrong("is not finite");
      return in_bounds(field, parsed) || wrong("is out of range");
    }
    default:
      break;
  }
  if (!field.allowed.empty() &&
      std::find(field.allowed.begin(), field.allowed.end(), node.text) == field.allowed.end()) {
    const std::string guess = did_you_mean(node.text, field.allowed);
    report(node, path, fmt::format("{} is not {}{}", shown(node), item_text(field), guess));
    return false;
  }
  if ((field.is_path || field.is_not_empty) && node.text.empty()) return wrong("is empty");
  std::error_code ignored;
  if (field.must_exist && !std::filesystem::exists(node.text, ignored)) {
    return wrong("does not exist");
  }
  value = node.text;
  return true;
}

void ConfigFiller::fill_nested(ConfigField& field, const ConfigNodePtr& node, const std::string& path) {
  if (field.shape == Shape::kOne) {
    fill_element(field, 0, node, path);
  } else if (field.shape == Shape::kOptional) {
    field.resize(node->kind == Kind::kNull ? 0 : 1);
    if (node->kind != Kind::kNull) fill_element(field, 0, node, path);
  } else if (node->kind != Kind::kList) {
    report(*node, path, fmt::format("{} is not a list; write one item per line, each after '- '", shown(*node)));
  } else {
    if (field.is_not_empty && node->items.empty()) report(*node, path, "may not be empty");
    field.resize(node->items.size());
    for (std::size_t i = 0; i < node->items.size(); ++i) {
      fill_element(field, i, node->items[i], fmt::format("{}.{}", path, i));
    }
  }
}

void ConfigFiller::fill_element(ConfigField& field, std::size_t index, const ConfigNodePtr& node,
                                const std::string& path) {
  if (field.type == Type::kChoice) {
    fill_choice(field, index, node, path);
    return;
  }
  ConfigVisitor visitor;
  field.describe(index, visitor);
  fill(visitor, node, path, "");
}

void ConfigFiller::fill_choice(ConfigField& field, std::size_t index, const ConfigNodePtr& node,
                               const std::string& path) {
  AnyChoice& choice = field.choice(index);
  ConfigNodePtr section = node;
  std::string name = choice.name();
  const ConfigNode* named = node.get();  // the node that holds the name
  if (node->kind == Kind::kScalar) {
    name = node->text;
    section = std::make_shared<ConfigNode>(ConfigNode{Kind::kNull, node->where, "", false, {}, {}});
  } else if (node->kind == Kind::kMap) {
    if (const ConfigNode::Entry* entry = node->find("name")) {
      named = entry->value.get();
      name = named->kind == Kind::kScalar ? named->text : "";
    }
    for (const ConfigNode::Entry& entry : node->entries) {
      if (!entry.key.starts_with("name:") || missing_space(entry).empty()) continue;
      mistakes_.push_back({entry.where, join(path, entry.key), "unknown key" + missing_space(entry)});
      return;
    }
  } else if (node->kind == Kind::kList) {
    report(*node, path, fmt::format("a list is given where the name of a {} is expected", field.kind));
    return;
  }
  const RegistryIndex& index_of_names = RegistryIndex::global();
  if (name.empty()) {
    report(*named, path,
           fmt::format("needs the name of a {}: one of {}", field.kind,
                       fmt::join(index_of_names.names(field.kind), ", ")));
    return;
  }
  const std::string mistake = index_of_names.mistake(field.kind, shortened(name, 80));
  if (!mistake.empty()) {
    report(*named, path, mistake);
    return;
  }
  if (name != choice.name()) choice.select(name);
  ConfigVisitor visitor;
  choice.describe(visitor);
  chorus::check(visitor.find("name") == nullptr, "the configuration of a registered name may not have a field 'name'");
  fill(visitor, section, path, "name");
}

}  // namespace chorus::inline config
