#include "tests/contract/linear_clients.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace chorus::linear {
namespace {

constexpr ClientId kServer = 4294967295U;

// With one output, the score.
at::Tensor fitting(const at::Tensor& z, const at::Tensor& y) {
  if (z.size(-1) == 1) return (z.squeeze(-1) - y).square().mean();
  return torch::nn::functional::cross_entropy(z, y);
}

struct Rows {
  at::Tensor x, y;
  int steps = 1;
  double examples = 0;
  bool broken = false;
};

/// Values [C, P] that learn from data by gradient descent.
class LinearLearner final : public Learner {
 public:
  LinearLearner(const World& world, std::vector<Rows> own, const at::Tensor& start, const LearnerWish& wish = {})
      : world_(world),
        own_(std::move(own)),
        teacher_(wish.train.teacher),
        rate_(world.learning_rate * wish.rate),
        steps_(wish.steps.value_or(0)) {
    const auto count = static_cast<std::int64_t>(own_.size());
    values_ = (start.dim() == 1 ? start.unsqueeze(0).expand({count, -1}) : start).clone();
    velocity_ = torch::zeros_like(values_);
  }

  LearnResult train(std::int64_t steps) override {
    double rates = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::size_t c = 0; c < own_.size(); ++c) step_of(c, own_loss(c));
      rates += rate();
      ++done_;
    }
    return result(static_cast<double>(steps), rates);
  }
  LearnResult fit(std::span<const std::uint32_t> rows, const Targets& targets,
                  const std::function<void()>& meanwhile) override {
    const at::Tensor x = public_x(rows);
    check(targets.own == 0 || world_.texts_teach, "only language models learn from public texts");
    const bool untaught = !targets.labels.defined() && !targets.probabilities.defined() && !targets.votes.defined() &&
                          !targets.rewards.defined() && !targets.scores.defined();
    for (std::size_t c = 0; c < own_.size(); ++c) {
      step_of(c, [&](const at::Tensor& w) {
        const at::Tensor z = torch::matmul(x, w.t());
        if (untaught) return fitting(z, public_y(rows));
        const at::Tensor taught = loss(z, targets, c);
        if (targets.own == 0) return taught;
        return targets.own * fitting(z, public_y(rows)) + (1 - targets.own) * taught;
      });
    }
    if (meanwhile) meanwhile();
    const double used = rate();
    ++done_;
    return result(1, used);
  }
  at::Tensor predict(std::span<const std::uint32_t> rows) override {
    const torch::NoGradGuard no_grad;
    return torch::matmul(public_x(rows), matrices().transpose(1, 2));
  }
  at::Tensor predict_with_dropout(std::span<const std::uint32_t> rows) override {
    const torch::NoGradGuard no_grad;
    return torch::matmul(dropped(public_x(rows)), matrices().transpose(1, 2));
  }
  ProbeResult probe(std::int64_t, const ProbeWish& wish) override {
    ProbeResult result;
    std::vector<at::Tensor> gradients;
    for (std::size_t c = 0; c < own_.size(); ++c) {
      const at::Tensor w = matrices()[static_cast<std::int64_t>(c)].detach().clone().requires_grad_(true);
      const at::Tensor value = own_loss(c, wish.dropout)(w);
      value.backward();
      result.loss.push_back(value.item<double>());
      gradients.push_back(w.grad().flatten());
    }
    if (wish.gradients) result.gradients = torch::stack(gradients);
    return result;
  }
  at::Tensor curvature(std::int64_t, const at::Tensor& direction) override {
    std::vector<at::Tensor> products;
    for (std::size_t c = 0; c < own_.size(); ++c) {
      const auto row = static_cast<std::int64_t>(c);
      const at::Tensor w = matrices()[row].detach().clone().requires_grad_(true);
      const at::Tensor gradient = torch::autograd::grad({own_loss(c)(w)}, {w}, {}, true, true)[0];
      products.push_back(torch::autograd::grad({(gradient.flatten() * direction[row]).sum()}, {w})[0].flatten());
    }
    return torch::stack(products);
  }
  void renew(std::int64_t steps) override {
    velocity_.zero_();
    steps_ = steps;
    done_ = 0;
  }
  at::Tensor values() const override { return values_; }
  void set_values(const at::Tensor& values) override {
    values_.copy_(values.dim() == 1 ? values.unsqueeze(0) : values);
  }
  void retain(std::span<const std::size_t> clients) override {
    std::vector<Rows> own;
    std::vector<at::Tensor> rows, velocities;
    for (const std::size_t c : clients) {
      own.push_back(own_[c]);
      rows.push_back(values_[static_cast<std::int64_t>(c)]);
      velocities.push_back(velocity_[static_cast<std::int64_t>(c)]);
    }
    own_ = std::move(own);
    values_ = torch::stack(rows);
    velocity_ = torch::stack(velocities);
  }

 private:
  using Loss = std::function<at::Tensor(const at::Tensor&)>;

  at::Tensor matrices() const { return values_.view({values_.size(0), world_.classes, world_.features}); }
  at::Tensor public_x(std::span<const std::uint32_t> rows) const {
    std::vector<std::int64_t> index(rows.begin(), rows.end());
    return world_.x(World::kPublic, world_.public_rows).index_select(0, torch::tensor(index, at::kLong));
  }
  at::Tensor public_y(std::span<const std::uint32_t> rows) const {
    std::vector<std::int64_t> index(rows.begin(), rows.end());
    return world_.y(World::kPublic, world_.public_rows).index_select(0, torch::tensor(index, at::kLong));
  }
  at::Tensor dropped(const at::Tensor& x) const {
    if (!world_.dropout) return x;
    const at::Tensor kept = x.clone();
    kept.select(1, 0).zero_();
    return kept;
  }
  Loss own_loss(std::size_t c, bool dropout = false) const {
    return [this, c, dropout](const at::Tensor& w) {
      const at::Tensor z = torch::matmul(dropout ? dropped(own_[c].x) : own_[c].x, w.t());
      const at::Tensor plain = fitting(z, own_[c].y);
      if (!teacher_.values.defined()) return plain;
      const at::Tensor old = teacher_.values[static_cast<std::int64_t>(c)].view_as(w);
      Targets targets{.temperature = teacher_.temperature};
      targets.probabilities = torch::softmax(torch::matmul(own_[c].x, old.t()) / targets.temperature, -1);
      return plain + teacher_.weights[c] * loss(z, targets, c);
    };
  }
  static at::Tensor of_client(const at::Tensor& targets, std::size_t c, std::int64_t dimensions) {
    return targets.dim() == dimensions ? targets : targets[static_cast<std::int64_t>(c)];
  }
  static at::Tensor loss(const at::Tensor& z, const Targets& t, std::size_t c) {
    at::Tensor sum = torch::zeros({});
    if (t.labels.defined()) sum = sum + torch::nn::functional::cross_entropy(z, of_client(t.labels, c, 1));
    if (t.probabilities.defined()) {
      const at::Tensor p = of_client(t.probabilities, c, 2);
      const double heat = t.temperature;
      sum = sum + heat * heat * (torch::xlogy(p, p) - p * torch::log_softmax(z / heat, -1)).sum(-1).mean();
    }
    if (t.votes.defined()) sum = sum - (of_client(t.votes, c, 2) * torch::log_softmax(z, -1)).sum(-1).mean();
    if (t.rewards.defined()) sum = sum - (of_client(t.rewards, c, 2) * torch::softmax(z, -1)).sum(-1).mean();
    if (t.scores.defined()) sum = sum + (z - of_client(t.scores, c, 2)).square().mean();
    return sum;
  }
  void step_of(std::size_t c, const Loss& of) {
    const auto row = static_cast<std::int64_t>(c);
    const at::Tensor w = matrices()[row].detach().clone().requires_grad_(true);
    of(w).backward();
    const torch::NoGradGuard no_grad;
    velocity_[row].mul_(world_.momentum).add_(w.grad().flatten());
    values_[row].sub_(velocity_[row], rate());
  }
  double rate() const {
    if (!world_.decay || steps_ == 0) return rate_;
    return rate_ * (1 - static_cast<double>(done_) / static_cast<double>(steps_));
  }
  LearnResult result(double steps, double rates) const {
    LearnResult result;
    for (const Rows& rows : own_) {
      result.loss.push_back(rows.broken ? std::nan("") : 1.0);
      result.steps.push_back(steps);
      result.rate_sum.push_back(rates);
      result.failures.emplace_back(rows.broken ? "the loss is not a number" : "");
    }
    return result;
  }

  const World& world_;
  std::vector<Rows> own_;
  TrainWish::Teacher teacher_;
  double rate_;
  std::int64_t steps_, done_ = 0;  // of the learning-rate schedule; no steps: it has no end
  at::Tensor values_, velocity_;
};

