#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline selection {

/// When each client can be reached, from a file: lines `client,start,end` after that header (CSV), or one object
/// {"client": 3, "start": 0, "end": 12.5} per line (JSONL; decided by the first character). A client is reachable at t
/// when start <= t < end in one of its lines; lines may overlap and come in any order. A client without lines is never
/// reachable. Details: docs/reference/formats.md.
///
///     const auto trace = AvailabilityTrace::read("phones.csv");
///     if (trace.reachable(client, 17)) ...
class AvailabilityTrace {
 public:
  /// DataError with file:line for an invalid or truncated line, and for a file without lines.
  static AvailabilityTrace read(const std::filesystem::path& path);

  /// False for clients without lines. `period` > 0 repeats the trace: t is taken modulo the period.
  bool reachable(ClientId client, double t, double period = 0) const;

  /// DataError with file:line when the trace names a client outside a federation of `clients`.
  void check_clients(std::size_t clients) const;

  std::size_t intervals() const { return spans_.size(); }
  double end() const { return end_; }  ///< the latest end of all lines

 private:
  struct Span {
    double start, end;
  };

  std::string path_;
  std::vector<std::size_t> offsets_;  // client c: spans_[offsets_[c]] .. spans_[offsets_[c + 1]], disjoint, ascending
  std::vector<Span> spans_;
  std::size_t last_line_ = 0;  // the line of the highest client number
  double end_ = 0;
};

}  // namespace chorus::inline selection
