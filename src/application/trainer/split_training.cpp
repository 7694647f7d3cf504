#include "application/trainer/split_training.h"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "application/trainer/batch_reader.h"
#include "application/trainer/distance_correlation.h"
#include "application/trainer/losses.h"
#include "application/trainer/split_messages.h"
#include "application/trainer/training_plan.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline trainer {
namespace {

constexpr std::int64_t kMostCorrelated = 256;  // tokens of a batch; the cost is quadratic

// Values, optimizer and schedule of one side.
class SplitValues {
 public:
  SplitValues(const TrainerConfig& config, const TrainMoment& moment, SplitSide side)
      : config_(config), moment_(moment), side_(std::move(side)) {}

  void start(const at::Tensor& values) {
    if (values.scalar_type() != at::kFloat || values.dim() != 1 || values.numel() != side_.own.numel()) {
      throw DataError("the part of the model is of another network, or of another cut");
    }
    const at::Device device = side_.base.device();
    at::Tensor all = torch::zeros({side_.places.numel()}, at::kFloat).to(device);
    all.index_copy_(0, side_.own.to(device), values.to(device));
    store_ = std::make_unique<ValueStore>(ValueStore::Input{side_.base, 1, all});
  }
  void begin(std::int64_t steps) {
    const Params& params = store_->params();
    optimizer_ = config_.optimizer.make(
        OptimizerInput{params.shared_layout(), 1, params.device(), config_.weight_decay, config_.decay_matrices_only});
    plan_.schedule = {std::max<std::int64_t>(steps, 1)};
    step_ = 0;
  }

  Params& begin_pass() {
    Params& params = store_->active(1);
    params.writes().begin(params.values().size(1));
    return params;
  }
  void step() {
    Params& params = store_->active(1);
    params.writes().end();
    const std::int64_t all = params.values().size(1);
    const std::vector<double> rates = plan_.rates(config_, moment_, 1, step_++);
    if (all > 0) store_->step(*optimizer_, {1, all, rates, {}, false});
  }

  // Elements that both sides read: values, and gradients of the last pass.
  at::Tensor shared_values() { return shared(store_->active(1).values()); }
  at::Tensor shared_gradients() { return shared(store_->active(1).grads()); }
  void put_shared_values(const Message& message) {
    const at::NoGradGuard no_grad;
    const at::Tensor values = shared_of(message);
    visit_shared([&](ParamId, const ParamSpec& spec, std::int64_t at) {
      store_->active(1).values()[0].narrow(0, spec.offset, spec.count).copy_(values.narrow(0, at, spec.count));
    });
  }
  void add_shared_gradients(const Message& message) {
    const at::NoGradGuard no_grad;
    Params& params = store_->active(1);
    const at::Tensor gradients = shared_of(message);
    visit_shared([&](ParamId id, const ParamSpec& spec, std::int64_t at) {
      const at::Tensor more = gradients.narrow(0, at, spec.count);
      at::Tensor mine = params.grads()[0].narrow(0, spec.offset, spec.count);
      std::uint8_t& written = params.writes().written[static_cast<std::size_t>(id.index)];
      written != 0 ? mine.add_(more) : mine.copy_(more);
      written = 1;
    });
  }

  at::Tensor own_values() const {
    return store_->params().values()[0].index_select(0, side_.own.to(side_.base.device())).clone();
  }
  bool has_shared() const { return !side_.shared.empty(); }
  const SplitSide& side() const { return side_; }
  ValueStore& store() { return *store_; }
  const ValueStore& store() const { return *store_; }
  const TrainerConfig& config() const { return config_; }
  const TrainMoment& moment() const { return moment_; }

 private:
  template <typename Visit>
  void visit_shared(Visit visit) const {
    std::int64_t at = 0;
    for (const ParamId id : side_.shared) {
      const ParamSpec& spec = side_.base.layout()[id];
      visit(id, spec, at);
      at += spec.count;
    }
  }
  at::Tensor shared(const at::Tensor& rows) const {
    std::vector<at::Tensor> parts;
    visit_shared([&](ParamId, const ParamSpec& spec, std::int64_t) {
      parts.push_back(rows[0].detach().narrow(0, spec.offset, spec.count));
    });
    return torch::cat(parts);
  }
  at::Tensor shared_of(const Message& message) const {
    std::int64_t size = 0;
    visit_shared([&](ParamId, const ParamSpec& spec, std::int64_t) { size += spec.count; });
    return message.vector("shared", size).to(side_.base.device());
  }

