#include "tests/contract/quadratic_clients.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/config/registry.h"

namespace chorus::quadratic {
namespace {

// a_k (w - b_k) of each client, [C, P].
at::Tensor gradient_at(const World& world, std::span<const ClientId> ids, const at::Tensor& values) {
  std::vector<at::Tensor> rows;
  const at::Tensor offsets = torch::arange(values.size(1), at::kFloat) / 10;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Client& client = world.clients[ids[i]];
    rows.push_back((values[static_cast<std::int64_t>(i)] - offsets - client.target) * client.curvature);
  }
  return torch::stack(rows);
}

// Sets back what a step may not change.
void keep_frozen(const TrainWish& wish, const at::Tensor& gradients) {
  for (const FlatRange& range : wish.frozen) gradients.narrow(1, range.begin, range.end - range.begin).zero_();
}

// F_k(w).
double loss_at(const World& world, ClientId id, const at::Tensor& values) {
  const Client& client = world.clients[id];
  const at::Tensor offsets = torch::arange(values.numel(), at::kFloat) / 10;
  return 0.5 * client.curvature * (values - offsets - client.target).to(at::kDouble).square().sum().item<double>();
}

constexpr const char* kNoPublicSet = "quadratic clients have no data, so there is no public set";

class QuadraticLearner final : public Learner {
 public:
  QuadraticLearner(const World& world, std::vector<ClientId> ids, const at::Tensor& start, TrainWish wish)
      : world_(world), ids_(std::move(ids)), wish_(std::move(wish)) {
    const auto count = static_cast<std::int64_t>(ids_.size());
    values_ = (start.dim() == 1 ? start.unsqueeze(0).expand({count, -1}) : start).clone();
    begun_ = values_.clone();
  }

  LearnResult train(std::int64_t steps) override {
    for (std::int64_t step = 0; step < steps; ++step) {
      const at::Tensor gradients = gradient_at(world_, ids_, values_);
      gradients.add_(values_ - begun_, wish_.proximal);
      if (wish_.adjust) wish_.adjust(values_, gradients);
      keep_frozen(wish_, gradients);
      values_.sub_(gradients, world_.learning_rate);
    }
    LearnResult result;
    for (const ClientId id : ids_) {
      const bool broken = world_.clients[id].broken;
      result.loss.push_back(broken ? std::nan("") : 1.0);
      result.steps.push_back(static_cast<double>(steps));
      result.rate_sum.push_back(world_.learning_rate * static_cast<double>(steps));
      result.failures.emplace_back(broken ? "the loss is not a number" : "");
    }
    return result;
  }
  LearnResult fit(std::span<const std::uint32_t>, const Targets&, const std::function<void()>&) override {
    throw InternalError(kNoPublicSet);
  }
  at::Tensor predict(std::span<const std::uint32_t>) override { throw InternalError(kNoPublicSet); }
  at::Tensor predict_with_dropout(std::span<const std::uint32_t>) override { throw InternalError(kNoPublicSet); }
  ProbeResult probe(std::int64_t, const ProbeWish&) override { throw InternalError(kNoPublicSet); }
  at::Tensor curvature(std::int64_t, const at::Tensor& direction) override {
    const at::Tensor result = direction.clone();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      result[static_cast<std::int64_t>(i)].mul_(world_.clients[ids_[i]].curvature);
    }
    return result;
  }
  void renew(std::int64_t) override {}
  at::Tensor values() const override { return values_; }
  void set_values(const at::Tensor& values) override { values_.copy_(values); }
  void retain(std::span<const std::size_t> clients) override {
    std::vector<ClientId> ids;
    std::vector<std::int64_t> rows;
    for (const std::size_t i : clients) {
      ids.push_back(ids_[i]);
      rows.push_back(static_cast<std::int64_t>(i));
    }
    ids_ = std::move(ids);
    values_ = values_.index_select(0, torch::tensor(rows, at::kLong));
    begun_ = begun_.index_select(0, torch::tensor(rows, at::kLong));
  }

