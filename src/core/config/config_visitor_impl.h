#pragma once

// The templates of core/config/config_visitor.h, which turn a member into closures. Do not include it directly.
#include "core/config/config_visitor.h"

namespace chorus::inline config {

template <typename E>
requires std::is_enum_v<E> ConfigField& ConfigVisitor::field(std::string_view name, std::vector<E>& value,
                                                             EnumNames<E> names, std::string_view help) {
  ConfigField& field = add(name, help, ConfigField::Type::kString, ConfigField::Shape::kList);
  std::vector<std::pair<std::string, E>> table(names.begin(), names.end());
  for (const auto& [text, ignored] : table) field.allowed.push_back(text);
  field.get = [&value, table] {
    std::vector<ConfigItem> items;
    for (const E item : value) {
      for (const auto& [text, known] : table) {
        if (known == item) items.emplace_back("", text);
      }
    }
    return items;
  };
  field.set = [&value, table](const std::vector<ConfigItem>& items) {
    value.clear();
    for (const ConfigItem& item : items) {
      for (const auto& [text, known] : table) {
        if (text == std::get<std::string>(item.second)) value.push_back(known);
      }
    }
  };
  return field;
}

template <typename E>
requires std::is_enum_v<E> ConfigField& ConfigVisitor::field(std::string_view name, E& value, EnumNames<E> names,
                                                             std::string_view help) {
  ConfigField& field = add(name, help, ConfigField::Type::kString, ConfigField::Shape::kOne);
  std::vector<std::pair<std::string, E>> table(names.begin(), names.end());
  for (const auto& [text, ignored] : table) field.allowed.push_back(text);
  field.get = [&value, table] {
    std::vector<ConfigItem> items;
    for (const auto& [text, known] : table) {
      if (known == value && items.empty()) items.emplace_back("", text);
    }
    return items;
  };
  field.set = [&value, table](const std::vector<ConfigItem>& items) {
    for (const auto& [text, known] : table) {
      if (text == std::get<std::string>(items.front().second)) value = known;
    }
  };
  return field;
}

template <typename T>
ConfigField& ConfigVisitor::add_nested(std::string_view name, std::string_view help, ConfigField::Shape shape) {
  constexpr bool kIsChoice = std::is_base_of_v<AnyChoice, T>;
  ConfigField& field = add(name, help, kIsChoice ? ConfigField::Type::kChoice : ConfigField::Type::kSection, shape);
  if constexpr (kIsChoice) {
    field.kind = std::string(T::registry_kind());
  } else {
    // The new element lives as long as the closure, since the fields refer to it.
    field.describe_new = [element = std::make_shared<T>()](ConfigVisitor& visitor) { element->describe(visitor); };
  }
  return field;
}

template <ConfigStruct T>
ConfigField& ConfigVisitor::field(std::string_view name, T& value, std::string_view help) {
  ConfigField& field = add_nested<T>(name, help, ConfigField::Shape::kOne);
  field.size = [] { return std::size_t{1}; };
  field.resize = [](std::size_t) {};
  field.describe = [&value](std::size_t, ConfigVisitor& visitor) { value.describe(visitor); };
  if constexpr (std::is_base_of_v<AnyChoice, T>) {
    field.choice = [&value](std::size_t) -> AnyChoice& { return value; };
  }
  return field;
}

template <ConfigStruct T>
ConfigField& ConfigVisitor::field(std::string_view name, std::optional<T>& value, std::string_view help) {
  ConfigField& field = add_nested<T>(name, help, ConfigField::Shape::kOptional);
  field.size = [&value] { return std::size_t{value.has_value() ? 1U : 0U}; };
  field.resize = [&value](std::size_t size) {
    if (size == 0) {
      value.reset();
    } else if (!value.has_value()) {
      value.emplace();
    }
  };
  field.describe = [&value](std::size_t, ConfigVisitor& visitor) { value->describe(visitor); };
  if constexpr (std::is_base_of_v<AnyChoice, T>) {
    field.choice = [&value](std::size_t) -> AnyChoice& { return *value; };
  }
  return field;
}

template <ConfigStruct T>
ConfigField& ConfigVisitor::field(std::string_view name, std::vector<T>& value, std::string_view help) {
  ConfigField& field = add_nested<T>(name, help, ConfigField::Shape::kList);
  field.size = [&value] { return value.size(); };
  // A given list replaces the default one: its elements start from their defaults.
  field.resize = [&value](std::size_t size) {
    value.clear();
    value.resize(size);
  };
  field.describe = [&value](std::size_t i, ConfigVisitor& visitor) { value.at(i).describe(visitor); };
  if constexpr (std::is_base_of_v<AnyChoice, T>) {
    field.choice = [&value](std::size_t i) -> AnyChoice& { return value.at(i); };
  }
  return field;
}

}  // namespace chorus::inline config
