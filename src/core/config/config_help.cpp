#include "core/config/config_help.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/config/registry.h"
#include "core/console/text_table.h"

namespace chorus::inline config {
namespace {

using nlohmann::ordered_json;
using Type = ConfigField::Type;
using Shape = ConfigField::Shape;

struct FieldRow {
  std::string key;
  ConfigField* field;
};

void collect(ConfigVisitor& visitor, const std::string& prefix, std::deque<ConfigVisitor>& nested,
             std::vector<FieldRow>& rows) {
  for (ConfigField& field : visitor.fields()) {
    const std::string key = prefix + field.name;
    const bool plain_section = field.type == Type::kSection && field.shape == Shape::kOne;
    if (!plain_section) rows.push_back({key, &field});
    if (field.type != Type::kSection) continue;
    ConfigVisitor& inner = nested.emplace_back();
    if (plain_section) {
      field.describe(0, inner);
    } else {
      field.describe_new(inner);
    }
    collect(inner, key + (field.shape == Shape::kList ? ".N." : "."), nested, rows);
  }
}

ordered_json scalar_json(const ConfigScalar& value) {
  return std::visit([](const auto& item) { return ordered_json(item); }, value);
}

ordered_json default_json(ConfigField& field) {
  if (field.type == Type::kSection || field.type == Type::kChoice) {
    ordered_json names = ordered_json::array();
    for (std::size_t i = 0; i < field.size(); ++i) {
      names.push_back(field.type == Type::kChoice ? ordered_json(field.choice(i).name()) : ordered_json("..."));
    }
    if (field.shape == Shape::kList) return names;
    return names.empty() || names[0] == "" ? ordered_json() : names[0];
  }
  const std::vector<ConfigItem> items = field.get();
  if (field.shape == Shape::kList) {
    ordered_json list = ordered_json::array();
    for (const ConfigItem& item : items) list.push_back(scalar_json(item.second));
    return list;
  }
  if (field.shape == Shape::kMap) {
    ordered_json map = ordered_json::object();
    for (const ConfigItem& item : items) map[item.first] = scalar_json(item.second);
    return map;
  }
  return items.empty() ? ordered_json() : scalar_json(items.front().second);
}

std::string number_text(double value) { return fmt::format("{}", value); }

std::string scalar_text(const ConfigScalar& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return text->empty() ? "\"\"" : *text;
  return scalar_json(value).dump();
}

std::string default_text(ConfigField& field) {
  if (field.is_required) return "required";
  if (field.shape == Shape::kOne && field.get) {
    const std::vector<ConfigItem> items = field.get();
    return items.empty() ? "" : scalar_text(items.front().second);
  }
  if (field.shape == Shape::kList && field.get) {
    std::vector<std::string> items;
    for (const ConfigItem& item : field.get()) items.push_back(scalar_text(item.second));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  const ordered_json value = default_json(field);
  if (value.is_null()) return field.shape == Shape::kOptional ? "null" : "required";
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string config_help_text(const DescribeConfig& describe, std::size_t width) {
  std::deque<ConfigVisitor> visitors(1);
  describe(visitors.front());
  std::vector<FieldRow> rows;
  collect(visitors.front(), "", visitors, rows);
  if (rows.empty()) return "";
  TextTable table({{"key"}, {"default"}, {"meaning"}});
  for (const FieldRow& row : rows) {
    table.add({row.key, default_text(*row.field), fmt::format("{} ({})", row.field->help, allowed_text(*row.field))});
  }
  return table.render(width);
}

std::string config_help_json(const DescribeConfig& describe) {
  static constexpr const char* kTypes[] = {"bool", "int", "double", "string", "section", "choice"};
  static constexpr const char* kShapes[] = {"one", "optional", "list", "map"};
  std::deque<ConfigVisitor> visitors(1);
  describe(visitors.front());
  std::vector<FieldRow> rows;
  collect(visitors.front(), "", visitors, rows);
  ordered_json result = ordered_json::array();
  for (const FieldRow& row : rows) {
    ConfigField& field = *row.field;
    ordered_json item = {{"key", row.key},
                         {"type", kTypes[static_cast<int>(field.type)]},
                         {"shape", kShapes[static_cast<int>(field.shape)]},
                         {"default", default_json(field)},
                         {"help", field.help}};
    if (field.is_required) item["required"] = true;
    if (field.minimum) item[field.above_minimum ? "above" : "minimum"] = *field.minimum;
    if (field.maximum) item[field.below_maximum ? "below" : "maximum"] = *field.maximum;
    std::vector<std::string> allowed = field.allowed;
    if (field.type == Type::kChoice) {
      item["kind"] = field.kind;
      allowed = RegistryIndex::global().names(field.kind);
    }
    if (!allowed.empty()) item["allowed"] = allowed;
    result.push_back(std::move(item));
  }
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace chorus::inline config
