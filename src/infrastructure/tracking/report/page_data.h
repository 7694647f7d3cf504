#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "infrastructure/tracking/report/run_view.h"

namespace chorus::inline report {

/// The run folders among and below these folders (at most `depth` levels), sorted and each once.
std::vector<std::filesystem::path> find_runs(const std::vector<std::filesystem::path>& folders, int depth = 3);

/// How many points per curve a page of that many runs can show and stay fluid: 100,000 together, at least 500 each.
std::size_t points_per_curve(std::size_t runs);

/// Names that tell runs apart: the folder's own, with the folders above it where several have the same.
void give_labels(const std::vector<RunView*>& runs);

struct PageOptions {
  std::string title{};    ///< empty: the run's name, or how many there are
  std::string version{};  ///< of Chorus
  bool live = false;      ///< the page follows its server
};

/// What the page shows as one JSON object (web/src/data.ts, PageData).
std::string page_data(const std::vector<RunView*>& runs, const PageOptions& options);

}  // namespace chorus::inline report
