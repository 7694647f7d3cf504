#include "infrastructure/tracking/sweep/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "core/base/error.h"

namespace chorus::inline sweep {
namespace {

constexpr std::size_t kMostPoints = 10'000;
constexpr std::size_t kLongestName = 120;

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// FNV-1a: names must be equal on every machine, which std::hash does not guarantee.
std::uint64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

// Splits at separators outside brackets, braces and quotes.
std::vector<std::string> split_values(const std::string& text, char separator = ',') {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == separator && depth <= 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

}  // namespace

SweepCase parse_sweep_case(const std::string& text) {
  const auto trimmed = [](const std::string& part) {
    const std::size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    return first == std::string::npos ? std::string() : part.substr(first, last - first + 1);
  };
  const std::size_t colon = text.find(':');
  SweepCase result;
  if (colon != std::string::npos) result.name = trimmed(text.substr(0, colon));
  if (result.name.empty() || result.name.find('=') != std::string::npos) {
    throw ConfigError(fmt::format("'{}': write NAME: key=value; key=value", text));
  }
  for (const std::string& part : split_values(text.substr(colon + 1), ';')) {
    const std::string setting = trimmed(part);
    if (setting.empty()) continue;
    if (setting.find('=') == std::string::npos || setting[0] == '=') {
      throw ConfigError(fmt::format("'{}': '{}' is not a setting; write NAME: key=value; key=value", text, setting));
    }
    result.settings.push_back(setting);
  }
  return result;
}

SweepKey parse_sweep_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw ConfigError(fmt::format("'{}': write key=value1,value2,...", text));
  SweepKey key{text.substr(0, equals), split_values(text.substr(equals + 1))};
  for (const std::string& value : key.values) {
    if (value.empty()) throw ConfigError(fmt::format("'{}': a value is empty; write key=value1,value2,...", text));
    if (std::count(key.values.begin(), key.values.end(), value) > 1)
      throw ConfigError(fmt::format("'{}': the value {} is repeated", text, value));
  }
  return key;
}

std::vector<SweepPoint> sweep_points(const std::vector<SweepKey>& keys) {
  std::vector<SweepPoint> points(1);
  std::map<std::string, int> seen;
  for (const SweepKey& key : keys) {
    if (++seen[key.key] > 1) throw ConfigError(fmt::format("the key {} is swept twice; keep one", key.key));
    if (points.size() * key.values.size() > kMostPoints)
      throw ConfigError(fmt::format("this sweep has more than {} combinations; remove some values", kMostPoints));
    std::vector<SweepPoint> more;
    for (const SweepPoint& point : points) {
      for (const std::string& value : key.values) {
        more.push_back(point);
        more.back().emplace_back(key.key, value);
      }
    }
    points = std::move(more);
  }
  return points;
}

std::string point_name(const SweepPoint& point) {
  std::map<std::string, int> parts;
  for (const auto& [key, value] : point) ++parts[last_part(key)];
  std::string name;
  for (const auto& [key, value] : point) {
    const std::string part = last_part(key);
    name += fmt::format("{}{}={}", name.empty() ? "" : " ", parts[part] > 1 ? key : part, value);
  }
  return name;
}

std::string point_folder(const SweepPoint& point, std::uint64_t seed) {
  std::string exact, name;
  bool lost = false;
  for (const auto& [key, value] : point) {
    exact += key + "=" + value + "\n";
    // A space becomes '_' like the separators between settings, and '=' could start another setting.
    lost = lost || value.find_first_of(" =") != std::string::npos;
  }
  for (const char c : point_name(point)) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("=._+-").find(c) != std::string_view::npos;
    lost = lost || (!plain && c != ' ');
    name += plain ? c : '_';
  }
  if (lost || name.size() > kLongestName) {
    const auto doubled = [](char a, char b) { return a == '_' && b == '_'; };
    name.erase(std::unique(name.begin(), name.end(), doubled), name.end());
    while (name.ends_with('_')) name.pop_back();
    name = fmt::format("{}_{:08x}", name.substr(0, kLongestName - 10), fingerprint(exact) & 0xffffffff);
  }
  // A name that starts with a dot or dash would be hidden, or look like an option.
  if (!name.empty() && (name.front() == '.' || name.front() == '-')) name = "p" + name;
  return fmt::format("{}{}seed={}", name, name.empty() ? "" : "_", seed);
}

}  // namespace chorus::inline sweep
