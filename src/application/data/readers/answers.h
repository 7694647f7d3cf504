#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus {

/// Holds a context and checks answers against it. Offsets are code points.
class AnswerAligner {
 public:
  explicit AnswerAligner(Misaligned policy) : policy_(policy) {}

  void set_context(std::string_view context);
  /// Whether `answer` (text and begin given) stands at its offset or was put right; sets its end. False when it is
  /// dropped. Counts in `report`. DataError under Misaligned::kError.
  bool align(GoldAnswer& answer, ReadReport& report, const std::string& where) const;

 private:
  std::string_view context_;
  std::vector<std::uint32_t> bytes_;  // byte position of each code point
  Misaligned policy_;
};

}  // namespace chorus
