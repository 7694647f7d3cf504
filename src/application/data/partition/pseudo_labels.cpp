#include "application/data/partition/pseudo_labels.h"

#include <algorithm>
#include <array>
#include <set>

namespace chorus::inline partition {
namespace {

constexpr std::array<std::string_view, 10> kLeftOut{"CARDINAL", "DATE",     "MONEY",       "QUANTITY", "ORDINAL",
                                                    "TIME",     "LANGUAGE", "WORK_OF_ART", "LAW",      "PERCENT"};

}  // namespace

std::string pseudo_label(std::span<const std::string_view> tags) {
  std::set<std::string_view> types;
  for (std::string_view tag : tags) {
    if (tag == "O") continue;
    if (tag.size() > 2 && tag[1] == '-' && std::string_view("BIESLUM").find(tag[0]) != std::string_view::npos) {
      tag.remove_prefix(2);
    }
    if (std::find(kLeftOut.begin(), kLeftOut.end(), tag) == kLeftOut.end()) types.insert(tag);
  }
  std::string label;
  for (const std::string_view type : types) {
    if (!label.empty()) label += '-';
    label += type;
  }
  return label.empty() ? "NULL" : label;
}

}  // namespace chorus::inline partition
