#include "algorithm/privacy/budget_ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/base/error.h"
#include "core/base/fingerprint.h"

namespace chorus::inline privacy {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string whole_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

[[noreturn]] void cannot_write(const fs::path& path, int error) {
  throw WorldError(
      fmt::format("{}: the privacy ledger cannot be written ({}), so nothing was released; free some space or "
                  "mend the disk, and resume",
                  path.string(), std::strerror(error)));
}

void sync_folder(const fs::path& path) {
  const int folder = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

// Appends at `offset`, which drops an unfinished line; on disk when it returns.
void write_durably(const fs::path& path, std::size_t offset, std::string_view bytes) {
  const bool fresh = !fs::exists(path);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) cannot_write(path, errno);
  int error = ::ftruncate(file, static_cast<off_t>(offset)) != 0 ? errno : 0;
  std::size_t done = 0;
  while (error == 0 && done < bytes.size()) {
    const ssize_t written = ::pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (written < 0 && errno != EINTR) error = errno;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (error == 0 && ::fsync(file) != 0) error = errno;
  ::close(file);
  if (error != 0) cannot_write(path, error);
  if (fresh) sync_folder(path);
}

// Stands for a line and all before it.
std::string chained(const std::string& before, const std::string& line) { return fingerprint(before + line).hex(); }

std::string checked_line(const ordered_json& body, const std::string& before) {
  ordered_json line = body;
  line["check"] = chained(before, body.dump());
  return line.dump() + "\n";
}

std::string random_id() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

ordered_json entry_of(const BudgetLedger::Charge& charge) {
  const Mechanism& m = charge.mechanism;
  ordered_json entry{{"what", charge.what},
                     {"mechanism", name_of(m.kind)},
                     {"noise", m.noise},
                     {"sampling_rate", m.sampling_rate},
                     {"steps", m.steps},
                     {"buckets", m.buckets},
                     {"sensitivity", m.sensitivity},
                     {"l1_sensitivity", m.l1_sensitivity},
                     {"group", m.group}};
  if (charge.client) entry["client"] = *charge.client;
  return entry;
}

Mechanism mechanism_in(const ordered_json& line) {
  return {.kind = mechanism_named(line.at("mechanism").get<std::string>()),
          .noise = line.at("noise"),
          .sampling_rate = line.at("sampling_rate"),
          .steps = line.at("steps"),
          .buckets = line.at("buckets"),
          .sensitivity = line.at("sensitivity"),
          .l1_sensitivity = line.at("l1_sensitivity"),
          .group = line.at("group")};
}

bool is_id(std::string_view text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Of a ledger that is known.
struct LedgerMark {
  std::string id = {};
  std::size_t charges = 0;

  static LedgerMark parse(const std::string& text) {
    if (text.empty()) return {};
    LedgerMark mark{text.substr(0, text.find(':'))};
    const char* end = text.data() + text.size();
    const char* digits = std::min(text.data() + mark.id.size() + 1, end);
    const auto read = std::from_chars(digits, end, mark.charges);
    if (!is_id(mark.id) || read.ec != std::errc() || read.ptr != end) {
      throw DataError(fmt::format("\"{}\" is no mark of a privacy ledger", text));
    }
    return mark;
  }
};

// Complete lines; what follows the last newline was never finished.
std::string finished(const std::string& text) {
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? "" : text.substr(0, end + 1);
}

}  // namespace

BudgetLedger::BudgetLedger(Place place, Adjacency adjacency) : place_(std::move(place)), adjacency_(adjacency) {
  const fs::path lock_file = fs::path(place_.file).concat(".lock");
  lock_ = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) cannot_write(lock_file, errno);
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_);
    throw DataError(
        fmt::format("{}: another process charges this privacy ledger; wait for it, or stop it", place_.file.string()));
  }
  try {
    const LedgerMark known = LedgerMark::parse(place_.mark);
    const fs::path copy_of_known = place_.mirror / (known.id + ".ledger");
    files_ = {place_.file};
    if (fs::exists(place_.file)) adopt(finished(whole_file(place_.file)), place_.file);
    if (text_.empty() && !known.id.empty() && !place_.mirror.empty() && fs::exists(copy_of_known)) {
      adopt(finished(whole_file(copy_of_known)), copy_of_known);
    }
    if (text_.empty() && known.id.empty()) {
      id_ = random_id();
      text_ = checked_line({{"ledger", id_}, {"version", 1}, {"adjacency", name_of(adjacency_)}}, "");
      last_check_ = chained("", text_);
    }
    if (!text_.empty() && !place_.mirror.empty()) {
      std::error_code ignored;
      fs::create_directories(place_.mirror, ignored);
      files_.push_back(place_.mirror / (id_ + ".ledger"));
      const std::string copy = fs::exists(files_.back()) ? finished(whole_file(files_.back())) : "";
      const std::size_t common = std::min(copy.size(), text_.size());
      if (copy.compare(0, common, text_, 0, common) != 0) {
        throw DataError(fmt::format(
            "{} and its copy {} contradict each other; keep the one that was not edited, and remove the other",
            place_.file.string(), files_.back().string()));
      }
      if (copy.size() > text_.size()) adopt(copy, files_.back());
    }
    if (!known.id.empty() && (id_ != known.id || charges_ < known.charges)) {
      const std::string copy = place_.mirror.empty() ? "" : fmt::format(" (its copy was {})", copy_of_known.string());
      throw DataError(fmt::format(
          "{}: this privacy ledger is lost or too old: it has {} of the {} charges that were made; put its newest "
          "version back{}, or begin a new run",
          place_.file.string(), id_ == known.id ? charges_ : 0, known.charges, copy));
    }
    for (const fs::path& file : files_) {
      if (!fs::exists(file) || whole_file(file) != text_) write_durably(file, 0, text_);
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

BudgetLedger::~BudgetLedger() { ::close(lock_); }

void BudgetLedger::adopt(const std::string& text, const fs::path& where) {
  std::string before;
  charges_ = 0;
  sums_.clear();
  std::istringstream lines(text);
  std::size_t number = 0;
  for (std::string raw; std::getline(lines, raw);) {
    ++number;
    try {
      ordered_json line = ordered_json::parse(raw);
      const std::string check = line.at("check");
      line.erase("check");
      if (chained(before, line.dump()) != check) throw DataError("the checksum is wrong");
      if (number == 1) {
        id_ = line.at("ledger");
        if (line.at("version") != 1) throw DataError("it is of another version");
        if (!is_id(id_)) throw DataError("its name is not valid");
        if (adjacency_named(line.at("adjacency").get<std::string>()) != adjacency_)
          throw DataError("it is for another adjacency");
      } else {
        const Mechanism mechanism = mechanism_in(line);
        validate(mechanism, adjacency_);
        std::optional<std::uint64_t> client;
        if (line.contains("client")) client = line.at("client").get<std::uint64_t>();
        count(client, mechanism);
      }
    } catch (const std::exception& error) {
      throw DataError(fmt::format("{}:{}: this privacy ledger cannot be trusted ({}); restore it from its copy in {}",
                                  where.string(), number, error.what(),
                                  place_.mirror.empty() ? "a backup" : place_.mirror.string()));
    }
    before = chained(before, raw + "\n");
  }
  text_ = text;
  last_check_ = before;
}

void BudgetLedger::count(std::optional<std::uint64_t> client, const Mechanism& mechanism) {
  add(sums_[client], mechanism);
  ++charges_;
}

void BudgetLedger::charge(const Mechanism& mechanism, std::string_view what) {
  const Charge one{mechanism, std::string(what), {}};
  charge(std::span(&one, 1));
}

void BudgetLedger::charge(std::span<const Charge> charges) {
  std::string lines, check = last_check_;
  for (const Charge& each : charges) {
    validate(each.mechanism, adjacency_);
    const std::string line = checked_line(entry_of(each), check);
    check = chained(check, line);
    lines += line;
  }
  for (const fs::path& file : files_) write_durably(file, text_.size(), lines);
  text_ += lines;
  last_check_ = check;
  for (const Charge& each : charges) count(each.client, each.mechanism);
}

std::string BudgetLedger::mark() const { return fmt::format("{}:{}", id_, charges_); }

Releases BudgetLedger::releases(double delta, std::optional<std::uint64_t> client) const {
  const auto found = sums_.find(client);
  Releases result = found == sums_.end() ? Releases{} : found->second;
  result.adjacency = adjacency_;
  result.delta = delta;
  return result;
}

std::vector<std::uint64_t> BudgetLedger::clients() const {
  std::vector<std::uint64_t> result;
  for (const auto& entry : sums_) {
    if (entry.first) result.push_back(*entry.first);
  }
  return result;
}

fs::path ledger_mirror_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return fs::path(state) / "chorus" / "budgets";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".local" / "state" / "chorus" / "budgets" : fs::path();
}

}  // namespace chorus::inline privacy
