#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace chorus::inline sweep {

/// One key of a sweep and the values it takes: `algorithm.mu=0.01,0.1,1`.
struct SweepKey {
  std::string key;
  std::vector<std::string> values;
};

/// Parses `key=v1,v2,...`; commas inside brackets, braces or quotes belong to a value (`layers=[0,1],[2,3]`).
/// ConfigError without a key or with an empty value.
SweepKey parse_sweep_key(const std::string& text);

/// Settings that belong together, under a name: `AdaFL: algorithm=adafl; tuning={name: pfeiffer, width: 64}`.
struct SweepCase {
  std::string name;
  std::vector<std::string> settings;
};

/// Parses `NAME: key=value; key=value`; semicolons inside brackets, braces or quotes belong to a value. ConfigError
/// without a name, or for an invalid setting.
SweepCase parse_sweep_case(const std::string& text);

/// The key of the cases in a point.
inline constexpr const char* kCaseKey = "case";

/// One combination of values, in the order of the keys.
using SweepPoint = std::vector<std::pair<std::string, std::string>>;

/// Every combination, the last key changing fastest. ConfigError for a repeated key, or more than 10,000
/// combinations. No keys: one empty point.
std::vector<SweepPoint> sweep_points(const std::vector<SweepKey>& keys);

/// A readable name, `mu=0.1 epochs=2`: the last part of each key where that is unambiguous.
std::string point_name(const SweepPoint& point);

/// A unique folder name for the run: the point in characters that are safe in file names, followed by a checksum if it
/// is too long or characters were lost (`selection=_name_uniform_3f2a91bc_seed=1`).
std::string point_folder(const SweepPoint& point, std::uint64_t seed);

}  // namespace chorus::inline sweep
