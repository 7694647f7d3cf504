#include "infrastructure/emulation/emulated_federation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <vector>

namespace chorus::inline emulation {
namespace {

bool only_measures(const std::string& procedure) { return procedure == "evaluate" || procedure.ends_with("/evaluate"); }

// A forward pass is about a third of a training step.
double passes_of(const std::string& procedure) { return procedure == "loss" ? 1.0 / 3 : 1; }

void leave_out(Reply& reply, std::string why) {
  reply.body = {};
  reply.failure = std::move(why);
  reply.left_out = true;
  reply.on_accept = {};
}

// What a client has spent when it vanishes after so many of its seconds: download, training, upload, in this order.
Cost spent_until(double seconds, const Cost& whole, double down_seconds, const DeviceProfile& device) {
  Cost cost;
  cost.seconds = seconds;
  const double down = std::min(seconds, down_seconds);
  cost.compute_seconds = std::clamp(seconds - down_seconds, 0.0, whole.compute_seconds);
  const double up_seconds = whole.network_seconds - down_seconds;
  const double up = std::max(seconds - down_seconds - whole.compute_seconds, 0.0);
  cost.network_seconds = down + up;
  cost.bytes_down = down_seconds > 0 ? whole.bytes_down * down / down_seconds : whole.bytes_down;
  cost.bytes_up = up_seconds > 0 ? whole.bytes_up * std::min(up / up_seconds, 1.0) : 0;
  cost.joules = device.compute_watts * cost.compute_seconds + device.network_watts * cost.network_seconds;
  cost.memory = cost.compute_seconds > 0 ? whole.memory : 0;
  return cost;
}

}  // namespace

/// One `ask` under way.
class EmulatedFederation::Asking {
 public:
  Asking(std::shared_ptr<const EmulatedFederationInput> shared, std::span<const ClientId> cohort, Request request)
      : shared_(std::move(shared)),
        input_(*shared_),
        deadline_(input_.fleet.config().deadline),
        work_(input_.work),
        passes_(passes_of(request.procedure)),
        round_(request.round),
        start_(input_.clock ? input_.clock() : 0) {
    work_.depth = request.body.number("depth", work_.depth);
    work_.way.cached = request.body.number("cached", work_.way.cached ? 1 : 0) != 0;
    request_bytes_ = static_cast<double>(request.body.bytes());
    std::vector<ClientId> staying;
    std::vector<Message> own;
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      const bool empty = size_of(cohort[slot]) <= 0;
      if (const auto share = empty ? std::nullopt : input_.fleet.dropout(cohort[slot], round_)) {
        vanishing_.push_back({cohort[slot], slot, *share});
      } else {
        staying.push_back(cohort[slot]);
        slots_.push_back(slot);
        if (!request.own.empty()) own.push_back(std::move(request.own[slot]));
      }
    }
    request.own = std::move(own);
    take_ = request.enough > 0 ? std::min(request.enough, cohort.size()) : cohort.size();
    chooses_ = take_ < cohort.size();
    request.enough = 0;  // who is first is decided here, by the emulated clock
    if (!staying.empty()) inner_.emplace(input_.inner.ask(staying, std::move(request)));
  }

  std::optional<Reply> next() {
    if (chooses_ && inner_) choose();
    if (!chosen_.empty()) {
      Reply reply = std::move(chosen_.front());
      chosen_.pop_front();
      return reply;
    }
    if (auto reply = read()) return reply;
    if (vanishing_.empty()) return std::nullopt;
    Reply reply = vanished(vanishing_.front());
    vanishing_.pop_front();
    return reply;
  }

 private:
  double size_of(ClientId client) const { return input_.inner.roster().size_of(client); }
  double pass(ClientId client) const { return input_.batches ? passes_ * input_.batches(client) : 0; }

  struct Vanishing {
    ClientId client;
    std::size_t slot;
    double share;  // of its time
  };

