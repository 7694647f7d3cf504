#pragma once

#include <string>

namespace chorus::inline peft {

/// A key of PEFT's rank_pattern and alpha_pattern: a regular expression for a module's whole name, or for its end after
/// a dot ("query" matches "bert.encoder.layer.0.attention.self.query"), as PEFT's get_pattern_key does.
bool matches_module(const std::string& pattern, const std::string& module);
/// Whether it is a regular expression at all.
bool is_module_pattern(const std::string& pattern);

}  // namespace chorus::inline peft
