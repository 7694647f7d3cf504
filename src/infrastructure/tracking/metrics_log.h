#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/ports/tracker.h"

namespace chorus::inline tracking {

/// The event with the current time, if it has none.
Event stamped(Event event);

/// An event as one line of JSON, without the newline. Whole numbers are written without a point, non-finite ones as
/// null (and read back as NaN).
std::string event_line(const Event& event);
/// DataError starting with `where` when the line is not an event.
Event parse_event(std::string_view line, const std::string& where);

/// `metrics.jsonl`: one event per line, each passed to the operating system at once, so that killing the process loses
/// at most the line being written.
///
///     MetricsLog log(run.metrics());
///     log.record({"evaluation", 5, {{"accuracy", 0.8}}, {{"split", "test"}}});
class MetricsLog final : public Tracker {
 public:
  explicit MetricsLog(const std::filesystem::path& path);
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;
  ~MetricsLog() override;

  /// WorldError when the disk is full; a partial line is removed.
  void record(const Event& event) override;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// The events of a file, without an incomplete last line (it is being written, or its writer was killed). Empty when
/// the file is missing. DataError for a line that is not an event.
std::vector<Event> read_events(const std::filesystem::path& path);

/// Atomically keeps the events up to `round`, without `run_finished`; returns them.
std::vector<Event> cut_events_after(const std::filesystem::path& path, std::int64_t round);

}  // namespace chorus::inline tracking
