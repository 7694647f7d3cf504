#include "infrastructure/tracking/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline tracking {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kExactWhole = 9007199254740992.0;  // 2^53

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count()) / 1000.0;
}

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == std::trunc(value) && std::abs(value) < kExactWhole && !(value == 0 && std::signbit(value)))
    return static_cast<std::int64_t>(value);
  return value;
}

std::string reason(int error) { return std::generic_category().message(error); }

bool reserved(const std::string& name) { return name == "kind" || name == "round" || name == "time"; }

struct Lines {
  std::vector<Event> events;
  bool clean = true;  // every line is complete
};

/// A last line without a newline counts when it parses.
Lines read_lines(const fs::path& path, bool keep_unended) {
  Lines lines;
  if (!fs::exists(path)) return lines;
  const MappedFile file(path);
  std::string_view rest = file.text();
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    const std::string where = fmt::format("{}:{}", path.string(), line);
    if (end == std::string_view::npos) {
      lines.clean = false;
      if (!keep_unended) break;
      try {
        lines.events.push_back(parse_event(rest, where));
      } catch (const DataError&) {  // NOLINT(bugprone-empty-catch): its writer was killed
      }
      break;
    }
    lines.events.push_back(parse_event(rest.substr(0, end), where));
    rest.remove_prefix(end + 1);
  }
  return lines;
}

}  // namespace

Event stamped(Event event) {
  if (event.time == 0) event.time = now();
  return event;
}

std::string event_line(const Event& event) {
  Json json = {{"kind", event.kind}, {"round", event.round}, {"time", number(event.time)}};
  for (const auto& [name, text] : event.texts) {
    check(!reserved(name), "an event's text has a reserved name");
    json[name] = text;
  }
  for (const auto& [name, value] : event.numbers) {
    check(!reserved(name) && !event.texts.contains(name), "an event's number has a name that is taken");
    json[name] = number(value);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Event parse_event(std::string_view line, const std::string& where) {
  const auto wrong = [&](std::string_view what) {
    return DataError(fmt::format("{}: is not an event of a run: {}", where, what));
  };
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) throw wrong("not a JSON object");
  Event event;
  bool has_kind = false, has_round = false;
  for (const auto& [name, value] : json.items()) {
    if (name == "kind" && value.is_string()) {
      event.kind = value.get<std::string>();
      has_kind = true;
    } else if (name == "round" && value.is_number_integer()) {
      event.round = value.get<std::int64_t>();
      has_round = true;
    } else if (name == "time" && (value.is_number() || value.is_null())) {
      event.time = value.is_null() ? 0 : value.get<double>();
    } else if (reserved(name)) {
      throw wrong(fmt::format("'{}' has the wrong type", name));
    } else if (value.is_number() || value.is_null()) {
      event.numbers[name] = value.is_null() ? std::nan("") : value.get<double>();
    } else if (value.is_string()) {
      event.texts[name] = value.get<std::string>();
    } else {
      throw wrong(fmt::format("'{}' is neither a number nor a text", name));
    }
  }
  if (!has_kind || !has_round) throw wrong("it lacks 'kind' or 'round'");
  return event;
}

MetricsLog::MetricsLog(const fs::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw WorldError(fmt::format("{}: cannot be written: {}", path.string(), reason(errno)));
}

MetricsLog::~MetricsLog() { ::close(descriptor_); }

void MetricsLog::record(const Event& event) {
  const std::string line = event_line(stamped(event)) + '\n';
  struct stat before {};
  const bool known = ::fstat(descriptor_, &before) == 0;
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t done = ::write(descriptor_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int error = errno;
      if (known && ::ftruncate(descriptor_, before.st_size) != 0) {
        // The partial line stays: readers skip it, and cut_events_after removes it.
      }
      throw WorldError(fmt::format("{}: cannot be written: {}", path_.string(), reason(error)));
    }
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
}

std::vector<Event> read_events(const fs::path& path) { return read_lines(path, false).events; }

std::vector<Event> cut_events_after(const fs::path& path, std::int64_t round) {
  Lines lines = read_lines(path, true);
  const std::size_t cut = std::erase_if(
      lines.events, [&](const Event& event) { return event.round > round || event.kind == "run_finished"; });
  if (cut == 0 && lines.clean) return std::move(lines.events);
  AtomicFile file(path);
  for (const Event& event : lines.events) file.write(event_line(event) + '\n');
  file.commit();
  return std::move(lines.events);
}

}  // namespace chorus::inline tracking
