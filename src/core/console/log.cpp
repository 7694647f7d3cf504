#include "core/console/log.h"

#include <fmt/chrono.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/console/progress.h"
#include "core/console/terminal.h"

namespace chorus::inline console {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 5> kLevels = {
    {{"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warning", spdlog::level::warn},
     {"error", spdlog::level::err},
     {"off", spdlog::level::off}}};

class AboveProgressSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t buffer;
    formatter_->format(message, buffer);
    std::string text(buffer.data(), buffer.size());
    if (message.level >= spdlog::level::warn && wants_colour(STDERR_FILENO)) {
      text = (message.level == spdlog::level::warn ? "\x1b[33m" : "\x1b[31m") + text.substr(0, text.size() - 1) +
             "\x1b[0m\n";
    }
    write_above_progress(text);
  }
  void flush_() override {}
};

spdlog::logger& logger() {
  static const std::unique_ptr<spdlog::logger> instance = [] {
    auto made = std::make_unique<spdlog::logger>("chorus", std::make_shared<AboveProgressSink>());
    made->set_formatter(std::make_unique<spdlog::pattern_formatter>("%H:%M:%S %v"));
    made->set_level(spdlog::level::trace);  // Log::enabled filters before formatting
    return made;
  }();
  return *instance;
}

std::atomic<LogLevel>& level_now() {
  static std::atomic<LogLevel> level = [] {
    const char* name = std::getenv("CHORUS_LOG");
    if (name == nullptr || *name == '\0') return LogLevel::kInfo;
    try {
      return parse_log_level(name);
    } catch (const ConfigError& error) {
      write_above_progress(fmt::format("chorus: CHORUS_LOG: {}\n", error.what()));
      return LogLevel::kInfo;
    }
  }();
  return level;
}

bool wants_json() {
  static const bool wanted = [] {
    const char* format = std::getenv("CHORUS_LOG_FORMAT");
    return format != nullptr && std::string_view(format) == "json";
  }();
  return wanted;
}

/// Makes each line printable and keeps line breaks.
std::string printable_lines(std::string_view text) {
  std::string result;
  while (true) {
    const std::size_t end = text.find('\n');
    result += printable(text.substr(0, end));
    if (end == std::string_view::npos) return result;
    result += "\n    ";
    text.remove_prefix(end + 1);
  }
}

}  // namespace

void set_log_level(LogLevel level) { level_now() = level; }
LogLevel log_level() { return level_now(); }

LogLevel parse_log_level(std::string_view name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    if (kLevels[i].first == name) return static_cast<LogLevel>(i);
    names.emplace_back(kLevels[i].first);
  }
  throw ConfigError(fmt::format("'{}' is not a log level{} (known: debug, info, warning, error, off)",
                                shortened(name, 40), did_you_mean(name, names)));
}

void Log::write(LogLevel level, fmt::string_view format, fmt::format_args args) const {
  const auto& [name, spdlog_level] = kLevels.at(static_cast<std::size_t>(level));
  if (wants_json()) {
    const nlohmann::json object{{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                                {"level", name},
                                {"area", area_},
                                {"message", fmt::vformat(format, args)}};
    write_above_progress(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return;
  }
  std::string line = fmt::format("[{}] ", area_);
  if (level != LogLevel::kInfo) line += fmt::format("{}: ", name);
  line += printable_lines(fmt::vformat(format, args));
  logger().log(spdlog_level, line);
}

}  // namespace chorus::inline console
