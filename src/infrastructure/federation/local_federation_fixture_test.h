#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "core/ports/procedure.h"
#include "infrastructure/federation/local_federation.h"

namespace chorus::inline federation {

/// What the benches of a test have in common.
struct Place {
  std::mutex mutex;
  std::vector<std::vector<ClientId>> opened;  // guarded
  std::map<ClientId, ClientState> stored;     // guarded
  std::atomic<int> alive{0};                  // benches
};

/// A workbench that keeps states and nothing else. Its clients come in reverse order.
class StateBench final : public Workbench {
 public:
  StateBench(Place& place, std::span<const ClientId> ids) : place_(place), ids_(ids.rbegin(), ids.rend()) {
    layout_.add("w", {2}, Init::zeros());
    states_.resize(ids_.size());
    touched_.assign(ids_.size(), false);
    ++place_.alive;
  }
  ~StateBench() override { --place_.alive; }

  std::span<const ClientId> clients() const override { return ids_; }
  std::int64_t parameters() const override { return 2; }
  const Layout& layout() const override { return layout_; }
  double examples(std::size_t) const override { return 1; }
  at::Tensor beginning() const override { return {}; }
  ClientState& state(std::size_t i) override {
    const std::lock_guard lock(place_.mutex);
    if (!touched_[i] && place_.stored.contains(ids_[i])) states_[i] = place_.stored.at(ids_[i]);
    touched_[i] = true;
    return states_[i];
  }
  std::function<void()> state_to_keep(std::size_t i) override {
    if (!touched_[i]) return {};
    return [&place = place_, id = ids_[i], state = states_[i]] {
      const std::lock_guard lock(place.mutex);
      place.stored[id] = state;
    };
  }
  TrainResult train(const at::Tensor&, const TrainWish&) override { throw InternalError("no training here"); }
  std::unique_ptr<Learner> learner(const at::Tensor&, const LearnerWish&) override { return nullptr; }
  std::size_t public_rows() const override { return 0; }
  at::Tensor predict(const at::Tensor&, std::span<const std::uint32_t>) override { return {}; }
  GradientResult gradient(const at::Tensor&, bool) override { return {}; }
  std::vector<Message> evaluate(const at::Tensor&, TestOn) override { return {}; }

 protected:
  void retain_clients(std::span<const std::size_t> rows) override {
    std::vector<ClientId> ids;
    std::vector<ClientState> states;
    std::vector<bool> touched;
    for (const std::size_t row : rows) {
      ids.push_back(ids_[row]);
      states.push_back(states_[row]);
      touched.push_back(touched_[row]);
    }
    ids_ = ids;
    states_ = states;
    touched_ = touched;
  }

 private:
  Place& place_;
  std::vector<ClientId> ids_;
  std::vector<ClientState> states_;
  std::vector<bool> touched_;
  Layout layout_;
};

/// Counts a client's asks in a session, in the order of the bench.
class Counts final : public Kept {
 public:
  explicit Counts(std::span<const ClientId> of) : ids(of.begin(), of.end()), asks(of.size(), 0) {}
  void retain(std::span<const std::size_t> rows) override {
    std::vector<ClientId> left;
    std::vector<double> counts;
    for (const std::size_t row : rows) {
      left.push_back(ids[row]);
      counts.push_back(asks[row]);
    }
    ids = left;
    asks = counts;
  }
  std::vector<ClientId> ids;
  std::vector<double> asks;
};

/// What the procedure below is told besides its request, since it is stateless.
inline std::function<void(const Request&, const Workbench&)> before_answers;

class LocalProbe : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    if (before_answers) before_answers(request, bench);
    auto* counts = static_cast<Counts*>(bench.kept("counts"));
    if (counts == nullptr) {
      bench.keep("counts", std::make_unique<Counts>(bench.clients()));
      counts = static_cast<Counts*>(bench.kept("counts"));
    }
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      const ClientId id = bench.clients()[i];
      EXPECT_EQ(counts->ids[i], id);
      Answer answer;
      answer.body.numbers = {{"id", id},
                             {"ask", ++counts->asks[i]},
                             {"together", static_cast<double>(bench.clients().size())},
                             {"own", request.own_of(i).number("own", -1)}};
      answer.body.tensors["update"] = torch::full({2}, static_cast<float>(id), at::kFloat);
      answer.finite = "update";
      if (request.body.number("fails", -1) == id) answer.failure = "its loss is not a number";
      answers.push_back(std::move(answer));
    }
    return answers;
  }
};
inline const ProcedureRegistration<LocalProbe> kLocalProbe{"test/local_probe", "for tests of LocalFederation"};

class LocalFederationTest : public testing::Test {
 protected:
  ~LocalFederationTest() override { before_answers = nullptr; }
  LocalFederationInput input(std::size_t clients = 6, std::size_t batch = 4, std::size_t workers = 1) {
    LocalFederationInput result;
    result.roster = Roster::of_sizes(std::vector<double>(clients, 1.0));
    result.cohort_batch = batch;
    result.workers = workers;
    result.open = [this](std::span<const ClientId> ids, const Request&) {
      const std::lock_guard lock(place.mutex);
      place.opened.emplace_back(ids.begin(), ids.end());
      return std::make_unique<StateBench>(place, ids);
    };
    return result;
  }
  static Request probe(std::map<std::string, double, std::less<>> numbers = {}) {
    Request request{.procedure = "test/local_probe", .round = 1};
    request.body.numbers = std::move(numbers);
    return request;
  }
  static std::vector<Reply> all(Replies replies) {
    std::vector<Reply> result;
    for (Reply& reply : replies) result.push_back(std::move(reply));
    std::sort(result.begin(), result.end(), [](const Reply& a, const Reply& b) { return a.slot < b.slot; });
    return result;
  }
  static std::vector<double> column(const std::vector<Reply>& replies, const char* name) {
    std::vector<double> result;
    for (const Reply& reply : replies) result.push_back(reply.ok() ? reply.body.number(name) : -1);
    return result;
  }

  Place place;
  const std::vector<ClientId> six{0, 1, 2, 3, 4, 5};
};

}  // namespace chorus::inline federation
