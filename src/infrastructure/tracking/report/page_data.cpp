#include "infrastructure/tracking/report/page_data.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace chorus::inline report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

void add_runs(const fs::path& folder, int depth, std::set<fs::path>& runs) {
  std::error_code ignored;
  if (fs::exists(folder / "run.json", ignored)) {
    runs.insert(folder.lexically_normal());
    return;
  }
  if (depth == 0) return;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, ignored)) {
    // Hidden folders are runs that are being made.
    if (entry.is_directory(ignored) && !entry.path().filename().string().starts_with('.')) {
      add_runs(entry.path(), depth - 1, runs);
    }
  }
}

/// The last `parts` parts of a path.
std::string tail(const fs::path& path, std::size_t parts) {
  std::vector<fs::path> all(path.begin(), path.end());
  std::erase_if(all, [](const fs::path& part) { return part.empty() || part == "."; });
  fs::path result;
  for (std::size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i) result /= all[i];
  return result.string();
}

std::string text_json(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<fs::path> find_runs(const std::vector<fs::path>& folders, int depth) {
  std::set<fs::path> runs;
  for (const fs::path& folder : folders) add_runs(folder, depth, runs);
  return {runs.begin(), runs.end()};
}

std::size_t points_per_curve(std::size_t runs) {
  return std::max<std::size_t>(500, 100000 / std::max<std::size_t>(runs, 1));
}

void give_labels(const std::vector<RunView*>& runs) {
  for (std::size_t parts = 1; parts <= 8; ++parts) {
    std::map<std::string, int> times;
    for (const RunView* run : runs) ++times[tail(run->folder(), parts)];
    const bool distinct = std::all_of(times.begin(), times.end(), [](const auto& entry) { return entry.second == 1; });
    if (!distinct && parts < 8) continue;
    for (RunView* run : runs) run->set_label(tail(run->folder(), parts));
    return;
  }
}

std::string page_data(const std::vector<RunView*>& runs, const PageOptions& options) {
  const std::size_t points = points_per_curve(runs.size());
  Json problems = Json::array();
  std::string all;
  for (const RunView* run : runs) {
    all += (all.empty() ? "" : ",") + run->json(points);
    if (!run->problem().empty()) problems.push_back(run->problem());
  }
  return fmt::format(R"({{"version":{},"generated":{},"live":{},"title":{},"problems":{},"runs":[{}]}})",
                     text_json(options.version),
                     text_json(fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr)))), options.live,
                     text_json(options.title), problems.dump(-1, ' ', false, Json::error_handler_t::replace), all);
}

}  // namespace chorus::inline report
