#include "application/trainer/step_recorder.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26, kMostWithWaits = std::int64_t{1} << 28;
// Clients of many sizes make many shapes; more recordings are not worth their memory.
constexpr std::int64_t kMostRecordings = 64;
constexpr std::size_t kMostShapes = 4096;
constexpr std::size_t kMostIdle = 4;
// A thread's first matmuls create handles that cannot be created during a recording.
constexpr int kMostFailures = 2;

// The GPU tensors that a pass reads, except packings and seeds; for a const or mutable input.
template <typename Input>
auto tensors_of(Input& input) {
  auto& [labels, probabilities, temperature, votes, rewards, scores, own] = input.targets;
  std::vector<decltype(&input.factors)> result{&input.factors, &labels, &probabilities, &votes, &rewards, &scores};
  visit_device_parts(
      input.batch, [&](auto& tensor) { result.push_back(&tensor); }, [](auto&) {});
  return result;
}

template <typename Input>
auto packings_of(Input& input) {
  std::vector<decltype(&input.batch.batch.packing)> result;
  visit_device_parts(
      input.batch, [](auto&) {}, [&](auto& packing) { result.push_back(&packing); });
  return result;
}

}  // namespace

std::vector<std::int64_t> PassInput::shape() const {
  std::vector<std::int64_t> result{begins ? 1 : 0,
                                   dropout.active() ? 1 : 0,
                                   batch.batch.bottom_layers,
                                   static_cast<std::int64_t>(kind),
                                   std::bit_cast<std::int64_t>(targets.temperature),
                                   std::bit_cast<std::int64_t>(targets.own)};
  for (const at::Tensor* tensor : tensors_of(*this)) {
    result.push_back(tensor->defined() ? static_cast<std::int64_t>(tensor->scalar_type()) : -1);
    if (!tensor->defined()) continue;
    result.push_back(tensor->dim());
    result.insert(result.end(), tensor->sizes().begin(), tensor->sizes().end());
  }
  for (const std::shared_ptr<const Packing>* packing : packings_of(*this)) {
    result.push_back(*packing ? 1 : 0);
    if (!*packing) continue;
    const std::vector<std::int64_t> shape = (*packing)->shape();
    result.insert(result.end(), shape.begin(), shape.end());
  }
  return result;
}

HeldInput::HeldInput(const PassInput& like) : input_(like) {
  for (at::Tensor* tensor : tensors_of(input_)) {
    if (tensor->defined()) *tensor = tensor->clone(at::MemoryFormat::Contiguous);
  }
  for (std::shared_ptr<const Packing>* packing : packings_of(input_)) {
    const auto own = *packing ? std::make_shared<Packing>((*packing)->held()) : nullptr;
    packings_.push_back(own);
    *packing = own;
  }
  if (like.dropout.active()) input_.dropout = Dropout::on_gpu(like.dropout.device_seeds().clone());
  // Host copies belong to one batch only.
  input_.batch.batch.host_ids = input_.batch.batch.host_types = at::Tensor();
  input_.batch.data.clear();
  input_.batch.rows.clear();
}

void HeldInput::take(const PassInput& other) {
  check(input_.shape() == other.shape(), "the batch has another shape");
  const auto mine = tensors_of(input_);
  const auto theirs = tensors_of(other);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (mine[i]->defined()) mine[i]->copy_(*theirs[i]);
  }
  const auto packings = packings_of(other);
  for (std::size_t i = 0; i < packings.size(); ++i) {
    if (packings_[i]) packings_[i]->take(**packings[i]);
  }
  if (other.dropout.active()) at::Tensor(input_.dropout.device_seeds()).copy_(other.dropout.device_seeds());
}

StepRecorder::StepRecorder(const Params& base, std::int64_t clients, Kind kind)
    : kind_(kind),
      params_(kind.examples ? Params::views_of_start(base, clients, torch::zeros_like(base.values()[0]), true)
                            : Params::copies_of(base, clients, true)),
      memory_(std::make_shared<GpuGraph::Memory>(base.device())),
      version_(static_cast<std::uint32_t>(base.frozen()._version())) {
  if (kind.shadow) params_ = params_.with_shadow();
}

at::Tensor StepRecorder::run(PassInput& input, const Pass& pass) {
  const Packing& packing = *input.batch.batch.packing;
  if (packing.visible().defined() || recordings_.size() > kMostShapes) return pass(input);
  const auto [place, fresh] = recordings_.try_emplace(input.shape());
  Recording& recording = place->second;
  if (fresh || recording.failures >= kMostFailures || (!recording.graph && recorded_ >= kMostRecordings))
    return pass(input);
  if (!recording.graph) {
    auto held = std::make_unique<HeldInput>(input);
    auto graph = std::make_unique<GpuGraph>(memory_);
    at::Tensor result;
    if (!graph->record([&] { result = pass(held->input()); })) {
      ++recording.failures;
      return pass(input);
    }
    ++recorded_;
    recording.input = std::move(held);
    recording.result = result;
    recording.graph = std::move(graph);
  }
  recording.input->take(input);
  recording.graph->launch();
  ++launched_;
  return recording.result.clone();
}

bool StepRecorders::worth_it(at::Device device, std::int64_t numbers, bool waits) {
  return GpuGraph::works_on(device) && numbers <= (waits ? kMostWithWaits : kMostNumbers);
}

std::unique_ptr<StepRecorder> StepRecorders::lend(const Params& base, std::int64_t clients, StepRecorder::Kind kind) {
  const std::lock_guard lock(mutex_);
  const auto of_base = [&](const std::unique_ptr<StepRecorder>& recorder) {
    const Params& params = recorder->params();
    return params.shared_layout() == base.shared_layout() && params.frozen().is_same(base.frozen()) &&
           recorder->kind_ == kind;
  };
  const auto found = std::find_if(idle_.begin(), idle_.end(), of_base);
  if (found != idle_.end()) {
    std::unique_ptr<StepRecorder> recorder = std::move(*found);
    idle_.erase(found);
    const auto version = static_cast<std::uint32_t>(base.frozen()._version());
    if (recorder->params().clients() >= clients && recorder->version_ == version) return recorder;
  }
  return std::make_unique<StepRecorder>(base, clients, kind);
}

void StepRecorders::forget() {
  const std::lock_guard lock(mutex_);
  idle_.clear();
}

void StepRecorders::take_back(std::unique_ptr<StepRecorder> recorder) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(recorder));
  if (idle_.size() > kMostIdle) idle_.erase(idle_.begin());
}

}  // namespace chorus::inline trainer