  // Told after all others, whose bytes say what its own would have been.
  Reply vanished(const Vanishing& who) const {
    const Fleet::Moment moment{who.client, round_, start_};
    const double bytes_down = answers_ > 0 ? bytes_down_ / answers_ : request_bytes_;
    const double bytes_up = answers_ > 0 ? bytes_up_ / answers_ : request_bytes_;
    const Cost whole = input_.fleet.cost(moment, work_, {pass(who.client), bytes_down, bytes_up});
    const Cost down = input_.fleet.cost(moment, work_, {0, bytes_down, 0});
    Reply reply{who.client, who.slot};
    reply.cost = spent_until(who.share * whole.seconds, whole, down.seconds, input_.fleet.profile(who.client));
    leave_out(reply, fmt::format("it vanished after {:.1f} emulated seconds", reply.cost.seconds));
    if (deadline_) reply.cost.seconds = *deadline_;
    return reply;
  }

  /// The next real answer with its cost; late ones are left out.
  std::optional<Reply> read() {
    if (!inner_) return std::nullopt;
    auto reply = inner_->next();
    if (!reply) {
      inner_.reset();
      return std::nullopt;
    }
    reply->slot = slots_.at(reply->slot);
    if (size_of(reply->client) <= 0) return reply;
    ClientLoad load;
    const double batches = reply->body.number("batches", pass(reply->client));
    load.batches = batches >= 0 && batches < 1e12 ? batches : pass(reply->client);
    load.bytes_down = static_cast<double>(reply->bytes_down);
    load.bytes_up = static_cast<double>(reply->bytes_up);
    answers_ += 1;
    bytes_down_ += load.bytes_down;
    bytes_up_ += load.bytes_up;
    reply->cost = input_.fleet.cost({reply->client, round_, start_}, work_, load);
    if (deadline_ && reply->cost.seconds > *deadline_) {
      leave_out(*reply, fmt::format("its answer would take {:.1f} emulated seconds, {:g} is the deadline",
                                    reply->cost.seconds, *deadline_));
      reply->cost.seconds = *deadline_;
    }
    return reply;
  }

  /// Reads all answers, keeps the first to arrive, and tells of the others without what they said.
  void choose() {
    const auto earlier = [](const Reply& a, const Reply& b) {
      return a.cost.seconds != b.cost.seconds ? a.cost.seconds < b.cost.seconds : a.slot < b.slot;
    };
    std::vector<Reply> first;  // a heap, the latest on top
    std::vector<Reply> others;
    while (auto reply = read()) {
      if (!reply->ok()) {
        others.push_back(std::move(*reply));
        continue;
      }
      first.push_back(std::move(*reply));
      std::push_heap(first.begin(), first.end(), earlier);
      if (first.size() <= take_) continue;
      std::pop_heap(first.begin(), first.end(), earlier);
      leave_out(first.back(), fmt::format("{} others were faster", take_));
      others.push_back(std::move(first.back()));
      first.pop_back();
    }
    for (const Vanishing& who : vanishing_) others.push_back(vanished(who));
    vanishing_.clear();
    // With enough answers the server waits for nobody else.
    for (Reply& reply : others) {
      if (first.size() == take_) reply.cost.seconds = std::min(reply.cost.seconds, first.front().cost.seconds);
    }
    std::move(first.begin(), first.end(), std::back_inserter(chosen_));
    std::move(others.begin(), others.end(), std::back_inserter(chosen_));
  }

  std::shared_ptr<const EmulatedFederationInput> shared_;
  const EmulatedFederationInput& input_;
  std::optional<double> deadline_;
  EmulatedWork work_;
  double passes_;
  std::uint64_t round_;
  double start_;
  std::vector<std::size_t> slots_;  // of those that are asked, in the cohort
  std::size_t take_ = 0;
  bool chooses_ = false;
  std::optional<Replies> inner_;
  std::deque<Vanishing> vanishing_;
  std::deque<Reply> chosen_;
  double request_bytes_ = 0, answers_ = 0, bytes_down_ = 0, bytes_up_ = 0;
};

Replies EmulatedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (only_measures(request.procedure)) return input_.inner.ask(cohort, std::move(request));
  const auto asking = std::make_shared<Asking>(shared_, cohort, std::move(request));
  return Replies([asking] { return asking->next(); });
}

}  // namespace chorus::inline emulation
