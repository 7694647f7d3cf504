#include "algorithm/attacks/attacked_federation.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/base/error.h"

namespace chorus::inline attacks {
namespace {

/// The tensor of a reply that an attack replaces; null: it has none.
at::Tensor* target_of(Reply& reply) {
  if (!reply.ok()) return nullptr;
  for (const char* name : {"update", "gradient", "predictions"}) {
    const auto found = reply.body.tensors.find(name);
    if (found != reply.body.tensors.end()) return &found->second;
  }
  return nullptr;
}

std::vector<ClientId> ids_of(const Roster& roster) {
  std::vector<ClientId> ids;
  for (const RosterEntry& member : roster.members()) ids.push_back(member.id);
  return ids;
}

}  // namespace

void AttacksConfig::describe(ConfigVisitor& visitor) {
  visitor.field("share", share, "of all clients that attack, drawn once").above(0).below(1);
  visitor.field("spared", spared, "clients that never attack, such as the one with the server's data").at_least(0);
  visitor.field("claim", claim, "examples that they claim, in multiples of those they have; moves a weighted mean")
      .above(0);
  visitor.field("attack", attack, "what they send");
}

bool AttacksConfig::spares(ClientId client) const {
  return std::find(spared.begin(), spared.end(), static_cast<std::int64_t>(client)) != spared.end();
}

std::string attackers_mistake(const std::vector<ClientId>& clients, const AttacksConfig& config) {
  for (const std::int64_t id : config.spared) {
    const auto is = [&](ClientId client) { return static_cast<std::int64_t>(client) == id; };
    if (std::any_of(clients.begin(), clients.end(), is)) continue;
    return fmt::format("attacks.spared: there is no client {} among {}; leave it out", id, clients.size());
  }
  if (!draw_attackers(clients, config, 0).empty()) return "";
  if (config.share * static_cast<double>(clients.size()) < 1) {
    return fmt::format("attacks.share: {:g} of {} clients is less than one; set it to at least {:.3g}", config.share,
                       clients.size(), 1 / static_cast<double>(std::max<std::size_t>(clients.size(), 1)));
  }
  return "attacks.spared: everybody is spared, so nobody attacks; spare fewer clients";
}

std::set<ClientId> draw_attackers(std::vector<ClientId> clients, const AttacksConfig& config, std::uint64_t seed) {
  RandomStream stream({.seed = seed, .purpose = "attackers"});
  stream.shuffle(std::span(clients));
  const auto count = static_cast<std::size_t>(std::floor(config.share * static_cast<double>(clients.size()) + 1e-9));
  std::erase_if(clients, [&](ClientId client) { return config.spares(client); });
  clients.resize(std::min(count, clients.size()));
  return {clients.begin(), clients.end()};
}

AttackedFederation::AttackedFederation(const AttackedFederationInput& input)
    : ForwardingFederation(input.inner),
      seed_(input.seed),
      attackers_(draw_attackers(ids_of(input.inner.roster()), input.config, input.seed)),
      attack_(input.config.attack.make()),
      sees_(input.config.attack.traits().sees),
      claim_(input.config.claim) {
  const std::string mistake = attackers_mistake(ids_of(input.inner.roster()), input.config);
  if (!mistake.empty()) throw ConfigError(mistake);
}

/// The replies to one request, those of attackers changed.
class AttackedFederation::Asking {
 public:
  Asking(AttackedFederation& federation, std::span<const ClientId> cohort, Request request)
      : federation_(federation), round_(request.round), replies_(federation.inner().ask(cohort, std::move(request))) {
    input_.cohort = cohort.size();
    for (const ClientId client : cohort) input_.attackers += federation.attackers_.contains(client) ? 1 : 0;
  }

  std::optional<Reply> next() {
    while (std::optional<Reply> reply = replies_.next()) {
      at::Tensor* update = target_of(*reply);
      if (update == nullptr) return reply;
      if (!federation_.attackers_.contains(reply->client)) {
        if (federation_.sees_ == Attack::Sees::kEveryone) honest_[reply->slot] = *update;
        return reply;
      }
      held_.push_back(std::move(*reply));
      if (federation_.sees_ == Attack::Sees::kOwn) return attack_held();
    }
    return held_.empty() ? std::nullopt : attack_held();
  }

 private:
  // Corrupts all replies that are held and are still honest; returns the first.
  std::optional<Reply> attack_held() {
    if (!corrupted_ || federation_.sees_ == Attack::Sees::kOwn) {
      std::sort(held_.begin(), held_.end(), [](const Reply& a, const Reply& b) { return a.slot < b.slot; });
      std::vector<at::Tensor> own, others;
      for (Reply& reply : held_) own.push_back(*target_of(reply));
      for (auto& entry : honest_) others.push_back(std::move(entry.second));
      input_.own = own;
      input_.others = others;
      input_.key = {.seed = federation_.seed_, .purpose = "attack", .round = round_, .client = held_.front().client};
      const std::vector<at::Tensor> sent = federation_.attack_->corrupt(input_);
      for (std::size_t i = 0; i < held_.size(); ++i) {
        *target_of(held_[i]) = sent.at(i);
        held_[i].finite.clear();
        for (const char* claimed : {"examples", "batches"}) {
          const auto found = held_[i].body.numbers.find(claimed);
          if (found != held_[i].body.numbers.end()) found->second *= federation_.claim_;
        }
      }
      federation_.attacked_ += held_.size();
      corrupted_ = true;
    }
    std::optional<Reply> first = std::move(held_.front());
    held_.pop_front();
    return first;
  }

  AttackedFederation& federation_;
  std::uint64_t round_;
  Replies replies_;
  AttackInput input_;
  std::map<std::size_t, at::Tensor> honest_;  // by slot
  std::deque<Reply> held_;
  bool corrupted_ = false;
};

Replies AttackedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (request.round != round_) attacked_ = 0;
  round_ = request.round;
  const auto asking = std::make_shared<Asking>(*this, cohort, std::move(request));
  return Replies([asking] { return asking->next(); });
}

}  // namespace chorus::inline attacks
