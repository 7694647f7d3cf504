// What holds for every registered name of every component.
#include "core/config/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/config/config.h"
#include "core/config/config_help.h"

namespace chorus::inline contract {
namespace {

bool needs_user(AnyConfig& config) {
  ConfigVisitor visitor;
  config.describe(visitor);
  return std::any_of(visitor.fields().begin(), visitor.fields().end(), [](const auto& f) { return f.is_required; });
}

TEST(RegistryContract, EveryNameIsDescribed) {
  const RegistryIndex& index = RegistryIndex::global();
  if (index.kinds().empty()) GTEST_SKIP() << "no component of this build registers a name";
  for (const std::string& kind : index.kinds()) {
    for (const RegistryEntry* entry : index.entries(kind)) {
      EXPECT_FALSE(entry->summary.empty()) << kind << "/" << entry->name;
      EXPECT_EQ(entry->summary.find('\n'), std::string::npos) << kind << "/" << entry->name;
      if (!entry->make_config) continue;
      const auto config = entry->make_config();
      ConfigVisitor visitor;
      config->describe(visitor);
      for (const ConfigField& field : visitor.fields()) {
        EXPECT_FALSE(field.help.empty()) << kind << "/" << entry->name << ": " << field.name;
      }
    }
  }
}

TEST(RegistryContract, EveryDefaultConfigurationIsValidAndLoadsBack) {
  const RegistryIndex& index = RegistryIndex::global();
  for (const std::string& kind : index.kinds()) {
    for (const RegistryEntry* entry : index.entries(kind)) {
      if (!entry->make_config || !entry->unavailable.empty()) continue;
      const auto config = entry->make_config();
      if (needs_user(*config)) continue;
      const auto describe = [&](ConfigVisitor& visitor) { config->describe(visitor); };
      const std::string yaml = to_yaml(describe);
      const auto again = entry->make_config();
      const auto describe_again = [&](ConfigVisitor& visitor) { again->describe(visitor); };
      EXPECT_NO_THROW(ConfigDocument::parse(yaml, kind + "/" + entry->name).fill(describe_again)) << yaml;
      EXPECT_EQ(to_yaml(describe_again), yaml);
      EXPECT_FALSE(config_help_json(describe).empty());
    }
  }
}

}  // namespace
}  // namespace chorus::inline contract
