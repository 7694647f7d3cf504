#include "application/trainer/value_store.h"

#include <exception>

#include "application/trainer/used_words.h"
#include "core/base/error.h"
#include "core/device/backend.h"
#include "core/tensor/bfloat16.h"
#include "core/tensor/flat_math.h"

namespace chorus::inline trainer {
namespace {

at::Tensor as_rows(const at::Tensor& start) { return start.dim() == 1 ? start.unsqueeze(0) : start; }

at::Tensor first_elements(const at::Tensor& rows, std::int64_t count) {
  return rows.defined() ? rows.narrow(1, 0, count) : rows;
}

// values -= start, in place.
Changes subtract_start(const at::Tensor& values, const at::Tensor& start) {
  at::Tensor faulty = torch::zeros({values.size(0)}, at::kInt);
  for (std::int64_t c = 0; c < values.size(0); ++c) {
    at::Tensor mine = values[c];
    const at::Tensor from = start.dim() == 1 ? start : start[c];
    const bool plain = mine.is_cpu() && mine.is_contiguous() && from.is_contiguous();
    const bool finite = plain ? subtract_from(mine.data_ptr<float>(), from.data_ptr<float>(), mine.numel())
                              : at::isfinite(mine.sub_(from)).all().item<bool>();
    faulty.data_ptr<std::int32_t>()[c] = finite ? 0 : 1;
  }
  return {values, faulty};
}

class BorrowedStart final : public ValueStore {
 public:
  explicit BorrowedStart(const Input& input)
      : ValueStore(Params::views_of_start(input.base, input.clients, input.start, true), input.start) {
    if (input.bfloat16) params_ = params_.with_shadow();
  }

  bool owned() const override { return owned_; }

  void step(Optimizer& optimizer, const Step& step) override {
    if (owned_) return ValueStore::step(optimizer, step);
    check(step.clients == params_.clients(), "all clients make the first step");
    const Params own = params_.with_own_values();
    optimizer.step(own.values(), own.grads(), step.rates, step.scale,
                   {.before = params_.values(), .shadow = params_.shadow().values(), .last = step.last});
    params_ = own;
    forget_active();
    owned_ = true;
  }

  Changes take_changes() override {
    if (owned_ || uses_gpu_kernels(params_.values())) return ValueStore::take_changes();
    return subtract_start(params_.values().clone(), start_);
  }

 private:
  bool owned_ = false;
};

class UsedWordsStore final : public ValueStore {
 public:
  UsedWordsStore(const Input& input, UsedWords words)
      : ValueStore(words.params(input.base, input.start, input.bfloat16), input.start), words_(std::move(words)) {}

  std::int64_t used_until(std::int64_t number) const override { return words_.elements_until(number); }
  void adapt(Batch& batch) const override { batch.ids = words_.rename(batch.ids); }
  at::Tensor start() const override {
    if (!begun_.defined()) begun_ = words_.params(params_, start_, false).values();
    return begun_;
  }
  at::Tensor take_values() override { return words_.spread(params_.values(), start_); }
  Changes take_changes() override {
    if (!uses_gpu_kernels(params_.values())) return subtract_start(take_values(), start_);
    return gpu_changes(params_.values(), start_, words_.places());
  }

 private:
  UsedWords words_;
  mutable at::Tensor begun_;
};

class RecordedStore final : public ValueStore {
 public:
  RecordedStore(const Input& input, StepRecorders& recorders)
      : RecordedStore(input, recorders, recorders.lend(input.base, input.clients, {.shadow = input.bfloat16})) {}
  ~RecordedStore() override {
    if (std::uncaught_exceptions() == 0) recorders_.take_back(std::move(recorder_));
  }

  bool records() const override { return true; }
  at::Tensor run(std::int64_t clients, PassInput& input, const Pass& pass) override {
    return recorder_->run(input, [&](PassInput& in) {
      Params fresh = params_.first(clients);  // autograd ties leaves to the stream of their first use
      return pass(fresh, in);
    });
  }
  at::Tensor take_values() override { return params_.values().clone(); }
  Changes take_changes() override {
    if (!uses_gpu_kernels(params_.values())) return subtract_start(take_values(), start_);
    return gpu_changes(params_.values(), start_, {});
  }

 private:
  RecordedStore(const Input& input, StepRecorders& recorders, std::unique_ptr<StepRecorder> recorder)
      : ValueStore(recorder->params().first(input.clients), input.start),
        recorders_(recorders),
        recorder_(std::move(recorder)) {
    params_.values().copy_(as_rows(input.start));
    if (input.bfloat16) put_as_bfloat16(params_.shadow().values(), params_.values());
  }

  StepRecorders& recorders_;
  std::unique_ptr<StepRecorder> recorder_;
};

}  // namespace

ValueStore::ValueStore(const Input& input)
    : ValueStore(Params::copies_of_start(input.base, input.clients, true, input.start), input.start) {
  if (input.bfloat16) params_ = params_.with_shadow();
}

Params& ValueStore::active(std::int64_t clients) {
  if (!active_ || active_->clients() != clients) active_.emplace(params_.first(clients));
  return *active_;
}

at::Tensor ValueStore::run(std::int64_t clients, PassInput& input, const Pass& pass) {
  return pass(active(clients), input);
}

void ValueStore::step(Optimizer& optimizer, const Step& step) {
  const Params& now = active(step.clients);
  optimizer.step(first_elements(now.values(), step.used), first_elements(now.grads(), step.used), step.rates,
                 step.scale,
                 {.shadow = first_elements(now.shadow().values(), step.used), .last = step.last, .once = step.once});
}

at::Tensor ValueStore::start() const { return as_rows(start_); }

void ValueStore::retain(std::span<const std::size_t> clients) {
  check(owned(), "clients leave a store that has values of its own");
  const at::NoGradGuard no_grad;
  for (std::size_t to = 0; to < clients.size(); ++to) {
    if (clients[to] == to) continue;
    const auto row = static_cast<std::int64_t>(to), from = static_cast<std::int64_t>(clients[to]);
    params_.values()[row].copy_(params_.values()[from]);
    if (params_.shadow().exists()) params_.shadow().values()[row].copy_(params_.shadow().values()[from]);
  }
  if (start_.dim() == 2) {
    const std::vector<std::int64_t> rows(clients.begin(), clients.end());
    start_ = start_.index_select(0, torch::tensor(rows, at::kLong).to(start_.device()));
  }
  params_ = params_.first(static_cast<std::int64_t>(clients.size()));
  forget_active();
}

Changes ValueStore::take_changes() {
  if (uses_gpu_kernels(params_.values())) return gpu_changes(params_.values(), start_, {});
  return subtract_start(params_.values(), start_);
}

std::unique_ptr<ValueStore> borrowed_start_store(const ValueStore::Input& input) {
  return std::make_unique<BorrowedStart>(input);
}

std::unique_ptr<ValueStore> used_words_store(const ValueStore::Input& input, const Model& model,
                                             std::span<ClientBatches> batches) {
  const Embedding* words = model.words();
  if (words == nullptr || !UsedWords::possible(model.layout(), *words)) return nullptr;
  return std::make_unique<UsedWordsStore>(input, UsedWords(model.layout(), *words, batches, input.base.device()));
}

std::unique_ptr<ValueStore> recorded_store(const ValueStore::Input& input, StepRecorders& recorders) {
  return std::make_unique<RecordedStore>(input, recorders);
}

}  // namespace chorus::inline trainer
