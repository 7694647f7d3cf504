#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/dataset.h"

namespace chorus::inline data {

/// An example of a dataset as the record it was read from, for building a dataset that differs in few examples. Only
/// for text and pairs of texts: words, answers and their spans are left out.
Record record_of(const Dataset& data, std::uint32_t index);

/// Class labels in id order.
std::vector<std::string> label_names(const Dataset& data);

}  // namespace chorus::inline data
