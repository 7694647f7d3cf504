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

namespace chorus {

/// A configuration struct whose type is not known here.
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

/// For things that have nothing to configure.
struct NoConfig {
  void describe(ConfigVisitor&) {}
};

/// One name that can stand in a configuration or on a command line.
struct RegistryEntry {
  std::string kind;         ///< "algorithm", "partitioner", "reader", ...
  std::string name;         ///< "fedprox"
  std::string summary;      ///< one line
  std::string unavailable;  ///< why this build does not have it; empty: it has
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

/// All names of all kinds, in the order of the alphabet. Filled before main() starts, only read afterwards.
class RegistryIndex {
 public:
  static RegistryIndex& global();

  /// InternalError when the kind already has that name.
  void add(RegistryEntry entry);

  std::vector<std::string> kinds() const;
  std::vector<std::string> names(std::string_view kind) const;  ///< those that are available
  std::vector<const RegistryEntry*> entries(std::string_view kind) const;
  std::vector<const RegistryEntry*> find_anywhere(std::string_view name) const;
  const RegistryEntry* find(std::string_view kind, std::string_view name) const;

  /// The entry, or a ConfigError with the nearest name and all that are known (or why this build lacks it).
  const RegistryEntry& get(std::string_view kind, std::string_view name) const;
  /// The sentence of that error; empty when the name is there and available.
  std::string mistake(std::string_view kind, std::string_view name) const;

 private:
  std::map<std::string, std::map<std::string, RegistryEntry, std::less<>>, std::less<>> kinds_;
};

/// The things of one kind, made from their configuration and `Args`. The kind is T::kKind.
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

/// Puts a name into the global index before main() starts. One line in the thing's own .cpp:
///
///     const Registration<Partitioners, ShardsConfig> kRegistered{
///         "shards", "a few label shards a client (McMahan et al. 2017)",
///         [](const ShardsConfig& config, const Labels& labels) { return std::make_unique<Shards>(config, labels); }};
///
/// A name registered twice is an InternalError at the first look into the index.
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

/// A whole configuration file's struct, chosen by the file's top-level key `kind` (`chorus validate`, `chorus run`).
template <ConfigStruct Config>
class ConfigRegistration : NameRegistration {
 public:
  ConfigRegistration(std::string name, std::string summary)
      : NameRegistration(
            {"config", std::move(name), std::move(summary), "", [] { return std::make_unique<ConfigOf<Config>>(); }}) {}
};

/// A configuration's member that is one of a registry's names together with that name's own struct. In YAML
/// `algorithm: fedprox` or `algorithm: {name: fedprox, mu: 0.1}`. Copies are deep.
class AnyChoice {
 public:
  AnyChoice(std::string_view kind, std::string_view name);
  AnyChoice(const AnyChoice& other);
  AnyChoice(AnyChoice&&) = default;
  AnyChoice& operator=(const AnyChoice& other);
  AnyChoice& operator=(AnyChoice&&) = default;
  ~AnyChoice() = default;

  const std::string& kind() const { return kind_; }
  const std::string& name() const { return name_; }  ///< empty: nothing was chosen
  /// Takes the name with its default configuration. ConfigError for an unknown or unavailable name.
  void select(std::string_view name);
  /// The selected thing's configuration.
  AnyConfig& config();
  const AnyConfig& config() const;
  void describe(ConfigVisitor& visitor) { config().describe(visitor); }

 private:
  std::string kind_;
  std::string name_;
  // Made on first use: a default name may be registered after the struct that has it as its default was built.
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

}  // namespace chorus
