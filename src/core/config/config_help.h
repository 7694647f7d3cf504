#pragma once

#include <cstddef>
#include <string>

#include "core/config/config.h"

namespace chorus {

/// The fields of a configuration for a person: key, default, what is allowed and what it means, nested sections as
/// dotted keys, wrapped to `width` columns. Empty when there is nothing to configure.
std::string config_help_text(const DescribeConfig& describe, std::size_t width);

/// The same for a program: a JSON array of {key, type, shape, default, help} with minimum, maximum, allowed, required
/// and kind where they apply.
std::string config_help_json(const DescribeConfig& describe);

}  // namespace chorus
