#include "infrastructure/egress/egress_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/fleet/secret.h"

namespace chorus::inline egress {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kDaySeconds = 86'400;
const std::string kNothingBefore(64, '0');

std::string body_of(const Egress& entry, const std::string& before) {
  Json body{{"time", entry.time}, {"server", entry.server}, {"run", entry.run},       {"round", entry.round},
            {"what", entry.what}, {"bytes", entry.bytes},   {"digest", entry.digest}, {"before", before}};
  if (!entry.ledgers.empty()) body["ledgers"] = entry.ledgers;
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The hash covers the line as it stands, without its own last field.
std::string line_of(const std::string& body) {
  return fmt::format("{},\"hash\":\"{}\"}}", body.substr(0, body.size() - 1), sha256_hex(body));
}

/// What is wrong with a line that must follow `before`; empty: nothing.
std::string read_line(const std::string& line, std::string& before, Egress& entry) {
  constexpr std::string_view kHash = ",\"hash\":\"";
  constexpr std::size_t kDigits = 64;
  const std::size_t tail = kHash.size() + kDigits + 2;
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || line.size() <= tail || line.compare(line.size() - tail, kHash.size(), kHash) != 0) {
    return "is no entry";
  }
  const std::string hash = line.substr(line.size() - kDigits - 2, kDigits);
  if (sha256_hex(line.substr(0, line.size() - tail) + "}") != hash) return "was changed: its hash does not fit";
  try {
    if (json.at("before").get<std::string>() != before) return "does not follow the line before it";
    entry = {json.at("what"),  json.at("server"), json.at("run"), json.at("round"),
             json.at("bytes"), json.at("digest"), json.at("time")};
    if (json.contains("ledgers")) entry.ledgers = json.at("ledgers");
  } catch (const Json::exception&) {
    return "is no entry";
  }
  before = entry.hash = hash;
  return "";
}

}  // namespace

std::string sha256_hex(std::span<const std::string_view> parts) { return digest_hex(parts); }

EgressReport read_egress(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(fmt::format("{} cannot be read; has this client joined a fleet?", path.string()));
  EgressReport report;
  report.head = kNothingBefore;
  std::size_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    Egress entry;
    // A line without its end was being written when the machine lost power; nothing had left.
    if (file.eof()) {
      report.broken = fmt::format("line {} is incomplete", number);
      return report;
    }
    if (const std::string wrong = read_line(line, report.head, entry); !wrong.empty()) {
      report.broken = fmt::format("line {} {}", number, wrong);
      return report;
    }
    report.entries.push_back(std::move(entry));
  }
  return report;
}

EgressLog::EgressLog(std::filesystem::path path) : path_(std::move(path)), head_(kNothingBefore) {
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file_ < 0) throw DataError(fmt::format("{} cannot be opened: {}", path_.string(), std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(file_);
    throw WorldError(fmt::format("{} is in use; is this client running already?", path_.string()));
  }
  EgressReport report;
  std::string cut;
  try {
    report = read_egress(path_);
  } catch (...) {
    ::close(file_);
    throw;
  }
  if (report.broken.ends_with("is incomplete")) {
    // A line is written before what it announces leaves, so it is unlikely that this did. The chain goes on from the
    // last whole line, and says so.
    std::ifstream whole(path_, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(whole)), std::istreambuf_iterator<char>());
    const std::size_t end = text.rfind('\n');
    (void)!::ftruncate(file_, static_cast<off_t>(end == std::string::npos ? 0 : end + 1));
    cut = fmt::format("line {} of this log was incomplete and was removed", report.entries.size() + 1);
    Log("client").warning("{}: {}, as after a power cut or a full disk", path_.string(), cut);
  } else if (!report.broken.empty()) {
    ::close(file_);
    throw DataError(fmt::format("{}: {}; keep the file as evidence, and name another identity folder", path_.string(),
                                report.broken));
  }
  head_ = report.head;
  for (const Egress& entry : report.entries) count(entry);
  if (!cut.empty()) append({.what = cut, .time = std::time(nullptr)});
}

EgressLog::~EgressLog() { ::close(file_); }

void EgressLog::append(const Egress& entry) {
  const std::string body = body_of(entry, head_), line = line_of(body) + "\n";
  const off_t before = ::lseek(file_, 0, SEEK_END);
  std::size_t written = 0;
  while (written < line.size()) {  // a disk that fills up takes a part first, and says why at the next call
    const ssize_t count = ::write(file_, line.data() + written, line.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (written < line.size() || ::fdatasync(file_) != 0) {
    const std::string why = std::strerror(errno);
    (void)!::ftruncate(file_, before);
    throw WorldError(fmt::format("{} cannot be written ({}), so nothing leaves this machine", path_.string(), why));
  }
  head_ = sha256_hex(body);
  count(entry);
}

void EgressLog::count(const Egress& entry) {
  bytes_of_day_[entry.time / kDaySeconds] += entry.bytes;
  for (const auto& [file, mark] : entry.ledgers) ledgers_[entry.run][file] = mark;
}

std::map<std::string, std::string> EgressLog::ledgers_of(const std::string& run) const {
  const auto found = ledgers_.find(run);
  return found == ledgers_.end() ? std::map<std::string, std::string>{} : found->second;
}

std::uint64_t EgressLog::bytes_on_day_of(std::time_t moment) const {
  const auto found = bytes_of_day_.find(moment / kDaySeconds);
  return found == bytes_of_day_.end() ? 0 : found->second;
}

}  // namespace chorus::inline egress
