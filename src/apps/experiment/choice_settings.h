#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/config/registry.h"

namespace chorus::inline experiment {

/// A setting of what was chosen; 0 where it has no such setting, or none is given.
template <typename Names>
std::int64_t integer_of(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr || field->get().empty() ? 0 : std::get<std::int64_t>(field->get().front().second);
}

/// The same of numbers.
template <typename Names>
double number_of(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  if (field == nullptr || field->get().empty()) return 0;
  const ConfigScalar value = field->get().front().second;
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
}

/// The same of names; "" where there is none.
template <typename Names>
std::string text_of(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr || field->get().empty() ? "" : std::get<std::string>(field->get().front().second);
}

/// Whether a choice has a setting of this name.
template <typename Names>
bool has_setting(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  return visitor.find(name) != nullptr;
}

}  // namespace chorus::inline experiment
