#include "infrastructure/emulation/emulated_federation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
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

const EmulatedWork& own_work(const EmulatedFederationInput& input, ClientId client) {
  if (input.network_work.empty()) return input.work;
  const RosterEntry* entry = input.inner.roster().find(client);
  const auto found = entry == nullptr ? input.network_work.end() : input.network_work.find(entry->model);
  return found == input.network_work.end() ? input.work : found->second;
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
        passes_(passes_of(request.procedure)),
        round_(request.round),
        start_(input_.clock ? input_.clock() : 0) {
    share_ = request.body.number("share", 1);
    if (!(share_ > 0 && share_ <= 1)) share_ = 1;
    const auto& numbers = request.body.numbers;
    // A smaller network has its own number of layers; its share says what it costs.
    if (numbers.contains("depth") && !numbers.contains("share")) depth_ = request.body.number("depth");
    if (numbers.contains("cached")) cached_ = request.body.number("cached") != 0;
    request_bytes_ = static_cast<double>(request.body.bytes());
    std::vector<ClientId> staying;
    std::vector<Message> own;
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      const bool empty = size_of(cohort[slot]) <= 0;
      const auto capacity = input_.fleet.capacity(cohort[slot], own_work(input_, cohort[slot]));
      if (capacity && share_ > *capacity + 1e-9) {
        small_.push_back({cohort[slot], slot, *capacity});
        continue;
      }
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
    if (!small_.empty()) {
      Reply reply = too_small(small_.front());
      small_.pop_front();
      return reply;
    }
    if (vanishing_.empty()) return std::nullopt;
    Reply reply = vanished(vanishing_.front());
    vanishing_.pop_front();
    return reply;
  }

 private:
  double size_of(ClientId client) const { return input_.inner.roster().size_of(client); }
  EmulatedWork work_of(ClientId client) const {
    EmulatedWork work = own_work(input_, client);
    work.share = share_;
    work.depth = depth_.value_or(work.depth);
    work.way.cached = cached_.value_or(work.way.cached);
    return work;
  }
  double pass(ClientId client) const { return input_.batches ? passes_ * input_.batches(client) : 0; }

  struct Vanishing {
    ClientId client;
    std::size_t slot;
    double share;  // of its time
  };

  Reply too_small(const Vanishing& who) const {
    Reply reply{who.client, who.slot};
    leave_out(reply, fmt::format("its device has memory for {:.0f} % of the network, and {:.0f} % are asked for",
                                 100 * who.share, 100 * share_));
    return reply;
  }

  // Told after all others, whose bytes say what its own would have been.
  Reply vanished(const Vanishing& who) const {
    const Fleet::Moment moment{who.client, round_, start_};
    const double bytes_down = answers_ > 0 ? bytes_down_ / answers_ : request_bytes_;
    const double bytes_up = answers_ > 0 ? bytes_up_ / answers_ : request_bytes_;
    const EmulatedWork work = work_of(who.client);
    const Cost whole = input_.fleet.cost(moment, work, {pass(who.client), bytes_down, bytes_up});
    const Cost down = input_.fleet.cost(moment, work, {0, bytes_down, 0});
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
    const EmulatedWork work = work_of(reply->client);
    const double told = reply->body.number("batches", pass(reply->client));
    const double batches =
        reply->body.number("load", told) + reply->body.number("load_texts", 0) / static_cast<double>(work.batch_size);
    load.batches = batches >= 0 && batches < 1e12 ? batches : pass(reply->client);
    load.bytes_down = static_cast<double>(reply->bytes_down);
    load.bytes_up = static_cast<double>(reply->bytes_up);
    answers_ += 1;
    bytes_down_ += load.bytes_down;
    bytes_up_ += load.bytes_up;
    reply->cost = input_.fleet.cost({reply->client, round_, start_}, work, load);
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
    for (const Vanishing& who : small_) others.push_back(too_small(who));
    vanishing_.clear();
    small_.clear();
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
  double share_ = 1;  // of the network, as are the next two what the request says of it
  std::optional<double> depth_;
  std::optional<bool> cached_;
  double passes_;
  std::uint64_t round_;
  double start_;
  std::vector<std::size_t> slots_;  // of those that are asked, in the cohort
  std::size_t take_ = 0;
  bool chooses_ = false;
  std::optional<Replies> inner_;
  std::deque<Vanishing> vanishing_, small_;
  std::deque<Reply> chosen_;
  double request_bytes_ = 0, answers_ = 0, bytes_down_ = 0, bytes_up_ = 0;
};

EmulatedFederation::EmulatedFederation(const EmulatedFederationInput& input)
    : ForwardingFederation(input.inner),
      input_(input),
      shared_(std::make_shared<const EmulatedFederationInput>(input)) {
  for (const FleetPart& part : input_.fleet.config().fleet) limited_ = limited_ || part.memory.has_value();
  if (!limited_) return;
  const auto members = input_.inner.roster().members();
  std::vector<RosterEntry> entries(members.begin(), members.end());
  for (RosterEntry& entry : entries) entry.capacity = input_.fleet.capacity(entry.id, own_work(input_, entry.id));
  roster_ = Roster(std::move(entries));
}

Replies EmulatedFederation::ask(std::span<const ClientId> cohort, Request request) {
  if (only_measures(request.procedure)) return input_.inner.ask(cohort, std::move(request));
  const auto asking = std::make_shared<Asking>(shared_, cohort, std::move(request));
  return Replies([asking] { return asking->next(); });
}

}  // namespace chorus::inline emulation
