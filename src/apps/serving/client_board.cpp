#include "apps/serving/client_board.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/console/terminal.h"

namespace chorus::inline serving {
namespace {

constexpr double kLateFactor = 2;   // times the median reply
constexpr double kLateSeconds = 1;  // nobody is late before
constexpr std::size_t kMostText = 300;

double seconds_between(ClientBoard::Time begin, ClientBoard::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

void ClientBoard::asked(std::span<const ClientId> cohort, Time now, bool background) {
  const auto works_on = [](const Place& place) { return place.works && place.background; };
  if (!background) {
    // Whoever still works on an earlier request was left behind.
    for (auto& [id, place] : places_) {
      if (!place.works || works_on(place)) continue;
      place.late = true;
      place.works = false;
    }
    replies_.clear();
  }
  for (const ClientId id : cohort) {
    Place& place = places_[id];
    if (background || !works_on(place)) place = {now, true, false, place.seconds, background};
  }
}

void ClientBoard::replied(const Reply& reply, Time now, bool background) {
  Place& place = places_[reply.client];
  if (place.background != background) return;  // it was left out of this request, since it works on the other one
  const double seconds = seconds_between(place.since, now);
  place.works = false;
  place.late = !reply.ok();
  if (!reply.ok()) return;
  place.seconds = seconds;
  if (background) return;
  replies_.insert(std::upper_bound(replies_.begin(), replies_.end(), seconds), seconds);
}

std::vector<ClientNow> ClientBoard::states(const Roster& roster, Time now) const {
  const double limit = replies_.empty() ? -1 : std::max(kLateSeconds, kLateFactor * replies_[replies_.size() / 2]);
  std::vector<ClientNow> states;
  for (const RosterEntry& member : roster.members()) {
    ClientNow state{member.name, "joined", 0};
    const auto found = places_.find(member.id);
    if (found != places_.end()) {
      const Place& place = found->second;
      const double working = seconds_between(place.since, now);
      if (place.late || (place.works && !place.background && limit > 0 && working > limit)) {
        state.state = "late";
      } else if (place.works) {
        state.state = "working";
      }
      state.seconds = state.state == "joined" ? place.seconds : working;
    }
    if (!member.alive) state = {member.name, "gone", 0};
    states.push_back(std::move(state));
  }
  return states;
}

std::string server_json(const ServerStatus& status, std::span<const ClientNow> clients) {
  nlohmann::json list = nlohmann::json::array();
  for (const ClientNow& client : clients) {
    list.push_back({{"name", shortened(client.name, kMostText)},
                    {"state", client.state},
                    {"seconds", std::round(client.seconds * 10) / 10}});
  }
  for (const auto& [name, why] : status.refusals) {
    list.push_back({{"name", shortened(name, kMostText)}, {"state", "refuses"}, {"why", shortened(why, kMostText)}});
  }
  return nlohmann::json{{"format", 1},
                        {"state", status.state},
                        {"waiting_for", status.waiting_for},
                        {"rounds", status.rounds},
                        {"repeated_rounds", status.retries},
                        {"clients", std::move(list)}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace chorus::inline serving