class LinearBench final : public Workbench {
 public:
  LinearBench(World& world, std::vector<ClientId> ids) : world_(world), ids_(std::move(ids)) {
    layout_.add("w", {world.classes, world.features}, Init::zeros());
    std::stable_sort(ids_.begin(), ids_.end(), [&](ClientId a, ClientId b) { return rows(a).steps > rows(b).steps; });
    states_.resize(ids_.size());
    loaded_.assign(ids_.size(), false);
  }

  std::span<const ClientId> clients() const override { return ids_; }
  std::int64_t parameters() const override { return world_.parameters(); }
  const Layout& layout() const override { return layout_; }
  at::Tensor beginning() const override { return world_.beginning(); }
  double examples(std::size_t i) const override { return rows(ids_[i]).examples; }
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
    TrainResult result;
    std::vector<at::Tensor> values;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const Rows mine = rows(ids_[i]);
      const at::Tensor from = start.dim() == 1 ? start : start[static_cast<std::int64_t>(i)];
      TrainWish::Teacher teacher = wish.teacher;
      if (teacher.values.defined()) {
        teacher.values = teacher.values.narrow(0, static_cast<std::int64_t>(i), 1);
        teacher.weights = {teacher.weights[i]};
      }
      LearnerWish alone_wish;
      alone_wish.train.teacher = std::move(teacher);
      LinearLearner alone(world_, {mine}, from, alone_wish);
      alone.train(mine.steps);
      values.push_back(wish.updates ? alone.values()[0] - from : alone.values()[0]);
      result.examples.push_back(mine.examples);
      result.finite.push_back(true);
      result.loss.push_back(mine.broken ? std::nan("") : 1.0);
      result.failures.emplace_back(mine.broken ? "the loss is not a number" : "");
      for (auto* count : {&result.batches, &result.steps, &result.normalizer}) count->push_back(mine.steps);
      result.rate_sum.push_back(mine.steps * world_.learning_rate);
    }
    result.values = torch::stack(values);
    return result;
  }
  std::unique_ptr<Learner> learner(const at::Tensor& start, const LearnerWish& wish) override {
    std::vector<Rows> own;
    for (const ClientId id : ids_) own.push_back(rows(id));
    return std::make_unique<LinearLearner>(world_, std::move(own), start, wish);
  }
  std::size_t public_rows() const override { return static_cast<std::size_t>(world_.public_rows); }
  bool public_texts_teach() const override { return world_.texts_teach; }
  at::Tensor predict(const at::Tensor& values, std::span<const std::uint32_t> wanted) override {
    return learner(values, {})->predict(wanted);
  }
  GradientResult gradient(const at::Tensor&, bool) override { throw InternalError("not asked of linear clients"); }
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
  Rows rows(ClientId id) const {
    if (id == kServer) {
      return {world_.x(World::kQuery, world_.queries), world_.y(World::kQuery, world_.queries), 1,
              static_cast<double>(world_.queries)};
    }
    const Client& client = world_.clients[id];
    const std::int64_t set = client.twin_of < 0 ? static_cast<std::int64_t>(id) : client.twin_of;
    return {world_.x(set, client.examples), world_.y(set, client.examples), client.steps,
            static_cast<double>(client.examples), client.broken};
  }

  World& world_;
  Layout layout_;
  std::vector<ClientId> ids_;
  std::vector<ClientState> states_;
  std::vector<bool> loaded_;
};

}  // namespace

