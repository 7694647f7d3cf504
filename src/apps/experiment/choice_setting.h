#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/config/config_visitor.h"
#include "core/config/registry.h"

namespace chorus::inline experiment {

/// A setting of what was chosen in a configuration, by its name; nothing where it has no such setting. For rules about
/// several parts of a configuration, which know what a part is called and not which type it has.
///
///     number_of(config.algorithm, "buffer")
template <typename Names>
std::optional<ConfigScalar> setting_of(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  if (field == nullptr || field->type == ConfigField::Type::kChoice || field->get().empty()) return std::nullopt;
  return field->get().front().second;
}

/// The same of whole and other numbers; 0 where it has no such setting.
template <typename Names>
double number_of(const Choice<Names>& choice, std::string_view name) {
  const std::optional<ConfigScalar> value = setting_of(choice, name);
  if (!value) return 0;
  const auto* whole = std::get_if<std::int64_t>(&*value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(*value);
}

/// The same of names; "" where it has no such setting, or none is given.
template <typename Names>
std::string text_of(const Choice<Names>& choice, std::string_view name) {
  const std::optional<ConfigScalar> value = setting_of(choice, name);
  return value ? std::get<std::string>(*value) : "";
}

template <typename Names>
bool flag_of(const Choice<Names>& choice, std::string_view name) {
  return setting_of(choice, name) == ConfigScalar(true);
}

}  // namespace chorus::inline experiment
