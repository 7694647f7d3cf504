#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace chorus::cli {

/// Reads standard input and hands over `batch` lines at a time, the last time perhaps fewer. What `use` printed is
/// flushed after each batch, so that a pipe sees answers as they come.
///
///     for_each_batch_of_input(32, [&](const std::vector<std::string>& lines) { ... });
void for_each_batch_of_input(std::int64_t batch, const std::function<void(const std::vector<std::string>&)>& use);

}  // namespace chorus::cli
