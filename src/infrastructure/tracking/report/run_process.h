#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace chorus::inline report {

/// The process that holds the lock of a run folder (/proc/locks); nullopt when there is none, or the system does not
/// say. Takes no lock itself, so it never gets in the way of a process that starts.
std::optional<std::int64_t> process_of_run(const std::filesystem::path& folder);

/// Stopped by a signal (/proc/PID/stat).
bool process_is_paused(std::int64_t process);

}  // namespace chorus::inline report
