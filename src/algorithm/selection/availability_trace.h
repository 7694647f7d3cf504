#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus {

/// When each client could be reached, read from a file: lines `client,start,end` after that header (CSV), or objects
/// {"client": 3, "start": 0, "end": 12.5} one a line (JSONL; told by the first character). A client, by its number, is
/// reachable at t when start <= t < end in one of its lines; lines may overlap and come in any order. A client without
/// lines is never reachable. docs/formats.md has the details.
///
///     const auto trace = AvailabilityTrace::read("phones.csv");
///     if (trace.reachable(client, 17)) ...
class AvailabilityTrace {
 public:
  /// DataError with file:line for anything that is not such a line, a cut-off one included, and for a file without any.
  static AvailabilityTrace read(const std::filesystem::path& path);

  /// Of a client beyond the file's: never. `period` > 0 repeats the trace: t is taken modulo the period.
  bool reachable(ClientId client, double t, double period = 0) const;

  /// DataError naming file:line when the trace speaks of a client that a federation of so many does not have.
  void check_clients(std::size_t clients) const;

  std::size_t intervals() const { return spans_.size(); }
  double end() const { return end_; }  ///< the latest one of all lines

 private:
  struct Span {
    double start, end;
  };

  std::string path_;
  std::vector<std::size_t> offsets_;  // client c: spans_[offsets_[c]] .. spans_[offsets_[c + 1]], disjoint, ascending
  std::vector<Span> spans_;
  std::size_t last_line_ = 0;  // where the highest client number stands
  double end_ = 0;
};

}  // namespace chorus
