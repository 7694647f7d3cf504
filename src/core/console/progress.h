#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace chorus::inline console {

struct ProgressOptions {
  std::string label;           ///< name of the work: "train"
  std::int64_t total = 0;      ///< number of steps; 0: unknown
  std::string unit = "steps";  ///< plural name of a step
  std::int64_t initial = 0;    ///< steps of an earlier process (a resumed run), not counted in the rate

  // For tests; the defaults are stderr, its kind and width, and the steady clock.
  std::function<void(std::string_view)> write{};
  std::function<double()> clock{};  ///< seconds
  std::optional<bool> terminal{};
  std::size_t columns = 0;
};

/// Progress of a piece of work. On a terminal it is one line, redrawn at most ten times per second and never wider than
/// the terminal: a bar, percentage, rate, elapsed and remaining time, and a note (a metric). In a pipe or on a dumb
/// terminal it is plain lines: one per 10 % but at most one per second, or one per 30 seconds. One line remains at the
/// end.
///
/// Thread-safe. Log lines appear above the bar. A nested bar hides the outer one until it ends.
///
///     Progress progress({.label = "train", .total = rounds, .unit = "rounds"});
///     for (...) { progress.note(fmt::format("loss {:.3f}", loss)); progress.advance(); }
///     progress.finish();
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Without `finish` (an exception was thrown) the last line says where the work stopped.
  ~Progress();

  void advance(std::int64_t steps = 1);
  void set(std::int64_t done);
  void note(std::string text);
  void finish();

 private:
  friend void write_above_progress(std::string_view text);

  void update();  // one lock shared by all bars guards the members below
  void end(bool finished);
  void draw(double now);
  std::string bar_line(double now) const;
  std::string plain_line(double now, bool finished) const;
  bool is_shown() const;

  ProgressOptions options_;
  bool terminal_;
  bool ended_ = false;
  std::int64_t done_;
  std::string note_;
  double start_ = 0;
  double last_shown_ = 0;
  std::int64_t last_tenth_ = 0;
};

/// false: show no bar and no line any more (`--quiet`).
void set_progress_enabled(bool enabled);
bool progress_enabled();

/// Writes whole lines to stderr without breaking a bar.
void write_above_progress(std::string_view text);

/// A readable duration: "0:07", "12:34", "3:05:09", "2 d 03:05".
std::string duration_text(double seconds);

}  // namespace chorus::inline console
