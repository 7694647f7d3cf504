#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "core/config/registry.h"

namespace chorus::inline ports {

/// An event of a run with its numbers: one line of `metrics.jsonl`. The kinds and their fields are listed in
/// docs/reference/formats.md ("Run folders"). Numbers may be non-finite; a name occurs in one of the two maps only, and
/// is neither "kind", "round" nor "time".
///
/// Rounds count from 1. An event about round r, or about work before round r + 1 starts, carries r; so events before
/// the first round carry 0, and `phase_started` carries the first round of the phase. When a run resumes from the
/// checkpoint of round r, all events of later rounds are dropped.
struct Event {
  std::string kind;
  std::int64_t round = 0;
  std::map<std::string, double> numbers{};
  std::map<std::string, std::string> texts{};
  double time = 0;  ///< Unix seconds; 0: the time of recording

  bool operator==(const Event&) const = default;
};

/// Receives a run's events. Called by one thread, in order.
///
///     tracker.record({"round", 12, {{"loss", 0.31}, {"examples", 640}, {"seconds", 1.2}}});
class Tracker {
 public:
  static constexpr std::string_view kKind = "tracker";

  virtual ~Tracker() = default;
  /// WorldError when it cannot be written (full disk).
  virtual void record(const Event& event) = 0;
  /// Flushes to the operating system, so that a killed process loses nothing.
  virtual void flush() {}
};

/// Trackers beside `metrics.jsonl`, by name: each writes its own files into the given run folder.
using Trackers = Registry<Tracker, const std::filesystem::path&>;

}  // namespace chorus::inline ports
