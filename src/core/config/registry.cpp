#include "core/config/registry.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace chorus::inline config {
namespace {

/// An exception before main() would end the program without a message, so a mistake is kept here until the first
/// access.
std::string& deferred_mistake() {
  static std::string mistake;
  return mistake;
}

RegistryIndex& index_being_filled() {
  static RegistryIndex index;
  return index;
}

}  // namespace

RegistryIndex& RegistryIndex::global() {
  if (!deferred_mistake().empty()) throw InternalError(deferred_mistake());
  return index_being_filled();
}

void RegistryIndex::add(RegistryEntry entry) {
  if (entry.kind.empty() || entry.name.empty()) throw InternalError("a registered name or its kind is empty");
  auto& of_kind = kinds_[entry.kind];
  if (of_kind.contains(entry.name)) {
    throw InternalError(fmt::format("the {} '{}' is registered twice", entry.kind, entry.name));
  }
  const std::string name = entry.name;
  of_kind.emplace(name, std::move(entry));
}

std::vector<std::string> RegistryIndex::kinds() const {
  std::vector<std::string> result;
  for (const auto& [kind, ignored] : kinds_) result.push_back(kind);
  return result;
}

std::vector<std::string> RegistryIndex::names(std::string_view kind) const {
  std::vector<std::string> result;
  for (const RegistryEntry* entry : entries(kind)) {
    if (entry->unavailable.empty()) result.push_back(entry->name);
  }
  return result;
}

std::vector<const RegistryEntry*> RegistryIndex::entries(std::string_view kind) const {
  std::vector<const RegistryEntry*> result;
  const auto found = kinds_.find(kind);
  if (found == kinds_.end()) return result;
  for (const auto& [name, entry] : found->second) result.push_back(&entry);
  return result;
}

std::vector<const RegistryEntry*> RegistryIndex::find_anywhere(std::string_view name) const {
  std::vector<const RegistryEntry*> result;
  for (const auto& [kind, ignored] : kinds_) {
    if (const RegistryEntry* entry = find(kind, name)) result.push_back(entry);
  }
  return result;
}

const RegistryEntry* RegistryIndex::find(std::string_view kind, std::string_view name) const {
  const auto of_kind = kinds_.find(kind);
  if (of_kind == kinds_.end()) return nullptr;
  const auto found = of_kind->second.find(name);
  return found == of_kind->second.end() ? nullptr : &found->second;
}

std::string RegistryIndex::mistake(std::string_view kind, std::string_view name) const {
  if (const RegistryEntry* entry = find(kind, name)) {
    if (entry->unavailable.empty()) return "";
    return fmt::format("the {} '{}' is not in this build of Chorus: {}", kind, name, entry->unavailable);
  }
  const std::vector<std::string> known = names(kind);
  if (known.empty()) return fmt::format("unknown {} '{}': this build of Chorus has none", kind, name);
  return fmt::format("unknown {} '{}'{} (known: {})", kind, name, did_you_mean(name, known), fmt::join(known, ", "));
}

const RegistryEntry& RegistryIndex::get(std::string_view kind, std::string_view name) const {
  const std::string wrong = mistake(kind, name);
  if (!wrong.empty()) throw ConfigError(wrong);
  return *find(kind, name);
}

NameRegistration::NameRegistration(RegistryEntry entry) {
  try {
    index_being_filled().add(std::move(entry));
  } catch (const InternalError& error) {
    deferred_mistake() = error.what();
  }
}

AnyChoice::AnyChoice(std::string_view kind, std::string_view name) : kind_(kind), name_(name) {}

AnyChoice::AnyChoice(const AnyChoice& other)
    : kind_(other.kind_), name_(other.name_), config_(other.config_ ? other.config_->clone() : nullptr) {}

AnyChoice& AnyChoice::operator=(const AnyChoice& other) {
  if (this != &other) *this = AnyChoice(other);
  return *this;
}

void AnyChoice::select(std::string_view name) {
  config_ = nullptr;
  const RegistryEntry& entry = RegistryIndex::global().get(kind_, name);
  if (entry.make_config) config_ = entry.make_config();
  name_ = name;
}

const AnyConfig& AnyChoice::config() const {
  if (config_ == nullptr) {
    const RegistryEntry& entry = RegistryIndex::global().get(kind_, name_);
    config_ = entry.make_config ? entry.make_config() : std::make_unique<ConfigOf<NoConfig>>();
  }
  return *config_;
}

AnyConfig& AnyChoice::config() { return const_cast<AnyConfig&>(std::as_const(*this).config()); }

}  // namespace chorus::inline config
