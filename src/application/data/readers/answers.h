#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus::inline readers {

/// Checks answers against a context. Offsets are code points.
class AnswerAligner {
 public:
  explicit AnswerAligner(Misaligned policy) : policy_(policy) {}

  void set_context(std::string_view context);
  /// Whether `answer` (with text and begin) is at its offset or was corrected; sets its end. False when it is dropped.
  /// Counts in `report`. DataError under Misaligned::kError.
  bool align(GoldAnswer& answer, ReadReport& report, const std::string& where) const;

 private:
  std::string_view context_;
  std::vector<std::uint32_t> bytes_;  // byte position of each code point
  Misaligned policy_;
};

}  // namespace chorus::inline readers
