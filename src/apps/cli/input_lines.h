#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace chorus::inline cli {

/// Reads standard input in batches of `batch` lines; the last batch may be smaller. Flushes the output after each
/// batch, so that a pipe receives results early.
///
///     for_each_batch_of_input(32, [&](const std::vector<std::string>& lines) { ... });
void for_each_batch_of_input(std::int64_t batch, const std::function<void(const std::vector<std::string>&)>& use);

}  // namespace chorus::inline cli