 private:
  const World& world_;
  std::vector<ClientId> ids_;
  TrainWish wish_;
  at::Tensor values_, begun_;
};

class Bench final : public Workbench {
 public:
  Bench(World& world, std::span<const ClientId> ids, std::int64_t parameters)
      : world_(world), ids_(ids.begin(), ids.end()), parameters_(parameters) {
    layout_ = layout_of(world);
    std::stable_sort(ids_.begin(), ids_.end(), [&](ClientId a, ClientId b) { return of(a).steps > of(b).steps; });
    states_.resize(ids_.size());
    loaded_.assign(ids_.size(), false);
  }

  std::span<const ClientId> clients() const override { return ids_; }
  std::int64_t parameters() const override { return parameters_; }
  const Layout& layout() const override { return layout_; }
  double examples(std::size_t i) const override { return of(ids_[i]).examples; }
  at::Tensor beginning() const override { return torch::linspace(-1, 1, parameters_, at::kFloat); }
  ClientState& state(std::size_t i) override {
    const std::lock_guard lock(world_.mutex);
    const auto stored = world_.states.find(ids_[i]);
    if (!loaded_[i] && stored != world_.states.end()) states_[i] = stored->second;
    loaded_[i] = true;
    return states_[i];
  }
  std::function<void()> state_to_keep(std::size_t i) override {
    if (!loaded_[i]) return {};
    return [&world = world_, id = ids_[i], state = states_[i]] {
      const std::lock_guard lock(world.mutex);
      world.states[id] = state;
    };
  }

  TrainResult train(const at::Tensor& start, const TrainWish& wish) override {
    const auto count = static_cast<std::int64_t>(ids_.size());
    const at::Tensor values = (start.dim() == 1 ? start.unsqueeze(0).expand({count, -1}) : start).clone();
    TrainResult result;
    for (int step = 0; step < of(ids_[0]).steps; ++step) {
      std::int64_t active = 0;
      while (active < count && of(ids_[static_cast<std::size_t>(active)]).steps > step) ++active;
      const at::Tensor now = values.narrow(0, 0, active);
      const at::Tensor gradients = gradient_at(world_, ids_, values).narrow(0, 0, active).clone();
      const at::Tensor begun = start.dim() == 1 ? start : start.narrow(0, 0, active);
      if (wish.proximal != 0) gradients.add_(now, wish.proximal).sub_(begun, wish.proximal);
      if (wish.adjust) wish.adjust(now, gradients);
      keep_frozen(wish, gradients);
      now.sub_(gradients, world_.learning_rate);
    }
    for (const ClientId id : ids_) {
      const Client& client = of(id);
      result.examples.push_back(client.examples);
      result.batches.push_back(client.steps);
      result.steps.push_back(client.steps);
      result.normalizer.push_back(client.steps);
      result.rate_sum.push_back(world_.learning_rate * client.steps);
      result.loss.push_back(client.broken ? std::nan("") : 1.0);
      result.failures.emplace_back(client.broken ? "the loss is not a number" : "");
    }
    if (wish.updates) values.sub_(start);
    for (std::int64_t c = 0; c < count; ++c) result.finite.push_back(torch::isfinite(values[c]).all().item<bool>());
    result.values = values;
    return result;
  }

  std::unique_ptr<Learner> learner(const at::Tensor& start, const LearnerWish& wish) override {
    return std::make_unique<QuadraticLearner>(world_, ids_, start, wish.train);
  }
  std::size_t public_rows() const override { return 0; }
  at::Tensor predict(const at::Tensor&, std::span<const std::uint32_t>) override { throw InternalError(kNoPublicSet); }

