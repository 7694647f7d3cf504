#include "application/trainer/client_pool.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <unordered_map>

#include "application/tasks/evaluate.h"
#include "application/trainer/public_rows.h"
#include "application/trainer/split_training.h"
#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

constexpr std::size_t kMostNames = 16U << 20U;  // bytes of a metric's names
constexpr double kMostTotal = 9e15;             // of a metric: a count that a double holds exactly

// Where a client is in the lists.
std::size_t index_of(const ClientPoolInput& input, ClientId id) {
  std::size_t index = id;
  if (!input.ids.empty()) {
    const auto found = std::lower_bound(input.ids.begin(), input.ids.end(), id);
    check(found != input.ids.end() && *found == id, "no such client");
    index = static_cast<std::size_t>(found - input.ids.begin());
  }
  check(index < input.train_lists->clients(), "no such client");
  return index;
}

struct PublicRows {
  std::shared_ptr<const PublicTexts> set;
  std::span<const std::int64_t> offsets;
};

class PoolBench final : public Workbench {
 public:
  PoolBench(const ClientPoolInput& input, const TrainerInput& version, std::vector<TrainClient> clients,
            std::uint64_t round, PublicRows public_rows)
      : input_(input),
        version_(version),
        trainer_(version, input.config),
        public_set_(std::move(public_rows.set)),
        public_offsets_(public_rows.offsets),
        clients_(std::move(clients)),
        round_(round),
        states_(clients_.size()) {
    std::stable_sort(clients_.begin(), clients_.end(), [](const TrainClient& a, const TrainClient& b) {
      return a.data.rows.size() > b.data.rows.size();
    });
    for (const TrainClient& client : clients_) ids_.push_back(client.id);
  }

  std::span<const ClientId> clients() const override { return ids_; }
  std::int64_t parameters() const override { return version_.model.layout().trainable_size(); }

  const Layout& layout() const override { return version_.model.layout(); }
  double examples(std::size_t i) const override { return clients_[i].examples; }
  at::Tensor beginning() const override { return version_.base.values()[0]; }

  ClientState& state(std::size_t i) override {
    if (!states_[i]) states_[i] = input_.states.load ? input_.states.load(ids_[i]) : ClientState{};
    return *states_[i];
  }
  std::function<void()> state_to_keep(std::size_t i) override {
    if (!states_[i] || !input_.states.store) return {};
    return
        [store = input_.states.store, id = ids_[i], round = round_, state = *states_[i]] { store(id, round, state); };
  }

  TrainResult train(const at::Tensor& start, const TrainWish& wish) override {
    std::vector<ClientState*> states;
    for (std::size_t i = 0; wish.keep_optimizer && i < ids_.size(); ++i) states.push_back(&state(i));
    return trainer_.train(clients_, start, moment(), wish, states);
  }
  std::unique_ptr<Learner> learner(const at::Tensor& start, const LearnerWish& wish) override {
    return trainer_.learner(clients_, start, moment(), wish, public_set_);
  }
  std::size_t public_rows() const override { return public_set_ ? public_set_->rows.size() : 0; }
  std::span<const std::int64_t> public_offsets() const override { return public_offsets_; }
  bool public_texts_teach() const override { return public_set_ != nullptr && public_set_->words != nullptr; }
  at::Tensor predict(const at::Tensor& values, std::span<const std::uint32_t> rows) override {
    check(public_set_ != nullptr, "there is no public set");
    const auto clients = static_cast<std::int64_t>(ids_.size());
    const at::Tensor there = values.to(version_.base.device());
    const Params params = Params::views_of_start(version_.base, values.dim() == 1 ? 1 : clients, there, false);
    return predict_rows(version_, in_precision(params), *public_set_, rows).expand({clients, -1, -1});
  }
  GradientResult gradient(const at::Tensor& start, bool want_gradients) override {
    return trainer_.gradient(clients_, start, moment(), want_gradients);
  }

  std::unique_ptr<SplitClient> split(std::size_t i, const SplitCut& cut, const at::Tensor& start,
                                     const SplitGuard& guard) override {
    const TrainClient& client = clients_[i];
    return split_client(
        {version_, input_.config, client, moment(), cut, guard, start, trainer_.steps(client.data.rows.size())});
  }

