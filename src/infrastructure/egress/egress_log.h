#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline egress {

/// Something that left this machine.
struct Egress {
  std::string what = {};    ///< for people: "reply to train: update [12345] float32, examples, loss"
  std::string server = {};  ///< to whom
  std::string run = {};     ///< of which run, hexadecimal
  std::uint64_t round = 0;  ///< 0: before the first
  std::uint64_t bytes = 0;
  std::string digest = {};                          ///< SHA-256 of the bytes, hexadecimal
  std::time_t time = 0;                             ///< by this machine's clock
  std::map<std::string, std::string> ledgers = {};  ///< marks of the run's privacy ledgers, by file
  std::string hash = {};                            ///< of the line; set when it is read
};

/// An append-only list of everything that left a machine: one line of JSON each, which contains the SHA-256 of the line
/// before, so that no line can be changed, removed or put in between without breaking the chain. What was cut off at
/// the end shows when the last hash was noted elsewhere (`head`). Every line is on disk before the bytes leave.
///
///     EgressLog log("identity/egress.jsonl");
///     log.append({.what = "reply to train", .bytes = frame.size(), .digest = sha256_hex(frame)});
class EgressLog {
 public:
  /// Continues the file, or begins it. DataError when its last line is damaged.
  explicit EgressLog(std::filesystem::path path);
  ~EgressLog();
  EgressLog(const EgressLog&) = delete;
  EgressLog& operator=(const EgressLog&) = delete;

  /// WorldError when the disk is full; then nothing may leave.
  void append(const Egress& entry);
  /// Bytes of the day (UTC) that a moment belongs to.
  std::uint64_t bytes_on_day_of(std::time_t moment) const;
  /// The privacy ledgers of a run when something left for it last.
  std::map<std::string, std::string> ledgers_of(const std::string& run) const;
  /// The hash of the last line: 64 hexadecimal digits.
  const std::string& head() const { return head_; }

 private:
  void count(const Egress& entry);

  std::filesystem::path path_;
  int file_ = -1;
  std::string head_;
  std::map<std::int64_t, std::uint64_t> bytes_of_day_;                 // by day since 1970: a clock may step back
  std::map<std::string, std::map<std::string, std::string>> ledgers_;  // by run
};

struct EgressReport {
  std::vector<Egress> entries;
  std::string head;    ///< hash of the last whole line
  std::string broken;  ///< what is wrong, and in which line; empty: nothing
};

/// Reads and verifies a whole file. DataError when it cannot be read.
EgressReport read_egress(const std::filesystem::path& path);

/// SHA-256 in hexadecimal, of all parts as one text.
std::string sha256_hex(std::span<const std::string_view> parts);
inline std::string sha256_hex(std::string_view bytes) { return sha256_hex(std::span(&bytes, 1)); }

}  // namespace chorus::inline egress
