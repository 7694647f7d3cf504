#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace chorus {

struct ProgressOptions {
  std::string label;           ///< what is going on: "train"
  std::int64_t total = 0;      ///< how many steps there are; 0: not known
  std::string unit = "steps";  ///< what a step is
  std::int64_t initial = 0;    ///< steps done before (a resumed run); they do not count into the rate

  // For tests; by default stderr, what it is, and the steady clock.
  std::function<void(std::string_view)> write{};
  std::function<double()> clock{};  ///< seconds
  std::optional<bool> terminal{};
  std::size_t columns = 0;
};

/// How far a piece of work is. On a terminal one line, redrawn at most ten times a second and never wider than the
/// terminal: a bar, percentage, rate, elapsed time and time left, and a note (a metric). In a pipe or on a dumb
/// terminal plain lines, every 10 % but not more than one a second, or after 30 seconds. One line stays at the end.
///
/// Thread-safe. Log lines appear above the bar. A bar made while another is drawn hides it until it ends.
///
///     Progress progress({.label = "train", .total = rounds, .unit = "rounds"});
///     for (...) { progress.note(fmt::format("loss {:.3f}", loss)); progress.advance(); }
///     progress.finish();
class Progress {
 public:
  explicit Progress(ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Without `finish` (an exception): the last line says where it stopped.
  ~Progress();

  void advance(std::int64_t steps = 1);
  void set(std::int64_t done);
  void note(std::string text);
  void finish();

 private:
  friend void write_above_progress(std::string_view text);

  void update();  // the members below with an underscore suffix are guarded by one lock for all bars
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

/// Off: no bar and no line is shown any more (`--quiet`).
void set_progress_enabled(bool enabled);
bool progress_enabled();

/// Writes whole lines to stderr without breaking a bar that is being drawn there.
void write_above_progress(std::string_view text);

/// "0:07", "12:34", "3:05:09", "2 d 03:05": a duration for people.
std::string duration_text(double seconds);

}  // namespace chorus
