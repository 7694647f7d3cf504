#include "core/config/config_visitor.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline config {
namespace {

using Type = ConfigField::Type;
using Shape = ConfigField::Shape;

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, bool>) return Type::kBool;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::kInt;
  if constexpr (std::is_same_v<T, double>) return Type::kDouble;
  return Type::kString;
}

template <typename T>
void bind(ConfigField& field, T& value) {
  field.get = [&value] { return std::vector<ConfigItem>{{"", value}}; };
  field.set = [&value](const std::vector<ConfigItem>& items) { value = std::get<T>(items.front().second); };
}

template <typename T>
void bind(ConfigField& field, std::optional<T>& value) {
  field.get = [&value] {
    std::vector<ConfigItem> items;
    if (value.has_value()) items.emplace_back("", *value);
    return items;
  };
  field.set = [&value](const std::vector<ConfigItem>& items) {
    value.reset();
    if (!items.empty()) value = std::get<T>(items.front().second);
  };
}

template <typename T>
void bind(ConfigField& field, std::vector<T>& value) {
  field.get = [&value] {
    std::vector<ConfigItem> items;
    for (const T& item : value) items.emplace_back("", item);
    return items;
  };
  field.set = [&value](const std::vector<ConfigItem>& items) {
    value.clear();
    for (const ConfigItem& item : items) value.push_back(std::get<T>(item.second));
  };
}

template <typename T>
void bind(ConfigField& field, std::map<std::string, T>& value) {
  field.get = [&value] { return std::vector<ConfigItem>(value.begin(), value.end()); };
  field.set = [&value](const std::vector<ConfigItem>& items) {
    value.clear();
    for (const ConfigItem& item : items) value.emplace(item.first, std::get<T>(item.second));
  };
}

void check_numeric(const ConfigField& field) {
  if (field.type != Type::kInt && field.type != Type::kDouble) {
    throw InternalError(
        fmt::format("the configuration field '{}' is not a number and cannot have a bound", field.name));
  }
}

}  // namespace

ConfigField& ConfigField::at_least(double bound) {
  check_numeric(*this);
  minimum = bound;
  above_minimum = false;
  return *this;
}

ConfigField& ConfigField::at_most(double bound) {
  check_numeric(*this);
  maximum = bound;
  below_maximum = false;
  return *this;
}

ConfigField& ConfigField::above(double bound) {
  at_least(bound).above_minimum = true;
  return *this;
}

ConfigField& ConfigField::below(double bound) {
  at_most(bound).below_maximum = true;
  return *this;
}

ConfigField& ConfigField::one_of(std::vector<std::string> names) {
  chorus::check(type == Type::kString, "only a string can be one of several names");
  allowed = std::move(names);
  return *this;
}

ConfigField& ConfigField::required() {
  is_required = true;
  return *this;
}

ConfigField& ConfigField::not_empty() {
  is_not_empty = true;
  return *this;
}

ConfigField& ConfigField::path() {
  chorus::check(type == Type::kString, "only a string can be a path");
  is_path = true;
  return *this;
}

ConfigField& ConfigField::existing() {
  must_exist = true;
  return path();
}

ConfigField& ConfigVisitor::add(std::string_view name, std::string_view help, Type type, Shape shape) {
  if (find(name) != nullptr) {
    throw InternalError(fmt::format("the configuration field '{}' is described twice", name));
  }
  ConfigField& field = fields_.emplace_back();
  field.name = name;
  field.help = help;
  field.type = type;
  field.shape = shape;
  return field;
}

ConfigField* ConfigVisitor::find(std::string_view name) {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.name == name; });
  return found == fields_.end() ? nullptr : &*found;
}

#define CHORUS_CONFIG_FIELD(CPP_TYPE, ITEM, SHAPE)                                                   \
  ConfigField& ConfigVisitor::field(std::string_view name, CPP_TYPE& value, std::string_view help) { \
    ConfigField& field = add(name, help, type_of<ITEM>(), SHAPE);                                    \
    bind(field, value);                                                                              \
    return field;                                                                                    \
  }
using DoubleMap = std::map<std::string, double>;
using StringMap = std::map<std::string, std::string>;
CHORUS_CONFIG_FIELD(bool, bool, Shape::kOne)
CHORUS_CONFIG_FIELD(std::int64_t, std::int64_t, Shape::kOne)
CHORUS_CONFIG_FIELD(double, double, Shape::kOne)
CHORUS_CONFIG_FIELD(std::string, std::string, Shape::kOne)
CHORUS_CONFIG_FIELD(std::optional<bool>, bool, Shape::kOptional)
CHORUS_CONFIG_FIELD(std::optional<std::int64_t>, std::int64_t, Shape::kOptional)
CHORUS_CONFIG_FIELD(std::optional<double>, double, Shape::kOptional)
CHORUS_CONFIG_FIELD(std::optional<std::string>, std::string, Shape::kOptional)
CHORUS_CONFIG_FIELD(std::vector<std::int64_t>, std::int64_t, Shape::kList)
CHORUS_CONFIG_FIELD(std::vector<double>, double, Shape::kList)
CHORUS_CONFIG_FIELD(std::vector<std::string>, std::string, Shape::kList)
CHORUS_CONFIG_FIELD(DoubleMap, double, Shape::kMap)
CHORUS_CONFIG_FIELD(StringMap, std::string, Shape::kMap)
#undef CHORUS_CONFIG_FIELD

std::string allowed_text(const ConfigField& field) {
  std::string text;
  switch (field.type) {
    case Type::kBool:
      text = "true or false";
      break;
    case Type::kInt:
      text = "a whole number";
      break;
    case Type::kDouble:
      text = "a number";
      break;
    case Type::kSection:
      text = "a section";
      break;
    case Type::kChoice:
      text = fmt::format("the name of a {}", field.kind);
      break;
    case Type::kString:
      if (!field.allowed.empty()) {
        text = fmt::format("one of {}", fmt::join(field.allowed, ", "));
      } else if (field.is_path) {
        text = field.must_exist ? "the path of an existing file or folder" : "a path";
      } else {
        text = "text";
      }
      break;
  }
  if (field.minimum) text += fmt::format(", {} {}", field.above_minimum ? "above" : "at least", *field.minimum);
  if (field.maximum) text += fmt::format(", {} {}", field.below_maximum ? "below" : "at most", *field.maximum);
  const std::string empty = field.is_not_empty ? ", not empty" : "";
  if (field.shape == Shape::kList) return fmt::format("a list{}, each {}", empty, text);
  if (field.shape == Shape::kMap) return fmt::format("a map of names{}, each to {}", empty, text);
  if (field.shape == Shape::kOptional) return text + empty + ", or null";
  return text + empty;
}

}  // namespace chorus::inline config