  GradientResult gradient(const at::Tensor& start, bool) override {
    GradientResult result;
    const auto count = static_cast<std::int64_t>(ids_.size());
    result.gradients = gradient_at(world_, ids_, start.unsqueeze(0).expand({count, -1}));
    for (const ClientId id : ids_) {
      result.examples.push_back(of(id).examples);
      result.loss.push_back(loss_at(world_, id, start));
      result.failures.emplace_back(of(id).broken ? "the loss is not a number" : "");
    }
    return result;
  }

  std::vector<Message> evaluate(const at::Tensor&, TestOn) override { return std::vector<Message>(ids_.size()); }

  void retain_clients(std::span<const std::size_t> clients) override {
    std::vector<ClientId> ids;
    std::vector<ClientState> states;
    std::vector<bool> loaded;
    for (const std::size_t i : clients) {
      ids.push_back(ids_[i]);
      states.push_back(std::move(states_[i]));
      loaded.push_back(loaded_[i]);
    }
    ids_ = std::move(ids);
    states_ = std::move(states);
    loaded_ = std::move(loaded);
  }

 private:
  const Client& of(ClientId id) const { return world_.clients[id]; }

  World& world_;
  Layout layout_;
  std::vector<ClientId> ids_;
  std::int64_t parameters_;
  std::vector<ClientState> states_;
  std::vector<bool> loaded_;
};

}  // namespace

Layout layout_of(const World& world) {
  Layout layout;
  const std::int64_t body = (world.parameters + 1) / 2;
  layout.begin_layer(0);
  layout.add("body.weight", {body}, Init::zeros());
  layout.begin_layer(kHeadLayer);
  layout.add("head.weight", {world.parameters - body}, Init::zeros());
  return layout;
}

std::unique_ptr<Algorithm> make_algorithm(const std::string& name, const World& world, std::string options) {
  if (name == "adafl" && options == "{}") options = "{width: 1, width_step: 1, interval: 0.4}";  // trials of two rounds
  if (options == "{}" && (name == "local_parts" || name == "lg_fedavg" || name == "fedbn")) options = "{private: [0]}";
  Choice<Algorithms> choice(name);
  ConfigDocument::parse(options, "test").fill([&](ConfigVisitor& visitor) { choice.describe(visitor); });
  auto algorithm = choice.make();
  algorithm->prepare(layout_of(world));
  return algorithm;
}

std::vector<double> World::sizes() const {
  std::vector<double> result;
  for (const Client& client : clients) result.push_back(client.examples);
  return result;
}

std::unique_ptr<Workbench> World::open(std::span<const ClientId> ids, const Variant& variant) {
  return std::make_unique<Bench>(*this, ids, LeadingElements(parameters).places(parts ? variant : Variant{}).numel());
}

at::Tensor LeadingElements::places(const Variant& variant) const {
  if (variant.width > parameters_ || variant.width == 0) throw ConfigError("there is no such part");
  return torch::arange(variant.width < 0 ? parameters_ : variant.width, at::kLong);
}

Replies OneSecond::ask(std::span<const ClientId> cohort, Request request) {
  const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
  return Replies([replies] {
    std::optional<Reply> reply = replies->next();
    if (reply) reply->cost.seconds = 1;
    return reply;
  });
}

bool has_wire() {
  const RegistryEntry* entry = RegistryIndex::global().find("link", "wire");
  return entry != nullptr && entry->unavailable.empty();
}

LocalFederationInput federation_input(World& world, std::size_t cohort_batch, std::size_t workers) {
  LocalFederationInput input;
  input.roster = Roster::of_sizes(world.sizes());
  input.open = [&world](std::span<const ClientId> ids, const Request& request) {
    if (ids.size() > world.room) throw c10::OutOfMemoryError({__func__, __FILE__, 0}, "CUDA out of memory");
    return world.open(ids, read_variant(request.body));
  };
  input.cohort_batch = cohort_batch;
  input.workers = workers;
  return input;
}

}  // namespace chorus::quadratic
