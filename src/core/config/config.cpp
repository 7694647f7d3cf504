#include "core/config/config.h"

#include <fmt/format.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <cmath>

#include "core/base/error.h"
#include "core/config/config_fill.h"
#include "core/config/registry.h"
#include "core/files/files.h"

namespace chorus::inline config {
namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;
constexpr std::size_t kMostMistakes = 50;

using Type = ConfigField::Type;
using Shape = ConfigField::Shape;

/// Whether a string needs no quotes for any YAML reader.
bool is_plain(const std::string& text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(letter(text[0]) || text[0] == '/')) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.' && c != '/') return false;
  }
  for (const char* word :
       {"null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", "yes", "Yes", "YES", "no",
        "No",   "NO",   "on",   "On",   "ON",   "off",  "Off",   "OFF",   "y",     "Y",   "n",   "N"}) {
    if (text == word) return false;
  }
  return true;
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (!is_plain(text)) out << YAML::DoubleQuoted;
  out << text;
}

void emit_scalar(YAML::Emitter& out, const ConfigScalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) {
    out << (*flag ? "true" : "false");
  } else if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    out << fmt::format("{}", *whole);
  } else if (const auto* number = std::get_if<double>(&value)) {
    chorus::check(!std::isnan(*number), "a configuration value is NaN");
    out << (std::isinf(*number) ? (*number < 0 ? "-.inf" : ".inf") : fmt::format("{}", *number));
  } else {
    emit_text(out, std::get<std::string>(value));
  }
}

void emit_fields(YAML::Emitter& out, ConfigVisitor& visitor);

void emit_element(YAML::Emitter& out, ConfigField& field, std::size_t index) {
  ConfigVisitor visitor;
  if (field.type == Type::kSection) {
    field.describe(index, visitor);
    out << YAML::BeginMap;
    emit_fields(out, visitor);
    out << YAML::EndMap;
    return;
  }
  AnyChoice& choice = field.choice(index);
  if (choice.name().empty()) {
    out << YAML::Null;
    return;
  }
  choice.describe(visitor);
  if (visitor.fields().empty()) {
    emit_text(out, choice.name());
    return;
  }
  out << YAML::BeginMap << YAML::Key << "name" << YAML::Value;
  emit_text(out, choice.name());
  emit_fields(out, visitor);
  out << YAML::EndMap;
}

void emit_nested(YAML::Emitter& out, ConfigField& field) {
  const std::size_t size = field.size();
  if (field.shape == Shape::kOne) {
    emit_element(out, field, 0);
  } else if (field.shape == Shape::kOptional) {
    if (size == 0) {
      out << YAML::Null;
    } else {
      emit_element(out, field, 0);
    }
  } else {
    if (size == 0) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (std::size_t i = 0; i < size; ++i) emit_element(out, field, i);
    out << YAML::EndSeq;
  }
}

void emit_items(YAML::Emitter& out, const ConfigField& field) {
  const std::vector<ConfigItem> items = field.get();
  if (field.shape == Shape::kList) {
    out << YAML::Flow << YAML::BeginSeq;
    for (const ConfigItem& item : items) emit_scalar(out, item.second);
    out << YAML::EndSeq;
  } else if (field.shape == Shape::kMap) {
    if (items.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (const ConfigItem& item : items) {
      out << YAML::Key;
      emit_text(out, item.first);
      out << YAML::Value;
      emit_scalar(out, item.second);
    }
    out << YAML::EndMap;
  } else if (items.empty()) {
    chorus::check(field.shape == Shape::kOptional, "an enum has a value without a name");
    out << YAML::Null;
  } else {
    emit_scalar(out, items.front().second);
  }
}

void emit_fields(YAML::Emitter& out, ConfigVisitor& visitor) {
  for (ConfigField& field : visitor.fields()) {
    out << YAML::Key << field.name << YAML::Value;
    if (field.type == Type::kSection || field.type == Type::kChoice) {
      emit_nested(out, field);
    } else {
      emit_items(out, field);
    }
  }
}

}  // namespace

ConfigDocument ConfigDocument::read(const std::filesystem::path& path, std::vector<std::string> overrides) {
  return parse(read_file(path, kLargestFile), path.string(), std::move(overrides));
}

ConfigDocument ConfigDocument::parse(const std::string& text, std::string origin, std::vector<std::string> overrides) {
  ConfigDocument document;
  document.origin_ = std::move(origin);
  document.overrides_ = std::move(overrides);
  document.tree_ = parse_yaml(text, document.origin_, false, document.mistakes_);
  return document;
}

std::string ConfigDocument::kind(std::string_view otherwise) const {
  std::string result(otherwise);
  if (const ConfigNode::Entry* entry = tree_->find("kind")) {
    if (entry->value->kind != ConfigNode::Kind::kScalar) {
      throw ConfigError(entry->where + ": kind: must be one name");
    }
    result = entry->value->text;
  }
  for (const std::string& assignment : overrides_) {
    if (assignment.starts_with("kind=")) result = assignment.substr(5);
  }
  return result;
}

void ConfigDocument::fill(const DescribeConfig& describe) const {
  std::vector<ConfigMistake> mistakes = mistakes_;
  ConfigNodePtr tree = tree_;
  if (!overrides_.empty()) {
    std::vector<ConfigMistake> ignored;
    const ConfigNodePtr defaults = parse_yaml(to_yaml(describe), "default", true, ignored);
    for (const std::string& assignment : overrides_) tree = with_override(tree, defaults, assignment, mistakes);
  }
  ConfigVisitor visitor;
  describe(visitor);
  ConfigFiller(mistakes, ignores_paths_).fill(visitor, tree, "", "kind");
  if (!mistakes.empty()) throw ConfigError(mistakes_text(origin_, mistakes));
}

std::string to_yaml(const DescribeConfig& describe, std::string_view kind) {
  ConfigVisitor visitor;
  describe(visitor);
  YAML::Emitter out;
  out << YAML::BeginMap;
  if (!kind.empty()) {
    out << YAML::Key << "kind" << YAML::Value;
    emit_text(out, std::string(kind));
  }
  emit_fields(out, visitor);
  out << YAML::EndMap;
  if (!out.good()) throw InternalError("a configuration cannot be written as YAML: " + out.GetLastError());
  return std::string(out.c_str()) + "\n";
}

std::string mistakes_text(const std::string& origin, const std::vector<ConfigMistake>& mistakes) {
  const auto line = [](const ConfigMistake& mistake) {
    return mistake.where + ": " + (mistake.key.empty() ? "" : mistake.key + ": ") + mistake.message;
  };
  if (mistakes.size() == 1) return line(mistakes.front());
  std::string text = fmt::format("{} has {} mistakes:", origin, mistakes.size());
  for (std::size_t i = 0; i < std::min(mistakes.size(), kMostMistakes); ++i) text += "\n  " + line(mistakes[i]);
  if (mistakes.size() > kMostMistakes) text += fmt::format("\n  ... and {} more", mistakes.size() - kMostMistakes);
  return text;
}

}  // namespace chorus::inline config
