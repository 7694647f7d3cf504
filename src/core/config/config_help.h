#pragma once

#include <cstddef>
#include <string>

#include "core/config/config.h"

namespace chorus::inline config {

/// The fields of a configuration as a table of key, default, meaning and allowed values, wrapped to `width` columns.
/// Nested sections have dotted keys. Empty when there are no fields.
std::string config_help_text(const DescribeConfig& describe, std::size_t width);

/// The same as a JSON array of {key, type, shape, default, help}, with minimum, maximum, allowed, required and kind
/// where they apply.
std::string config_help_json(const DescribeConfig& describe);

}  // namespace chorus::inline config
