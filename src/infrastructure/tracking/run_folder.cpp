#include "infrastructure/tracking/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/files/files.h"
#include "infrastructure/tracking/metrics_log.h"

namespace chorus::inline tracking {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string system_reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const fs::path& path, int error) {
  const std::string message = fmt::format("{}: cannot be written: {}", path.string(), system_reason(error));
  if (error == EACCES || error == EPERM || error == EROFS || error == ENAMETOOLONG || error == ENOTDIR)
    throw DataError(message);
  throw WorldError(message);
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path, error.value());
}

std::string run_json(const RunInfo& info) {
  const Json json = {{"format", kRunFormat},
                     {"name", info.name},
                     {"chorus_version", info.chorus_version},
                     {"torch_version", info.torch_version},
                     {"seed", info.seed},
                     {"started", info.started},
                     {"command", info.command},
                     {"directory", info.directory}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Only "..", so that it reveals nothing about the machine.
bool leads_up(const fs::path& path) {
  return !path.empty() && std::all_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

std::string way_up_from(const fs::path& run) {
  std::error_code error;
  const fs::path way = fs::current_path(error).lexically_relative(fs::absolute(run, error).lexically_normal());
  return !error && leads_up(way) ? way.string() : "";
}

void check_name(const std::string& name) {
  bool plain = !name.empty() && name.size() <= 200 && name.front() != '.' && name.front() != '-' && utf8::valid(name);
  for (const char c : name) plain = plain && c != '/' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
  if (!plain) {
    throw ConfigError(fmt::format(
        "'{}' cannot be the name of a run: use letters, digits, '_', '-', '=', '.', and start with a letter or digit",
        utf8::replace_invalid(name)));
  }
}

RunLock lock_run(const fs::path& folder, const fs::path& shown) {
  return {folder, fmt::format("{}: another process is working on this run; wait until it has finished, or stop it",
                              shown.string())};
}

/// Removed unless it was renamed into place.
struct Draft {
  fs::path path;
  bool placed = false;

  explicit Draft(const fs::path& target) {
    const fs::path parent = target.parent_path();
    for (int attempt = 0;; ++attempt) {
      path = parent / fmt::format(".run.{}.{}.tmp", ::getpid(), attempt);
      if (::mkdir(path.c_str(), 0777) == 0) return;
      if (errno != EEXIST || attempt == 1000) fail(path, errno);
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (placed) return;
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  /// False when the target exists.
  bool place(const fs::path& target) {
    if (::rename(path.c_str(), target.c_str()) == 0) return placed = true;
    if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR) return false;
    fail(target, errno);
  }
};

class TrackerList final : public Tracker {
 public:
  void add(std::unique_ptr<Tracker> tracker) { trackers_.push_back(std::move(tracker)); }
  void record(const Event& event) override {
    const Event timed = stamped(event);
    for (const auto& tracker : trackers_) tracker->record(timed);
  }
  void flush() override {
    for (const auto& tracker : trackers_) tracker->flush();
  }

 private:
  std::vector<std::unique_ptr<Tracker>> trackers_;
};

ConfigError taken(const fs::path& target) {
  if (fs::exists(target / "run.json")) {
    return ConfigError(
        fmt::format("{0}: is already a run, which is not overwritten; continue it with 'chorus resume "
                    "{0}', or give another name, or remove it",
                    target.string()));
  }
  return ConfigError(fmt::format("{}: exists already and is not empty; use another name", target.string()));
}

}  // namespace

RunFolder RunFolder::create(const NewRun& run) {
  RunInfo info = run.info;
  if (info.started.empty()) info.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const bool numbered = run.folder.empty() && run.name.empty();
  fs::path target = run.folder.empty() ? run.parent / (numbered ? run.experiment : run.name) : run.folder;
  if (!target.has_filename()) target = target.parent_path();
  const std::string stem = target.filename().string();
  if (run.folder.empty()) check_name(numbered ? run.experiment : run.name);
  if (!target.has_parent_path()) target = "." / target;
  make_folders(target.parent_path());
  if (!numbered && fs::exists(target) && !(fs::is_directory(target) && fs::is_empty(target))) throw taken(target);

  Draft draft(target);
  write_file(draft.path / "config.yaml", run.config_yaml);
  make_folders(draft.path / "checkpoints");
  RunLock lock = lock_run(draft.path, target);
  for (int number = 1;; ++number) {
    if (numbered) {
      target = target.parent_path() / fmt::format("{}-{:03}", stem, number);
      if (fs::exists(target)) continue;
    }
    info.name = target.filename().string();
    info.directory = way_up_from(target);
    write_file(draft.path / "run.json", run_json(info));
    if (draft.place(target)) break;
    if (!numbered) throw taken(target);
  }
  const fs::path shown = target.parent_path() == "." ? target.filename() : target;
  return {shown, std::move(info), std::move(lock)};
}

RunFolder RunFolder::open(const fs::path& folder) {
  (void)read_run_info(folder);  // reports errors before a lock file is created
  RunLock lock = lock_run(folder, folder);
  return {folder, read_run_info(folder), std::move(lock)};
}

RunFolder::RunFolder(fs::path path, RunInfo info, RunLock lock)
    : path_(std::move(path)), info_(std::move(info)), lock_(std::move(lock)) {}

std::unique_ptr<Tracker> RunFolder::tracker(std::int64_t round, const std::optional<std::vector<std::string>>& names) {
  std::error_code error;
  fs::remove(summary(), error);
  if (error) fail(summary(), error.value());
  const std::vector<Event> kept = cut_events_after(metrics(), round);
  auto all = std::make_unique<TrackerList>();
  all->add(std::make_unique<MetricsLog>(metrics()));
  for (const std::string& name : names ? *names : Trackers::names()) {
    std::unique_ptr<Tracker> more = Trackers::make(name, path_);
    for (const Event& event : kept) more->record(event);
    all->add(std::move(more));
  }
  return all;
}

void RunFolder::write_summary(const RunSummary& summary) const { write_file(this->summary(), to_json(summary)); }

RunInfo read_run_info(const fs::path& folder) {
  const fs::path path = folder / "run.json";
  if (!fs::is_directory(folder)) {
    throw DataError(fmt::format("{}: {}", folder.string(),
                                fs::exists(folder) ? "is a file; name the folder of a run" : "no such run folder"));
  }
  if (!fs::exists(path)) throw DataError(fmt::format("{}: is not a run folder: it has no run.json", folder.string()));
  const Json json = Json::parse(read_file(path, std::uint64_t{1} << 20), nullptr, false);
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer())
    throw DataError(fmt::format("{}: is damaged, or not a file of Chorus", path.string()));
  if (json["format"] != kRunFormat) {
    const std::string writer = json.contains("chorus_version") && json["chorus_version"].is_string()
                                   ? " by Chorus " + json["chorus_version"].get<std::string>()
                                   : "";
    throw DataError(
        fmt::format("{}: is a run folder of format {}, written{}, but this program reads format {}; use the version "
                    "that made it, or "
                    "start a new run from its config.yaml",
                    folder.string(), json["format"].dump(), writer, kRunFormat));
  }
  try {
    return {json.at("name").get<std::string>(),
            json.at("command").get<std::string>(),
            json.at("chorus_version").get<std::string>(),
            json.at("torch_version").get<std::string>(),
            json.at("seed").get<std::uint64_t>(),
            json.at("started").get<std::string>(),
            json.value("directory", "")};
  } catch (const Json::exception&) {
    throw DataError(fmt::format("{}: is damaged: a value is missing or of the wrong kind", path.string()));
  }
}

fs::path working_directory_of(const fs::path& run) {
  const std::string way = read_run_info(run).directory;
  return leads_up(way) ? fs::canonical(run / way) : fs::current_path();
}

}  // namespace chorus::inline tracking
