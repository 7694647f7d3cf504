#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline readers {

/// Parses one JSON value; `where` ("file:line") begins the DataError when it is malformed.
nlohmann::json parse_json(std::string_view text, const std::string& where);

/// A JSON string from its text, quotes included.
std::string json_string(std::string_view text, const std::string& where);

/// The value as a table cell: a string as it is, a number or boolean in JSON's spelling, null as "", a list joined by
/// spaces. DataError for an object.
std::string json_text(const nlohmann::json& value, const std::string& where);
/// The strings of a list; a plain string is split at whitespace. DataError otherwise.
std::vector<std::string> json_words(const nlohmann::json& value, const std::string& where);
/// The names of an object's members, for messages: "a, b, c".
std::string json_keys(const nlohmann::json& object);

/// Seconds since 1970 from a number (seconds, or any order) or a date: 2004-11-15, 2004-11-15T01:00:00Z, 2004-11-15
/// 01:00:00+02:00; fractions are dropped, UTC without an offset. DataError otherwise.
std::int64_t parse_time(std::string_view text, const std::string& where);

/// A finite number, or DataError naming the field.
double parse_score(std::string_view text, const std::string& where);

/// Splits at whitespace.
std::vector<std::string> split_words(std::string_view text);

}  // namespace chorus::inline readers
