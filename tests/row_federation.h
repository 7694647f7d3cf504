#pragma once

#include <ATen/ATen.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/ports/federation.h"

namespace chorus::inline tests {

/// A federation without training: client k replies with row k as its update.
class RowFederation : public Federation {
 public:
  explicit RowFederation(std::vector<std::vector<double>> rows)
      : rows_(std::move(rows)), roster_(Roster::of_sizes(std::vector<double>(rows_.size(), 1))) {}

  const Roster& roster() const override { return roster_; }
  Replies ask(std::span<const ClientId> cohort, Request) override {
    const auto left = std::make_shared<std::vector<ClientId>>(cohort.begin(), cohort.end());
    const std::size_t count = left->size();
    const auto given = std::make_shared<std::size_t>(0);
    return Replies([this, left, given, count]() -> std::optional<Reply> {
      if (*given == count) return std::nullopt;
      const std::size_t slot = reversed ? count - 1 - *given : *given;
      ++*given;
      Reply reply;
      reply.client = (*left)[slot];
      reply.slot = slot;
      reply.body.tensors["update"] = tensor_of(rows_[reply.client]);
      if (!second.empty()) reply.body.tensors["second"] = tensor_of(second[reply.client]);
      const auto claim = examples.find(reply.client);
      reply.body.numbers["examples"] = claim == examples.end() ? 1 : claim->second;
      reply.on_accept = [this] { ++accepted; };
      return reply;
    });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

  bool real_time() const override { return real; }

  bool real = false;                        ///< clients of other processes
  bool reversed = false;                    ///< replies arrive from the last client to the first
  std::map<ClientId, double> examples;      ///< claimed by a client; 1 where absent
  std::vector<std::vector<double>> second;  ///< of each client, beside its update; none where empty
  int accepted = 0;

 private:
  static at::Tensor tensor_of(const std::vector<double>& row) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(row.size())}, at::kFloat);
    for (std::size_t i = 0; i < row.size(); ++i) tensor.data_ptr<float>()[i] = static_cast<float>(row[i]);
    return tensor;
  }

  std::vector<std::vector<double>> rows_;
  Roster roster_;
};

}  // namespace chorus::inline tests