at::Tensor World::beginning() const { return torch::linspace(-0.3, 0.3, parameters(), at::kFloat); }

at::Tensor World::x(std::int64_t set, std::int64_t rows) const {
  const at::Tensor i = torch::arange(rows, at::kDouble).unsqueeze(1), j = torch::arange(features, at::kDouble);
  return torch::sin(1 + 3 * i + 7 * j + 11.0 * static_cast<double>(set)).to(at::kFloat);
}

at::Tensor World::y(std::int64_t set, std::int64_t rows) const {
  if (classes == 1) {
    return torch::sin(torch::arange(rows, at::kDouble) * 5 + 2 + 11.0 * static_cast<double>(set)).to(at::kFloat);
  }
  return (torch::arange(rows, at::kLong) + set).remainder(classes);
}

std::unique_ptr<Workbench> World::open(std::span<const ClientId> ids) {
  return std::make_unique<LinearBench>(*this, std::vector<ClientId>(ids.begin(), ids.end()));
}

std::unique_ptr<Workbench> World::server() {
  return std::make_unique<LinearBench>(*this, std::vector<ClientId>{kServer});
}

LocalFederationInput federation_input(World& world, std::size_t cohort_batch, std::size_t workers) {
  std::vector<double> sizes;
  for (const Client& client : world.clients) sizes.push_back(static_cast<double>(client.examples));
  LocalFederationInput input;
  input.roster = Roster::of_sizes(sizes);
  input.open = [&world](std::span<const ClientId> ids, const Request&) { return world.open(ids); };
  input.cohort_batch = cohort_batch;
  input.workers = workers;
  return input;
}

}  // namespace chorus::linear
