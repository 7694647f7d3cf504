#include "algorithm/federated/rank_sums.h"

#include <ATen/ATen.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "algorithm/federated/read_updates.h"
#include "algorithm/federated/weighted_mean.h"
#include "core/base/error.h"
#include "core/ports/federation_layer.h"
#include "core/tensor/flat_math.h"

namespace chorus::inline federated {
namespace {

// In a request: what is summed, and per client its neighbours and how often it counts. In a reply: that it was.
constexpr const char *kSumTensor = "sum/tensor", *kSumSize = "sum/size", *kSumWeighting = "sum/weighting";
constexpr const char *kSumGroup = "sum/group", *kSumMembers = "sum/members", *kSumTimes = "sum/times";
constexpr const char* kSummed = "sum/done";

}  // namespace

bool wish_for_sums(AggregationInput& input) {
  if (find_layer<RankSums>(input.federation) == nullptr) return false;
  if (input.look || input.tensors.size() != 1 || input.tensors[0].equal) return false;
  Request& request = input.request;
  if (request.enough > 0 || request.deadline) return false;  // replies of a sum are read together or not at all
  request.body.texts[kSumTensor] = input.tensors[0].name;
  request.body.numbers[kSumSize] = static_cast<double>(input.size);
  request.body.numbers[kSumWeighting] = static_cast<double>(input.weighting);
  request.own.resize(input.cohort.size());
  for (std::size_t slot = 0; slot < input.cohort.size(); ++slot) {
    const std::size_t group = slot / kMostTerms;
    auto& numbers = request.own[slot].numbers;
    numbers[kSumGroup] = static_cast<double>(group);
    numbers[kSumMembers] = static_cast<double>(std::min(kMostTerms, input.cohort.size() - group * kMostTerms));
    numbers[kSumTimes] = input.cohort[slot].times;
  }
  return true;
}

Aggregated mean_of_sums(AggregationInput& input) {
  WeightedMean mean(input.cohort.size());
  std::set<std::size_t> summed;                                  // slots
  std::map<std::size_t, std::map<std::size_t, double>> weights;  // of summed slots, by group
  UpdateReader reader;
  reader.summed = [&](const Reply& reply) {
    const bool in_a_sum = reply.body.numbers.contains(kSummed);
    if (in_a_sum) summed.insert(reply.slot);
    return in_a_sum;
  };
  reader.use = [&](std::size_t slot, const std::vector<double>& weight, const std::vector<at::Tensor>& tensors) {
    if (!summed.contains(slot)) {
      mean.add(slot, weight[0], tensors[0]);
      return;
    }
    const std::size_t group = slot / kMostTerms;
    weights[group][slot] = weight[0];
    if (tensors[0].defined()) mean.add_group(group, weights[group], tensors[0]);  // with the last reply of the group
  };
  reader.skip = [](std::size_t) {};  // `result` does it
  Aggregated result;
  result.clients = read_updates(input, reader);
  result.means.push_back(mean.result());
  return result;
}

/// One request under way.
class SummingClients::Summing {
 public:
  Summing(Federation& clients, std::span<const ClientId> cohort, Request request)
      : tensor_{{request.body.texts.at(kSumTensor)}},
        size_(static_cast<std::int64_t>(request.body.number(kSumSize))),
        weighting_(static_cast<Weighting>(static_cast<int>(request.body.number(kSumWeighting)))) {
    std::map<std::size_t, std::size_t> here;  // members of each group
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      const Message& own = request.own_of(slot);
      group_of_.push_back(static_cast<std::size_t>(own.number(kSumGroup)));
      times_.push_back(own.number(kSumTimes));
      ++here[group_of_.back()];
    }
    for (std::size_t slot = 0; slot < cohort.size(); ++slot) {
      const std::size_t group = group_of_[slot];
      const auto members = static_cast<std::size_t>(request.own_of(slot).number(kSumMembers));
      if (here[group] == members) groups_.try_emplace(group, members);
    }
    request.body.texts.erase(kSumTensor);
    for (const char* name : {kSumSize, kSumWeighting}) request.body.numbers.erase(name);
    for (Message& own : request.own) {
      for (const char* name : {kSumGroup, kSumMembers, kSumTimes}) own.numbers.erase(name);
    }
    replies_.emplace(clients.ask(cohort, std::move(request)));
  }

  std::optional<Reply> next() {
    while (ready_.empty()) {
      std::optional<Reply> reply = replies_->next();
      if (!reply) return std::nullopt;
      const auto group = groups_.find(group_of_.at(reply->slot));
      if (group == groups_.end()) return reply;
      add(group->second, std::move(*reply));
    }
    Reply reply = std::move(ready_.front());
    ready_.pop_front();
    return reply;
  }

 private:
  /// Neighbours that are all here, side by side.
  struct Group {
    explicit Group(std::size_t members) : mean(members) {}
    WeightedMean mean;
    std::map<std::size_t, Reply> replies = {};  // by slot
  };

  void add(Group& group, Reply reply) {
    const std::size_t slot = reply.slot;
    const std::size_t place = slot - first_of(slot);
    try {
      if (reply.ok()) reply.failure = fault_of(reply, tensor_, size_);
      if (reply.ok()) {
        const double weight = weight_of(reply, weighting_) * times_[slot];
        group.mean.add(place, weight, reply.body.tensor(tensor_[0].name));
        reply.body.tensors.erase(tensor_[0].name);
        reply.body.numbers[kSummed] = 1;
      } else {
        group.mean.skip(place);
      }
    } catch (const DataError& error) {
      reply.failure = error.what();
      group.mean.skip(place);
    }
    if (!reply.ok()) reply.body = {};
    group.replies.emplace(slot, std::move(reply));
    if (group.replies.size() == group.mean.slots()) finish(group);
  }

  std::size_t first_of(std::size_t slot) const {
    while (slot > 0 && group_of_[slot - 1] == group_of_[slot]) --slot;
    return slot;
  }

  void finish(Group& group) {
    const at::Tensor sum = group.mean.sum();
    Reply* last = nullptr;
    for (auto& [slot, reply] : group.replies) {
      ready_.push_back(std::move(reply));
      if (ready_.back().ok()) last = &ready_.back();
    }
    if (last != nullptr) last->body.tensors[tensor_[0].name] = sum;
    group.replies.clear();
  }

  std::vector<AggregatedTensor> tensor_;
  std::int64_t size_;
  Weighting weighting_;
  std::vector<std::size_t> group_of_;  // by slot
  std::vector<double> times_;
  std::map<std::size_t, Group> groups_;  // those that are whole here
  std::optional<Replies> replies_;
  std::deque<Reply> ready_;
};

Replies SummingClients::ask(std::span<const ClientId> cohort, Request request) {
  if (!request.body.texts.contains(kSumTensor) || request.own.size() != cohort.size()) {
    return inner().ask(cohort, std::move(request));
  }
  const auto summing = std::make_shared<Summing>(inner(), cohort, std::move(request));
  return Replies([summing] { return summing->next(); });
}

}  // namespace chorus::inline federated
