#include "core/console/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <utility>
#include <vector>

#include "core/console/terminal.h"

namespace chorus::inline console {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kShortestPause = 1;
constexpr double kLongestPause = 30;
constexpr std::size_t kWidestBar = 30;
constexpr std::string_view kErase = "\r\x1b[K";

/// Guards every bar, and the stack of bars on terminals: the last one is visible.
struct Screen {
  std::mutex mutex;
  std::vector<Progress*> bars;
};

Screen& screen() {
  static Screen instance;
  return instance;
}

std::atomic<bool> enabled_now = true;

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string rate_text(double rate, const std::string& unit) {
  if (rate >= 100) return fmt::format("{:.0f} {}/s", rate, unit);
  if (rate >= 1) return fmt::format("{:.1f} {}/s", rate, unit);
  return rate > 0
             ? fmt::format("{:.1f} s per {}", 1 / rate, unit.ends_with('s') ? unit.substr(0, unit.size() - 1) : unit)
             : fmt::format("0 {}/s", unit);
}

}  // namespace

void set_progress_enabled(bool enabled) { enabled_now = enabled; }

bool progress_enabled() { return enabled_now; }

void write_above_progress(std::string_view text) {
  const std::lock_guard lock(screen().mutex);
  Progress* bar = screen().bars.empty() ? nullptr : screen().bars.back();
  if (bar == nullptr) {
    write_stderr(text);
    return;
  }
  bar->options_.write(fmt::format("{}{}", kErase, text));
  bar->draw(bar->options_.clock());
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e12));
  const std::int64_t minutes = whole / 60;
  const std::int64_t hours = minutes / 60;
  if (hours >= 24) return fmt::format("{} d {:02}:{:02}", hours / 24, hours % 24, minutes % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(ProgressOptions options) : options_(std::move(options)), terminal_(false), done_(options_.initial) {
  terminal_ = options_.terminal.value_or(is_terminal(STDERR_FILENO));
  if (!options_.write) options_.write = write_stderr;
  if (!options_.clock) options_.clock = steady_seconds;
  start_ = options_.clock();
  last_shown_ = start_;
  if (options_.total > 0) last_tenth_ = done_ * 10 / options_.total;
  const std::lock_guard lock(screen().mutex);
  if (!terminal_ || !enabled_now) return;
  screen().bars.push_back(this);
  draw(start_);
}

Progress::~Progress() { end(false); }

void Progress::advance(std::int64_t steps) {
  const std::lock_guard lock(screen().mutex);
  done_ += steps;
  update();
}

void Progress::set(std::int64_t done) {
  const std::lock_guard lock(screen().mutex);
  done_ = done;
  update();
}

void Progress::note(std::string text) {
  const std::lock_guard lock(screen().mutex);
  note_ = printable(text);
}

void Progress::finish() { end(true); }

bool Progress::is_shown() const { return !screen().bars.empty() && screen().bars.back() == this; }

void Progress::update() {
  if (ended_ || !enabled_now) return;
  const double now = options_.clock();
  if (terminal_) {
    if (is_shown() && now - last_shown_ >= kRedrawSeconds) draw(now);
    return;
  }
  const std::int64_t tenth = options_.total > 0 ? done_ * 10 / options_.total : 0;
  const bool last = options_.total > 0 && done_ >= options_.total;  // finish() reports it
  const bool due = (tenth > last_tenth_ && now - last_shown_ >= kShortestPause) || now - last_shown_ >= kLongestPause;
  if (!due || last) return;
  last_tenth_ = tenth;
  last_shown_ = now;
  options_.write(plain_line(now, false) + "\n");
}

void Progress::end(bool finished) {
  const std::lock_guard lock(screen().mutex);
  if (std::exchange(ended_, true)) return;
  const bool shown = is_shown();
  std::erase(screen().bars, this);
  if (!enabled_now) return;
  const double now = options_.clock();
  if (terminal_ && shown) options_.write(kErase);
  options_.write(plain_line(now, finished) + (finished ? "\n" : ", stopped\n"));
  if (terminal_ && !screen().bars.empty()) screen().bars.back()->draw(now);
}

void Progress::draw(double now) {
  last_shown_ = now;
  options_.write(fmt::format("{}{}", kErase, bar_line(now)));
}

std::string Progress::bar_line(double now) const {
  const double elapsed = std::max(now - start_, 1e-9);
  const double rate = static_cast<double>(done_ - options_.initial) / elapsed;
  // Leave the last column free: some terminals wrap when it is written.
  const std::size_t columns = (options_.columns > 0 ? options_.columns : terminal_columns(STDERR_FILENO)) - 1;
  std::string tail;
  if (options_.total > 0) {
    const double left = static_cast<double>(std::max<std::int64_t>(options_.total - done_, 0));
    tail = fmt::format(" {}/{}  {}  {}", done_, options_.total, rate_text(rate, options_.unit), duration_text(elapsed));
    if (rate > 0) tail += fmt::format(", {} left", duration_text(left / rate));
  } else {
    tail = fmt::format(" {} {}  {}  {}", done_, options_.unit, rate_text(rate, options_.unit), duration_text(elapsed));
  }
  if (!note_.empty()) tail += "  " + note_;
  if (options_.total <= 0) return shortened(options_.label + tail, columns);

  const double part = std::clamp(static_cast<double>(done_) / static_cast<double>(options_.total), 0.0, 1.0);
  const std::string head = fmt::format("{} {:3.0f} % ", options_.label, std::floor(part * 100));
  const std::size_t used = display_width(head) + display_width(tail);
  const std::size_t width = columns > used ? std::min(columns - used, kWidestBar) : 0;
  std::string bar;
  if (width >= 5) {
    const auto filled = static_cast<std::size_t>(part * static_cast<double>(width));
    for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "━" : "┈";
  }
  return shortened(head + bar + tail, columns);
}

std::string Progress::plain_line(double now, bool finished) const {
  const double elapsed = std::max(now - start_, 1e-9);
  const double rate = static_cast<double>(done_ - options_.initial) / elapsed;
  std::string line = options_.label + ": ";
  if (options_.total > 0 && !finished) {
    line += fmt::format("{} % ({}/{})", done_ * 100 / options_.total, done_, options_.total);
  } else {
    line += fmt::format("{} {}", done_, options_.unit);
  }
  line += finished ? fmt::format(" in {}, {}", duration_text(elapsed), rate_text(rate, options_.unit))
                   : fmt::format(", {}, {} elapsed", rate_text(rate, options_.unit), duration_text(elapsed));
  if (!finished && options_.total > 0 && rate > 0) {
    const double left = static_cast<double>(std::max<std::int64_t>(options_.total - done_, 0));
    line += fmt::format(", {} left", duration_text(left / rate));
  }
  if (!note_.empty()) line += ", " + note_;
  return line;
}

}  // namespace chorus::inline console
