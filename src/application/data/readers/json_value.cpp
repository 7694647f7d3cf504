#include "application/data/readers/json_value.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.h"

namespace chorus::inline readers {

using nlohmann::json;

json parse_json(std::string_view text, const std::string& where) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    std::string reason = error.what();
    if (const auto at = reason.find("] "); at != std::string::npos) reason.erase(0, at + 2);
    // Line numbers within this piece are meaningless to the user; the column helps.
    if (const auto at = reason.find("column "); at != std::string::npos) reason.erase(0, at);
    if (reason.size() > 160) reason = reason.substr(0, 157) + "...";
    throw DataError(fmt::format("{}: malformed JSON: {}", where, reason));
  }
}

std::string json_string(std::string_view text, const std::string& where) {
  const json value = parse_json(text, where);
  if (!value.is_string()) throw DataError(fmt::format("{}: expected a string", where));
  return value.get<std::string>();
}

std::string json_text(const json& value, const std::string& where) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_null()) return {};
  if (value.is_object()) throw DataError(fmt::format("{}: expected a string, found an object", where));
  if (!value.is_array()) return value.dump();
  std::string joined;
  for (const json& item : value) {
    if (!joined.empty()) joined += ' ';
    joined += json_text(item, where);
  }
  return joined;
}

std::vector<std::string> json_words(const json& value, const std::string& where) {
  if (value.is_string()) return split_words(value.get_ref<const std::string&>());
  if (!value.is_array()) throw DataError(fmt::format("{}: expected a list of words", where));
  std::vector<std::string> words;
  words.reserve(value.size());
  for (const json& item : value) {
    if (item.is_array()) throw DataError(fmt::format("{}: expected a word, found a list", where));
    words.push_back(json_text(item, where));
  }
  return words;
}

std::string json_keys(const json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) {
    keys += fmt::format("{}{}", keys.empty() ? "" : ", ", key);
  }
  return keys;
}

namespace {

/// Exactly `count` digits at `at`, with a value in [low, high].
std::optional<int> digits(std::string_view text, std::size_t& at, std::size_t count, int low, int high) {
  if (at + count > text.size()) return {};
  int value = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const char c = text[at + i];
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  at += count;
  if (value < low || value > high) return {};
  return value;
}

bool accept(std::string_view text, std::size_t& at, std::string_view any) {
  if (at >= text.size() || any.find(text[at]) == std::string_view::npos) return false;
  ++at;
  return true;
}

std::optional<std::int64_t> parse_date(std::string_view text) {
  std::size_t at = 0;
  const auto year = digits(text, at, 4, 0, 9999);
  if (!year || !accept(text, at, "-/")) return {};
  const auto month = digits(text, at, 2, 1, 12);
  if (!month || !accept(text, at, "-/")) return {};
  const auto day = digits(text, at, 2, 1, 31);
  if (!day) return {};
  const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  if (!date.ok()) return {};
  std::int64_t seconds = std::chrono::sys_days{date}.time_since_epoch().count() * std::int64_t{86400};
  if (at == text.size()) return seconds;
  if (!accept(text, at, "T ")) return {};
  const auto hour = digits(text, at, 2, 0, 23);
  if (!hour || !accept(text, at, ":")) return {};
  const auto minute = digits(text, at, 2, 0, 59);
  if (!minute) return {};
  seconds += *hour * 3600 + *minute * 60;
  if (accept(text, at, ":")) {
    const auto second = digits(text, at, 2, 0, 60);
    if (!second) return {};
    seconds += *second;
    if (accept(text, at, ".,")) {
      while (accept(text, at, "0123456789")) {
      }
    }
  }
  if (at == text.size() || (accept(text, at, "Z") && at == text.size())) return seconds;
  const int sign = text[at] == '-' ? 1 : -1;
  if (!accept(text, at, "+-")) return {};
  const auto offset_hours = digits(text, at, 2, 0, 23);
  if (!offset_hours) return {};
  accept(text, at, ":");
  const auto offset_minutes = at == text.size() ? std::optional(0) : digits(text, at, 2, 0, 59);
  if (!offset_minutes || at != text.size()) return {};
  return seconds + sign * (*offset_hours * 3600 + *offset_minutes * 60);
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

std::int64_t parse_time(std::string_view text, const std::string& where) {
  std::int64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc() && end == text.data() + text.size() && whole != std::numeric_limits<std::int64_t>::min()) {
    return whole;
  }
  if (const auto date = parse_date(text)) return *date;
  if (const auto number = parse_number(text); number && std::abs(*number) < 9e18) {
    return static_cast<std::int64_t>(std::floor(*number));
  }
  throw DataError(
      fmt::format("{}: '{}' is not a time; write seconds since 1970 or a date as 2004-11-15T01:00:00Z", where, text));
}

double parse_score(std::string_view text, const std::string& where) {
  if (const auto number = parse_number(text)) return *number;
  throw DataError(fmt::format("{}: the score '{}' is not a number", where, text));
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n\f\v", at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find_first_of(" \t\r\n\f\v", begin), text.size());
    words.emplace_back(text.substr(begin, at - begin));
  }
  return words;
}

}  // namespace chorus::inline readers