  std::vector<Message> evaluate(const at::Tensor& values, TestOn on) override {
    check(input_.test != nullptr, "there is nothing to evaluate on");
    if (values.dim() == 1) return evaluate_one(params_of(1, values), on);
    std::vector<EvaluationSet> sets;
    for (std::size_t i = 0; i < ids_.size(); ++i) sets.push_back({input_.data, input_.test, examples(i, on)});
    const auto scored = evaluate_cohort(version_.task, version_.model, params_of(ids_.size(), values), sets, options());
    std::vector<Message> answers;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      answers.push_back(sets[i].examples.empty() ? Message{} : answer_of(*scored[i].metric));
    }
    return answers;
  }

  void retain_clients(std::span<const std::size_t> clients) override {
    std::vector<TrainClient> staying;
    std::vector<ClientId> ids;
    std::vector<std::optional<ClientState>> states;
    for (const std::size_t i : clients) {
      staying.push_back(std::move(clients_[i]));
      ids.push_back(ids_[i]);
      states.push_back(std::move(states_[i]));
    }
    clients_ = std::move(staying);
    ids_ = std::move(ids);
    states_ = std::move(states);
  }

 private:
  TrainMoment moment() const { return {input_.seed, round_, input_.rounds}; }
  std::span<const std::uint32_t> own_test(std::size_t i) const {
    if (input_.test_lists == nullptr) return {};
    return (*input_.test_lists)[index_of(input_, ids_[i])];
  }
  std::span<const std::uint32_t> examples(std::size_t i, TestOn on) const {
    return on == TestOn::kOwn ? own_test(i) : input_.shared_test;
  }
  Params params_of(std::size_t clients, const at::Tensor& values) const {
    return in_precision(Params::copies_of_start(version_.base, static_cast<std::int64_t>(clients), false, values));
  }
  Params in_precision(const Params& params) const {
    return input_.config.precision == TrainerConfig::Precision::kBFloat16 ? params.with_shadow() : params;
  }
  EvaluateOptions options() const {
    EvaluateOptions options;
    options.workers = 1;  // the federation has workers already
    options.seed = input_.seed;
    options.cache = version_.cache;
    return options;
  }
  Evaluation score(const Params& params, std::span<const std::uint32_t> examples, bool predictions) const {
    EvaluateOptions how = options();
    how.predictions = predictions;
    return chorus::evaluate(version_.task, version_.model, params, {input_.data, input_.test, examples}, how);
  }

  // One model for all clients.
  std::vector<Message> evaluate_one(const Params& params, TestOn on) const {
    std::vector<Message> answers(ids_.size());
    if (on == TestOn::kShared) {
      if (input_.shared_test.empty()) return answers;
      const Message same = answer_of(*score(params, input_.shared_test, false).metric);
      std::fill(answers.begin(), answers.end(), same);
      return answers;
    }
    if (!rearranged()) return evaluate_together(params);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      if (!own_test(i).empty()) answers[i] = answer_of(*score(params, own_test(i), false).metric);
    }
    return answers;
  }
  // A language model that reads blocks answers for blocks, which mix the examples of whoever is evaluated together.
  bool rearranged() const { return input_.trainer.task.client_data(input_.test, {}).data != input_.test; }

  // Examples without tokens are not answered; a client with no others has nothing to report.
  static Message answer_of(const Metric& metric) {
    const MetricTotals totals = metric.totals();
    return totals.examples > 0 ? to_message(totals) : Message{};
  }

  // Everybody's examples in the same batches.
  std::vector<Message> evaluate_together(const Params& params) const {
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < ids_.size(); ++i) all.insert(all.end(), own_test(i).begin(), own_test(i).end());
    std::vector<Message> answers(ids_.size());
    if (all.empty()) return answers;
    const Evaluation together = score(params, all, true);
    std::size_t next = 0;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      const auto metric = input_.trainer.task.metric(Keep::kTotals);
      for (std::size_t k = 0; k < own_test(i).size(); ++k) {
        input_.trainer.task.score(together.predictions[next++], input_.data, *metric);
      }
      answers[i] = answer_of(*metric);
    }
    return answers;
  }

  const ClientPoolInput& input_;
  TrainerInput version_;
  CohortTrainer trainer_;
  std::shared_ptr<const PublicTexts> public_set_;
  std::span<const std::int64_t> public_offsets_;
  std::vector<TrainClient> clients_;
  std::uint64_t round_;
  std::vector<ClientId> ids_;
  std::vector<std::optional<ClientState>> states_;
};

}  // namespace

ClientPool::ClientPool(const ClientPoolInput& input)
    : recorders_(std::make_unique<StepRecorders>()), input_(input), trainer_(input.trainer, input.config) {
  check(input.train_lists != nullptr && input.train != nullptr, "a pool needs training data");
  if (input.public_set.encoded != nullptr) {
    const PublicSet& given = input.public_set;
    const Task& task = input.trainer.task;
    public_set_ = public_texts(
        {task, task.client_data(given.encoded, given.examples), given.texts, given.words, input.trainer.base.device()});
    const std::vector<std::int64_t> counts = answer_counts(input.trainer.model, *public_set_);
    if (!counts.empty()) {
      public_offsets_.push_back(0);
      for (const std::int64_t count : counts) public_offsets_.push_back(public_offsets_.back() + count);
    }
  }
  if (input.config.privacy && input.trainer.task.client_data(input.train, {}).data != input.train) {
    throw ConfigError(
        "trainer.privacy: this task trains on blocks of text that mix examples, so no single example can be protected; "
        "turn blocks off (task.block_length: 0), or protect whole clients (aggregation: private_mean)");
  }
  check(input.ids.empty() || input.ids.size() == input.train_lists->clients(), "one id per client");
}

