#include "infrastructure/tracking/report/run_view.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/report/run_process.h"

namespace chorus::inline report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostReasons = 50;
constexpr std::uint64_t kMostMomentary = 4 << 20;  // bytes of a file about what happens now

double number_of(const Event& event, const char* name) {
  const auto found = event.numbers.find(name);
  return found == event.numbers.end() ? 0 : found->second;
}

std::string text_of(const Event& event, const char* name) {
  const auto found = event.texts.find(name);
  return found == event.texts.end() ? "" : found->second;
}

/// What is measured besides scores.
bool is_cost(const std::string& name) {
  return name == "examples" || name == "seconds" || name == "emulated_seconds" || name == "emulated_joules" ||
         name == "client_joules" || name == "client_bytes";
}

}  // namespace

RunView::RunView(fs::path folder, std::string id)
    : folder_(std::move(folder)), id_(id.empty() ? folder_.string() : std::move(id)), info_(read_run_info(folder_)) {
  label_ = info_.name;
}

std::string RunView::status() const {
  return summary_ ? summary_->status : process_ ? std::string(kRunning) : std::string(kStopped);
}

bool RunView::refresh() {
  const std::string before = status();
  const std::uint64_t read = offset_;
  const bool was_paused = paused_;
  const std::string old_progress = progress_, old_server = server_;
  process_ = process_of_run(folder_);
  std::error_code error;
  paused_ = process_ && (process_is_paused(*process_) || (served() && fs::exists(folder_ / "pause", error)));
  read_events();
  const auto time = fs::last_write_time(folder_ / "summary.json", error);
  if (error) {
    summary_.reset();
    summary_time_ = {};
  } else if (time != summary_time_) {
    try {
      summary_ = read_run_summary(folder_);
      summary_time_ = time;
    } catch (const Error& damaged) {
      problem_ = damaged.what();
    }
  }
  progress_ = momentary("progress.json");
  server_ = momentary("server.json");
  return offset_ != read || status() != before || paused_ != was_paused || progress_ != old_progress ||
         server_ != old_server;
}

/// A file that the run replaces all the time; empty when no process works on it.
std::string RunView::momentary(const char* name) const {
  std::error_code error;
  if (!process_ || !fs::is_regular_file(folder_ / name, error)) return "";
  try {
    return read_file(folder_ / name, kMostMomentary);
  } catch (const Error&) {
    return "";  // it was just replaced
  }
}

void RunView::read_events() {
  const fs::path path = folder_ / "metrics.jsonl";
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return;
  const auto size = static_cast<std::uint64_t>(file.st_size);
  if (file.st_ino != file_number_ || size < offset_) forget_events();
  file_number_ = file.st_ino;
  if (size == offset_) return;
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(offset_));
  try {
    for (std::string line; std::getline(in, line) && !in.eof();) {  // a line without its end is being written
      add(parse_event(line, fmt::format("{}, byte {}", path.string(), offset_)));
      offset_ += line.size() + 1;
    }
  } catch (const DataError& error) {
    problem_ = error.what();
  }
}

void RunView::forget_events() {
  offset_ = 0;
  rounds_ = {};
  evaluations_ = {};
  split_.clear();
  last_round_ = 0;
  sums_.clear();
  failures_.clear();
  failed_ = 0;
  client_scores_.reset();
  privacy_.reset();
  problem_.clear();
}

void RunView::add(const Event& event) {
  if (event.kind == "run_started") {
    algorithm_ = text_of(event, "algorithm");
    metric_ = text_of(event, "metric");
    higher_ = text_of(event, "goal") != "min";
    planned_ = static_cast<std::int64_t>(number_of(event, "rounds"));
    clients_ = number_of(event, "clients");
    parameters_ = number_of(event, "parameters");
    trained_ = number_of(event, "trained_parameters");
    if (event.numbers.contains("target")) target_ = number_of(event, "target");
  } else if (event.kind == "round") {
    last_round_ = std::max(last_round_, event.round);
    sums_["seconds"] += number_of(event, "seconds");
    sums_["bytes"] += number_of(event, "bytes_up") + number_of(event, "bytes_down");
    sums_["examples"] += number_of(event, "examples");
    if (event.numbers.contains("emulated_seconds")) {
      sums_["emulated_seconds"] += number_of(event, "emulated_seconds");
      sums_["client_joules"] += number_of(event, "client_joules");
    }
    std::map<std::string, double> row = event.numbers;
    row["seconds_of_round"] = number_of(event, "seconds");
    row["clients_of_round"] = number_of(event, "clients");
    row.erase("clients");
    for (const auto& [name, value] : sums_) row[name] = value;
    row["round"] = static_cast<double>(event.round);
    rounds_.add(row);
    if (event.numbers.contains("epsilon")) privacy_ = event;
  } else if (event.kind == "evaluation") {
    add_evaluation(event);
  } else if (event.kind == "client_failed") {
    add_failure(event);
  } else if (event.kind == "client_scores") {
    client_scores_ = event;
  }
}

void RunView::add_evaluation(const Event& event) {
  const std::string split = text_of(event, "split");
  // The main split is "test", else the first one.
  if (split_.empty() || (split == "test" && split_ != "test")) {
    if (!split_.empty()) evaluations_ = {};
    split_ = split;
  }
  if (split != split_) return;
  std::map<std::string, double> row = sums_;
  for (const auto& [name, value] : event.numbers) {
    if (!is_cost(name)) row[name] = value;
  }
  row["round"] = static_cast<double>(event.round);
  evaluations_.add(row);
}

void RunView::add_failure(const Event& event) {
  ++failed_;
  std::string reason = text_of(event, "reason");
  reason.resize(std::min<std::size_t>(reason.size(), 500));
  if (!failures_.contains(reason) && failures_.size() >= kMostReasons) reason = "other reasons";
  Failures& failures = failures_[reason];
  if (failures.count++ == 0) failures.first = event.round;
  failures.last = event.round;
}

}  // namespace chorus::inline report
