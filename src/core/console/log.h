#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace chorus::inline console {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// The minimum level that is written. Until the first call it is the environment variable CHORUS_LOG (debug, info,
/// warning, error or off), else info.
void set_log_level(LogLevel level);
LogLevel log_level();

/// Parses "debug", "info" and so on. ConfigError with the allowed names for anything else.
LogLevel parse_log_level(std::string_view name);

/// Log lines for people, on stderr: time, area, and the level unless it is info. Results go to stdout and files, never
/// here. Thread-safe; a line is written whole, above a progress bar. Control characters in arguments are neutralized.
///
/// No function dumps a configuration, key, message or example: only what a format string names is logged. Do not name a
/// secret.
///
///     const Log log("data");
///     log.info("{} examples from {}", count, path);        // 14:02:11 [data] 120 examples from a.csv
///     log.warning("{}: {} lines were skipped", path, n);   // 14:02:11 [data] warning: a.csv: 3 lines were skipped
class Log {
 public:
  explicit Log(std::string_view area) : area_(area) {}

  template <typename... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::kDebug)) write(LogLevel::kDebug, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::kInfo)) write(LogLevel::kInfo, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void warning(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::kWarning)) write(LogLevel::kWarning, format, fmt::make_format_args(args...));
  }
  template <typename... Args>
  void error(fmt::format_string<Args...> format, Args&&... args) const {
    if (enabled(LogLevel::kError)) write(LogLevel::kError, format, fmt::make_format_args(args...));
  }

  static bool enabled(LogLevel level) { return level >= log_level(); }

 private:
  void write(LogLevel level, fmt::string_view format, fmt::format_args args) const;

  std::string area_;
};

}  // namespace chorus::inline console
