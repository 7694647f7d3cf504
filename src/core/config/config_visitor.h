#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace chorus::inline config {

class AnyChoice;
class ConfigVisitor;

/// A configuration is a plain struct whose members have defaults, and one member that describes them:
///
///     struct TrainConfig {
///       std::int64_t rounds = 100;
///       double learning_rate = 1e-3;
///       OptimizerConfig optimizer;                 // another such struct
///       Choice<Algorithms> algorithm{"fedavg"};    // a name of a registry, with the struct it was registered with
///
///       void describe(ConfigVisitor& v) {
///         v.field("rounds", rounds, "communication rounds").at_least(1);
///         v.field("learning_rate", learning_rate, "client step size").above(0);
///         v.field("optimizer", optimizer, "how a client steps");
///         v.field("algorithm", algorithm, "the server routine");
///       }
///     };
///
/// Reading YAML, overrides, validation, `chorus describe` and the resolved configuration (core/config/config.h,
/// core/config/config_help.h) all come from that one description.
template <typename T>
concept ConfigStruct = requires(T& config, ConfigVisitor& visitor) {
  config.describe(visitor);
};

using ConfigScalar = std::variant<bool, std::int64_t, double, std::string>;
using ConfigItem = std::pair<std::string, ConfigScalar>;  ///< the key (empty unless the field is a map), the value

/// One described member: its name, its constraints, and closures that access it. Constraints are chained onto
/// `ConfigVisitor::field` and apply to each item of a list or map.
struct ConfigField {
  enum class Type { kBool, kInt, kDouble, kString, kSection, kChoice };
  enum class Shape { kOne, kOptional, kList, kMap };

  ConfigField& at_least(double bound);
  ConfigField& at_most(double bound);
  ConfigField& above(double bound);
  ConfigField& below(double bound);
  ConfigField& one_of(std::vector<std::string> names);
  ConfigField& required();   ///< the user must set it
  ConfigField& not_empty();  ///< a string, list or map that must not be empty
  ConfigField& path();       ///< a string that names a file or folder, not empty
  ConfigField& existing();   ///< a path that must exist when the configuration is read

  std::string name, help;
  Type type = Type::kString;
  Shape shape = Shape::kOne;
  std::optional<double> minimum, maximum;
  bool above_minimum = false, below_maximum = false;  // exclusive bounds
  std::vector<std::string> allowed;
  bool is_required = false, is_not_empty = false, is_path = false, must_exist = false;

  // For a scalar, or an optional, list or map of scalars. An enum is a string with `allowed` names.
  std::function<std::vector<ConfigItem>()> get;
  std::function<void(const std::vector<ConfigItem>&)> set;

  // For a nested struct or a choice, or an optional or list of them.
  std::function<std::size_t()> size;
  std::function<void(std::size_t)> resize;
  std::function<void(std::size_t, ConfigVisitor&)> describe;  ///< fields of an element
  std::function<void(ConfigVisitor&)> describe_new;           ///< fields of a new element, for help
  std::function<AnyChoice&(std::size_t)> choice;
  std::string kind;  ///< registry kind of a choice
};

template <typename E>
using EnumNames = std::initializer_list<std::pair<std::string_view, E>>;

/// Collects the fields of one struct. The fields refer to the struct's members and must not outlive it.
class ConfigVisitor {
 public:
  // clang-format off
  ConfigField& field(std::string_view name, bool& value, std::string_view help);
  ConfigField& field(std::string_view name, std::int64_t& value, std::string_view help);
  ConfigField& field(std::string_view name, double& value, std::string_view help);
  ConfigField& field(std::string_view name, std::string& value, std::string_view help);
  ConfigField& field(std::string_view name, std::optional<bool>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::optional<std::int64_t>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::optional<double>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::optional<std::string>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::vector<std::int64_t>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::vector<double>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::vector<std::string>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::map<std::string, double>& value, std::string_view help);
  ConfigField& field(std::string_view name, std::map<std::string, std::string>& value, std::string_view help);
  // clang-format on

  /// An enum by name: `v.field("pooling", pooling, {{"mean", Pooling::kMean}, {"cls", Pooling::kCls}}, "...")`.
  template <typename E>
  requires std::is_enum_v<E> ConfigField& field(std::string_view name, E& value, EnumNames<E> names,
                                                std::string_view help);
  template <typename E>
  requires std::is_enum_v<E> ConfigField& field(std::string_view name, std::vector<E>& value, EnumNames<E> names,
                                                std::string_view help);

  /// A nested struct; an optional one; a list of them. The same for a `Choice` (core/config/registry.h).
  template <ConfigStruct T>
  ConfigField& field(std::string_view name, T& value, std::string_view help);
  template <ConfigStruct T>
  ConfigField& field(std::string_view name, std::optional<T>& value, std::string_view help);
  template <ConfigStruct T>
  ConfigField& field(std::string_view name, std::vector<T>& value, std::string_view help);

  /// A condition over several fields, evaluated after all of them are valid: returns what is wrong, or "".
  void check(std::function<std::string()> mistake) { checks_.push_back(std::move(mistake)); }

  std::deque<ConfigField>& fields() { return fields_; }
  const std::vector<std::function<std::string()>>& checks() const { return checks_; }
  /// The field of that name, or null.
  ConfigField* find(std::string_view name);

 private:
  ConfigField& add(std::string_view name, std::string_view help, ConfigField::Type type, ConfigField::Shape shape);
  template <typename T>
  ConfigField& add_nested(std::string_view name, std::string_view help, ConfigField::Shape shape);

  std::deque<ConfigField> fields_;
  std::vector<std::function<std::string()>> checks_;
};

/// What the field accepts, for messages and help: "a whole number, at least 1".
std::string allowed_text(const ConfigField& field);

}  // namespace chorus::inline config

#include "core/config/config_visitor_impl.h"
