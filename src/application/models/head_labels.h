#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/models/model.h"

namespace chorus::inline models {

/// How the labels of a checkpoint's head relate to those of the data. Upper and lower case are the same, and LABEL_3 is
/// the label 3, as transformers names labels without names. Where one side has names and the other the numbers from 0,
/// in any order (data lists labels as it meets them), number 3 is the fourth name.
struct LabelMatch {
  bool other = false;                   ///< both sides have names, and they differ
  std::vector<std::int64_t> rows = {};  ///< the head's row for each label; empty: the same order
};
/// The two lists have the same length.
LabelMatch match_labels(const std::vector<std::string>& own, const std::vector<std::string>& wanted);

/// The parameters of a head that have one row per label.
std::vector<std::string> label_parameters(const ModelConfig& config, Head head);

}  // namespace chorus::inline models
