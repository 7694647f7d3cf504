#include "core/ports/roster.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace chorus::inline ports {

Roster::Roster(std::vector<RosterEntry> members) : members_(std::move(members)) {
  std::sort(members_.begin(), members_.end(), [](const RosterEntry& a, const RosterEntry& b) { return a.id < b.id; });
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const RosterEntry& member = members_[i];
    check(i == 0 || members_[i - 1].id != member.id, "two members of a federation have the same id");
    const double examples = member.examples.value_or(1);
    check(std::isfinite(examples) && examples >= 0, "a member's number of examples is not one");
    sizes_.resize(member.id + std::size_t{1}, 0.0);
    sizes_[member.id] = member.alive ? examples : 0;
  }
}

Roster Roster::of_sizes(std::span<const double> examples) {
  std::vector<RosterEntry> members(examples.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    members[i].id = static_cast<ClientId>(i);
    members[i].examples = examples[i];
  }
  return Roster(std::move(members));
}

const RosterEntry* Roster::find(ClientId id) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), id,
                                      [](const RosterEntry& entry, ClientId wanted) { return entry.id < wanted; });
  return found != members_.end() && found->id == id ? &*found : nullptr;
}

std::size_t Roster::trainable() const {
  return static_cast<std::size_t>(std::count_if(sizes_.begin(), sizes_.end(), [](double size) { return size > 0; }));
}

}  // namespace chorus::inline ports
