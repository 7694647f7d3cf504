#pragma once

#include <any>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/config/config_visitor.h"

namespace chorus::inline config {

/// A configuration struct whose type is erased.
class AnyConfig {
 public:
  virtual ~AnyConfig() = default;
  virtual void describe(ConfigVisitor& visitor) = 0;
  virtual std::unique_ptr<AnyConfig> clone() const = 0;
};

template <ConfigStruct T>
class ConfigOf final : public AnyConfig {
 public:
  void describe(ConfigVisitor& visitor) override { value.describe(visitor); }
  std::unique_ptr<AnyConfig> clone() const override { return std::make_unique<ConfigOf>(*this); }
  T value;
};

/// The configuration of names without settings.
struct NoConfig {
  void describe(ConfigVisitor&) {}
};

/// One name that a configuration or command line accepts.
struct RegistryEntry {
  std::string kind;         ///< "algorithm", "partitioner", "reader", ...
  std::string name;         ///< "fedprox"
  std::string summary;      ///< one line
  std::string unavailable;  ///< why this build lacks it; empty: available
  std::function<std::unique_ptr<AnyConfig>()> make_config{};
  std::any factory{};  ///< a Registry<...>::Factory
  std::any traits{};   ///< a Registry<...>::Traits
};

/// What a kind of thing declares about itself with its registration: T::Traits, or nothing.
struct NoTraits {};
template <typename T>
struct TraitsOf {
  using type = NoTraits;
};
template <typename T>
requires requires { typename T::Traits; }
struct TraitsOf<T> {
  using type = typename T::Traits;
};

/// All names of all kinds, sorted. Filled before main() starts, read-only afterwards.
class RegistryIndex {
 public:
  static RegistryIndex& global();

  /// InternalError when the kind already has that name.
  void add(RegistryEntry entry);

  std::vector<std::string> kinds() const;
  std::vector<std::string> names(std::string_view kind) const;  ///< available names
  std::vector<const RegistryEntry*> entries(std::string_view kind) const;
  std::vector<const RegistryEntry*> find_anywhere(std::string_view name) const;
  const RegistryEntry* find(std::string_view kind, std::string_view name) const;

  /// The entry, or a ConfigError with the nearest and all known names (or why this build lacks it).
  const RegistryEntry& get(std::string_view kind, std::string_view name) const;
  /// The message of that error; empty when the name is known and available.
  std::string mistake(std::string_view kind, std::string_view name) const;

 private:
  std::map<std::string, std::map<std::string, RegistryEntry, std::less<>>, std::less<>> kinds_;
};

/// Factories of one kind, created from their configuration and `Args`. The kind is T::kKind.
///
///     class Partitioner { public: static constexpr std::string_view kKind = "partitioner"; ... };
///     using Partitioners = Registry<Partitioner, const Labels&>;
///     auto partitioner = Partitioners::make("iid", labels);    // with its default configuration
template <typename T, typename... Args>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<T>(const AnyConfig&, Args...)>;
  using Traits = typename TraitsOf<T>::type;

  static constexpr std::string_view kKind = T::kKind;

  static std::vector<std::string> names() { return RegistryIndex::global().names(kKind); }
  static std::unique_ptr<T> make(std::string_view name, Args... args) {
    return make_with(name, *RegistryIndex::global().get(kKind, name).make_config(), std::forward<Args>(args)...);
  }
  static std::unique_ptr<T> make_with(std::string_view name, const AnyConfig& config, Args... args) {
    const RegistryEntry& entry = RegistryIndex::global().get(kKind, name);
    return std::any_cast<const Factory&>(entry.factory)(config, std::forward<Args>(args)...);
  }

  /// What was declared with the registration; needs no instance.
  static const Traits& traits(std::string_view name) {
    return std::any_cast<const Traits&>(RegistryIndex::global().get(kKind, name).traits);
  }

  /// `make(const Config&, Args...)`, or `make(Args...)` when there is nothing to configure.
  template <typename Config, typename Make>
  static Factory factory_of(Make make) {
    return [make](const AnyConfig& config, Args... args) -> std::unique_ptr<T> {
      if constexpr (std::is_same_v<Config, NoConfig>) {
        return make(std::forward<Args>(args)...);
      } else {
        return make(dynamic_cast<const ConfigOf<Config>&>(config).value, std::forward<Args>(args)...);
      }
    };
  }
};

/// Adds a name to the global index before main() starts. One line in the .cpp that implements it:
///
///     const Registration<Partitioners, ShardsConfig> kRegistered{
///         "shards", "a few label shards per client (McMahan et al. 2017)",
///         [](const ShardsConfig& config, const Labels& labels) { return std::make_unique<Shards>(config, labels); }};
///
/// A duplicate name is an InternalError at the first access to the index.
class NameRegistration {
 public:
  explicit NameRegistration(RegistryEntry entry);
};

template <typename R, ConfigStruct Config = NoConfig>
class Registration : NameRegistration {
 public:
  template <typename Make>
  Registration(std::string name, std::string summary, Make make, typename R::Traits traits = {})
      : NameRegistration({std::string(R::kKind), std::move(name), std::move(summary), "",
                          [] { return std::make_unique<ConfigOf<Config>>(); },
                          std::any(R::template factory_of<Config>(std::move(make))), std::any(std::move(traits))}) {}
};

/// The struct of a whole configuration file, chosen by its top-level key `kind` (`chorus validate`, `chorus run`).
template <ConfigStruct Config>
class ConfigRegistration : NameRegistration {
 public:
  ConfigRegistration(std::string name, std::string summary)
      : NameRegistration(
            {"config", std::move(name), std::move(summary), "", [] { return std::make_unique<ConfigOf<Config>>(); }}) {}
};

/// A member of a configuration: a name of a registry together with that name's own struct. In YAML `algorithm: fedprox`
/// or `algorithm: {name: fedprox, mu: 0.1}`. Copies are deep.
class AnyChoice {
 public:
  AnyChoice(std::string_view kind, std::string_view name);
  AnyChoice(const AnyChoice& other);
  AnyChoice(AnyChoice&&) = default;
  AnyChoice& operator=(const AnyChoice& other);
  AnyChoice& operator=(AnyChoice&&) = default;
  ~AnyChoice() = default;

  const std::string& kind() const { return kind_; }
  const std::string& name() const { return name_; }  ///< empty: none chosen
  /// Selects a name with its default configuration. ConfigError for an unknown or unavailable name.
  void select(std::string_view name);
  /// The configuration of the selected name.
  AnyConfig& config();
  const AnyConfig& config() const;
  void describe(ConfigVisitor& visitor) { config().describe(visitor); }

 private:
  std::string kind_;
  std::string name_;
  // Created on first use: a default name may be registered after the struct that uses it is constructed.
  mutable std::unique_ptr<AnyConfig> config_;
};

template <typename R>
class Choice : public AnyChoice {
 public:
  explicit Choice(std::string_view name = "") : AnyChoice(R::kKind, name) {}
  static constexpr std::string_view registry_kind() { return R::kKind; }
  const typename R::Traits& traits() const { return R::traits(name()); }

  template <typename... Args>
  auto make(Args&&... args) const {
    return R::make_with(name(), config(), std::forward<Args>(args)...);
  }
};

}  // namespace chorus::inline config