Roster ClientPool::roster() const {
  std::vector<RosterEntry> members;
  for (std::size_t c = 0; c < input_.train_lists->clients(); ++c) {
    RosterEntry entry;
    entry.id = input_.ids.empty() ? static_cast<ClientId>(c) : input_.ids[c];
    entry.examples = static_cast<double>(input_.train_lists->size_of(c));
    members.push_back(std::move(entry));
  }
  return Roster(std::move(members));
}

double ClientPool::client_bytes() const {
  std::size_t longest = 1;
  const std::size_t stride = std::max<std::size_t>(input_.train->rows() / 4096, 1);
  for (std::size_t row = 0; row < input_.train->rows(); row += stride) {
    longest = std::max(longest, input_.train->length(static_cast<std::uint32_t>(row)));
  }
  return trainer_.client_bytes(static_cast<double>(longest) * static_cast<double>(input_.config.batch_size));
}

std::unique_ptr<Workbench> ClientPool::open(std::span<const ClientId> clients, std::uint64_t round,
                                            const Variant& variant) const {
  if (input_.network == nullptr && variant != Variant{}) {
    throw ConfigError("clients are asked about a variant of a network that has none; give `tuning`");
  }
  std::vector<TrainClient> opened;
  for (const ClientId id : clients) {
    const auto examples = (*input_.train_lists)[index_of(input_, id)];
    opened.push_back(
        {id, input_.trainer.task.client_data(input_.train, examples), static_cast<double>(examples.size())});
  }
  const TrainerInput& whole = input_.trainer;
  if (input_.network == nullptr) {
    const TrainerInput version{whole.task, whole.model, whole.base, whole.cache, recorders_.get(), whole.guard};
    return std::make_unique<PoolBench>(input_, version, std::move(opened), round,
                                       PublicRows{public_set_, public_offsets_});
  }
  const TunedNetwork::Part part = input_.network->part(variant);
  const TrainerInput version{whole.task, part.model, part.params, whole.cache, recorders_.get(), whole.guard};
  return std::make_unique<PoolBench>(input_, version, std::move(opened), round,
                                     PublicRows{public_set_, public_offsets_});
}

Message to_message(const MetricTotals& totals) {
  Message message;
  std::string names;
  for (const std::string& name : totals.names) names += name + '\n';
  at::Tensor rows = torch::empty({static_cast<std::int64_t>(totals.rows.size()), 3}, at::kDouble);
  if (!totals.rows.empty()) std::memcpy(rows.data_ptr<double>(), totals.rows.data(), totals.rows.size() * 24);
  message.texts["metric.names"] = std::move(names);
  message.tensors["metric.rows"] = rows;
  message.numbers["metric.examples"] = static_cast<double>(totals.examples);
  return message;
}

MetricTotals totals_of(const Message& message) {
  MetricTotals totals;
  const std::string& names = message.text("metric.names");
  if (names.size() > kMostNames) throw DataError("a metric's names are too long");
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = names.find('\n', begin);
    if (end == std::string::npos) throw DataError("a metric's names end in the middle of one");
    totals.names.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  const at::Tensor& rows = message.tensor("metric.rows");
  if (rows.scalar_type() != at::kDouble || rows.dim() != 2 || rows.size(1) != 3 ||
      rows.size(0) != static_cast<std::int64_t>(totals.names.size())) {
    throw DataError("a metric's totals should be three doubles a name");
  }
  totals.rows.resize(totals.names.size());
  const at::Tensor here = rows.cpu().contiguous();
  if (!totals.rows.empty()) std::memcpy(totals.rows.data(), here.data_ptr<double>(), totals.rows.size() * 24);
  for (const auto& row : totals.rows) {
    for (const double value : row) {
      if (!(std::abs(value) < kMostTotal)) throw DataError("a metric's totals are out of range");
    }
  }
  const double examples = message.number("metric.examples");
  if (!(examples >= 0 && examples < kMostTotal)) throw DataError("a metric's number of examples is not one");
  totals.examples = static_cast<std::uint64_t>(examples);
  return totals;
}

}  // namespace chorus::inline trainer
