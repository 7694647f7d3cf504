#include "infrastructure/tracking/failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace chorus::inline tracking {

std::string failures_text(std::span<const Event> events) {
  std::map<std::string, int> reasons;
  double asked = 0;
  int failed = 0;
  for (const Event& event : events) {
    if (event.kind == "round" && event.numbers.contains("clients")) asked += event.numbers.at("clients");
    if (event.kind != "client_failed") continue;
    ++failed;
    ++reasons[event.texts.contains("reason") ? event.texts.at("reason") : "of a reason that was not recorded"];
  }
  if (failed == 0) return "";
  const auto rarer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(reasons.begin(), reasons.end(), rarer);
  const std::string how = reasons.size() == 1 ? "" : fmt::format("most often ({} times) ", most->second);
  const std::string times = failed == 1 ? "once" : fmt::format("{} times", failed);
  return fmt::format("clients were left out {} of {:g}, {}because {}", times, asked, how, most->first);
}

}  // namespace chorus::inline tracking