  TrainerConfig config_;
  TrainMoment moment_;
  SplitSide side_;
  std::unique_ptr<ValueStore> store_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingPlan plan_;
  std::int64_t step_ = 0;
};

TrainerInput without_cache(TrainerInput input) {
  return {input.task, input.model, input.base, nullptr, nullptr, nullptr};
}

std::uint64_t calls_of(const Message& message) {
  const double calls = message.number("calls");
  if (!(calls >= 0 && calls < 1e9)) throw DataError("\"calls\" is out of range");
  return static_cast<std::uint64_t>(calls);
}

class ClientSide final : public SplitClient {
 public:
  explicit ClientSide(const SplitClientInput& input)
      : trainer_(without_cache(input.trainer)),
        clients_{input.client},
        batches_(batches_of(clients_, input.config.batch_size, input.moment)),
        values_(input.config, input.moment, split_side(trainer_.model, trainer_.base, input.cut, SplitRole::kClient)),
        cut_(input.cut),
        guard_(input.guard),
        steps_(input.client.data.rows.empty() ? 0 : input.steps) {
    values_.start(input.start);
    values_.begin(steps_);
    reader_.emplace(BatchReader::Input{trainer_, clients_, input.moment, false}, batches_, values_.store());
  }

  std::int64_t steps() const override { return steps_; }
  bool done() const override { return next_ >= steps_; }

  Message forward() override {
    check(!done(), "there are no batches left");
    reading_ = reader_->take(1, next_);
    dropout_ = values_.config().dropout ? std::move(reading_->dropout) : Dropout();
    const Params& params = values_.begin_pass();
    const Batch& batch = reading_->batch.batch;
    lower_ = trainer_.model.bottom(params, batch, cut_.layers, dropout_);
    tokens_ += static_cast<double>(lower_.size(1));
    most_tokens_ = std::max(most_tokens_, lower_.size(1));
    Message message;
    message.tensors["activations"] = noisy(lower_.detach()[0]);
    message.numbers["calls"] = static_cast<double>(dropout_.calls());
    message.numbers["batch"] = static_cast<double>(next_);
    if (values_.has_shared()) message.tensors["shared"] = values_.shared_values();
    write_split_batch(reading_->batch, !cut_.labels_stay, message);
    return message;
  }

  Message answer(const Message& message) override {
    check(reading_.has_value() && cut_.labels_stay, "a client answers when its labels stay");
    TaskBatch batch = reading_->batch;
    batch.batch.bottom = read_states(message, "hidden", lower_.size(1), trainer_.model.width(), lower_.device());
    batch.batch.bottom.requires_grad_();
    batch.batch.bottom_layers = trainer_.model.cuts();
    dropout_.continue_from(calls_of(message));
    const Output output = trainer_.model.forward(values_.store().active(1), batch.batch, dropout_);
    const at::Tensor loss = trainer_.task.loss(output, batch);
    torch::autograd::backward({loss}, {torch::ones_like(loss)});
    losses_.push_back(loss.detach());
    Message reply;
    reply.tensors["gradient"] = batch.batch.bottom.grad()[0];
    return reply;
  }

  void backward(const Message& message) override {
    check(reading_.has_value(), "a backward pass follows a forward pass");
    at::Tensor gradient =
        read_states(message, "gradient", lower_.size(1), trainer_.model.width(), lower_.device()).clone();
    if (values_.has_shared()) values_.add_shared_gradients(message);
    if (guard_.decorrelate > 0) gradient.add_(correlation_gradient(), guard_.decorrelate);
    if (lower_.requires_grad()) torch::autograd::backward({lower_}, {gradient});
    values_.step();
    lower_ = at::Tensor();
    reading_.reset();
    ++next_;
  }

  at::Tensor values() const override { return values_.own_values(); }
  double loss() const override { return losses_.empty() ? 0 : mean_losses(losses_, 1).at(0); }
  double tokens() const override { return tokens_; }
  double memory() const override {
    return side_memory(trainer_.model, values_.side(), static_cast<double>(most_tokens_));
  }

 private:
  at::Tensor noisy(const at::Tensor& states) const {
    if (guard_.noise <= 0) return states;
    const TrainMoment& moment = values_.moment();
    RandomStream stream(
        {moment.seed, "split-noise", moment.round, clients_.front().id, static_cast<std::uint64_t>(next_)});
    const at::Tensor noise = torch::empty(states.sizes(), at::kFloat);
    auto* out = noise.data_ptr<float>();
    for (std::int64_t i = 0; i < noise.numel(); ++i) out[i] = static_cast<float>(guard_.noise * stream.normal());
    return states + noise.to(states.device());
  }

  // Of the squared distance correlation between words and activations, by the activations.
  at::Tensor correlation_gradient() const {
    const std::int64_t some = std::min(lower_.size(1), kMostCorrelated);
    at::Tensor words;
    {
      const at::NoGradGuard no_grad;
      Dropout off;
      words = trainer_.model.bottom(values_.store().params(), reading_->batch.batch, 0, off)[0].narrow(0, 0, some);
    }
    const at::Tensor states = lower_.detach()[0].narrow(0, 0, some).clone().requires_grad_();
    distance_correlation(words, states).backward();
    const at::Tensor result = torch::zeros_like(lower_.detach());
    result[0].narrow(0, 0, some).copy_(states.grad());
    return result;
  }

