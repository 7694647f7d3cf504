#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace chorus::inline base {

/// A large buffer that is used again and again, such as the one for each round's model: the system clears new memory
/// page by page, which takes longer than filling it. One at most is kept, until the process ends.
///
///     std::string bytes = take_spare_buffer(size);          // empty, with that capacity or more
///     const auto held = returning_buffer(std::move(bytes));  // its last owner gives it back
std::string take_spare_buffer(std::size_t capacity);
std::shared_ptr<const std::string> returning_buffer(std::string bytes);

}  // namespace chorus::inline base