  TrainerInput trainer_;
  std::vector<TrainClient> clients_;
  std::vector<ClientBatches> batches_;
  SplitValues values_;
  SplitCut cut_;
  SplitGuard guard_;
  std::int64_t steps_, next_ = 0, most_tokens_ = 0;
  double tokens_ = 0;
  std::optional<BatchReader> reader_;
  std::optional<Reading> reading_;
  Dropout dropout_;
  at::Tensor lower_;
  std::vector<at::Tensor> losses_;
};

class ServerSide final : public SplitServer {
 public:
  ServerSide(const TrainerInput& trainer, const TrainerConfig& config, const TrainMoment& moment, const SplitCut& cut)
      : trainer_(without_cache(trainer)),
        values_(config, moment, split_side(trainer_.model, trainer_.base, cut, SplitRole::kServer)),
        cut_(cut) {}

  void start(const at::Tensor& values) { values_.start(values); }
  void begin(std::int64_t steps) override { values_.begin(steps); }

  Message answer(ClientId client, const Message& message) override {
    TaskBatch batch = read(message, true);
    Dropout dropout = dropout_of(client, message);
    const Params& params = values_.begin_pass();
    const Output output = trainer_.model.forward(params, batch.batch, dropout);
    check_split_labels(output, batch, trainer_.model);
    const at::Tensor loss = trainer_.task.loss(output, batch);
    torch::autograd::backward({loss}, {torch::ones_like(loss)});
    last_loss_ = loss.detach().item<double>();
    if (!std::isfinite(last_loss_)) throw DataError(kNotANumber);
    return finish(batch.batch.bottom);
  }

  Message forward(ClientId client, const Message& message) override {
    const TaskBatch batch = read(message, false);
    Dropout dropout = dropout_of(client, message);
    below_ = batch.batch.bottom;
    above_ = trainer_.model.bottom(values_.begin_pass(), batch.batch, trainer_.model.cuts(), dropout);
    Message reply;
    reply.tensors["hidden"] = above_.detach()[0];
    reply.numbers["calls"] = static_cast<double>(dropout.calls());
    return reply;
  }

  Message backward(const Message& message) override {
    check(above_.defined(), "a backward pass follows a forward pass");
    const at::Tensor gradient =
        read_states(message, "gradient", above_.size(1), trainer_.model.width(), above_.device());
    torch::autograd::backward({above_}, {gradient});
    above_ = at::Tensor();
    return finish(std::exchange(below_, at::Tensor()));
  }

  at::Tensor values() const override { return values_.own_values(); }
  double last_loss() const override { return last_loss_; }
  double memory() const override {
    return side_memory(trainer_.model, values_.side(), static_cast<double>(most_tokens_));
  }

 private:
  TaskBatch read(const Message& message, bool labels) {
    TaskBatch batch = read_split_batch(message, trainer_.model, cut_.layers, labels, values_.store().params().device());
    batch.batch.bottom.requires_grad_();
    if (values_.has_shared()) values_.put_shared_values(message);
    most_tokens_ = std::max(most_tokens_, batch.batch.packing->tokens());
    return batch;
  }

  // The masks that the client would draw next.
  Dropout dropout_of(ClientId client, const Message& message) const {
    if (!values_.config().dropout) return {};
    const double number = message.number("batch");
    if (!(number >= 0 && number < 9e15)) throw DataError("\"batch\" is out of range");
    const TrainMoment& moment = values_.moment();
    Dropout dropout({RandomStream({moment.seed, "dropout", moment.round, client, static_cast<std::uint64_t>(number)})
                         .fingerprint()});
    dropout.continue_from(calls_of(message));
    return dropout;
  }

  Message finish(const at::Tensor& input) {
    Message reply;
    reply.tensors["gradient"] = input.grad()[0];
    values_.store().active(1).writes().end();
    if (values_.has_shared()) reply.tensors["shared"] = values_.shared_gradients();
    values_.step();
    return reply;
  }

  TrainerInput trainer_;
  SplitValues values_;
  SplitCut cut_;
  at::Tensor below_, above_;
  double last_loss_ = 0;
  std::int64_t most_tokens_ = 0;
};

}  // namespace

std::unique_ptr<SplitClient> split_client(const SplitClientInput& input) { return std::make_unique<ClientSide>(input); }

SplitParts SplitTrainingDesk::parts(const SplitCut& cut) const {
  return split_parts(trainer_.model, trainer_.base, cut);
}

std::unique_ptr<SplitServer> SplitTrainingDesk::server(const SplitCut& cut, const at::Tensor& start,
                                                       std::uint64_t round) const {
  auto server = std::make_unique<ServerSide>(trainer_, config_, TrainMoment{seed_, round, rounds_}, cut);
  server->start(start);
  return server;
}

}  // namespace chorus::inline trainer
