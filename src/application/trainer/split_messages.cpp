#include "application/trainer/split_messages.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

constexpr std::int64_t kMostSplitTokens = 1 << 22;

at::Tensor lengths_of(const Packing& packing) { return torch::tensor(packing.lengths()[0], at::kLong); }

void put(const char* name, const at::Tensor& tensor, Message& message) {
  if (tensor.defined()) message.tensors[name] = tensor[0];
}

bool any_from(const at::Tensor& labels, std::int64_t end) {
  return labels.numel() > 0 && labels.max().item<std::int64_t>() >= end;
}

// int64 [n] with elements in [0, end), or kIgnore where that is allowed; undefined if absent.
at::Tensor whole_numbers(const Message& message, const char* name, std::int64_t end, bool may_ignore) {
  if (!message.has_tensor(name)) return {};
  const at::Tensor tensor = message.tensor(name).cpu().contiguous();
  if (tensor.scalar_type() != at::kLong || tensor.dim() != 1 || tensor.numel() > kMostSplitTokens) {
    throw DataError(fmt::format("\"{}\" should be a list of whole numbers", name));
  }
  const auto* value = tensor.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    if ((value[i] >= 0 && value[i] < end) || (may_ignore && value[i] == kIgnore)) continue;
    throw DataError(fmt::format("\"{}\" has {}, which is out of range", name, value[i]));
  }
  return tensor;
}

std::shared_ptr<const Packing> packing_of(const Message& message, const char* name, std::int64_t longest,
                                          at::Device device) {
  const at::Tensor lengths = whole_numbers(message, name, (longest > 0 ? longest : kMostSplitTokens) + 1, false);
  if (!lengths.defined() || lengths.numel() == 0) throw DataError(fmt::format("\"{}\" is missing", name));
  if (lengths.min().item<std::int64_t>() < 1 || lengths.sum().item<std::int64_t>() > kMostSplitTokens) {
    throw DataError(fmt::format("\"{}\" has sequences without tokens, or too many", name));
  }
  const auto* first = lengths.data_ptr<std::int64_t>();
  return std::make_shared<Packing>(std::vector<std::vector<std::int64_t>>{{first, first + lengths.numel()}}, device);
}

}  // namespace

void write_split_batch(const TaskBatch& batch, bool labels, Message& message) {
  message.tensors["lengths"] = lengths_of(*batch.batch.packing);
  if (!labels) return;
  if (!batch.fields.empty()) {
    throw ConfigError("this task's loss needs more than labels, which cannot be sent; set algorithm.labels: client");
  }
  put("labels", batch.labels, message);
  put("scores", batch.scores, message);
  put("starts", batch.starts, message);
  put("ends", batch.ends, message);
  put("wanted", batch.batch.wanted, message);
  if (batch.batch.target_packing == nullptr) return;
  message.tensors["target_lengths"] = lengths_of(*batch.batch.target_packing);
  put("target_ids", batch.batch.target_ids, message);
}

at::Tensor read_states(const Message& message, const char* name, std::int64_t tokens, std::int64_t width,
                       at::Device device) {
  const at::Tensor& tensor = message.tensor(name);
  if (tensor.scalar_type() != at::kFloat || tensor.dim() != 2 || tensor.size(0) != tokens || tensor.size(1) != width) {
    throw DataError(fmt::format("\"{}\" should be float32 [{}, {}]", name, tokens, width));
  }
  if (!torch::isfinite(tensor).all().item<bool>()) {
    throw DataError(fmt::format("\"{}\" has values that are not finite", name));
  }
  return tensor.detach().to(device).contiguous().unsqueeze(0);
}

TaskBatch read_split_batch(const Message& message, const Model& model, int layers, bool labels, at::Device device) {
  TaskBatch result;
  Batch& batch = result.batch;
  batch.packing = packing_of(message, "lengths", model.max_length(), device);
  const std::int64_t tokens = batch.packing->tokens();
  batch.bottom = read_states(message, "activations", tokens, model.width(), device);
  batch.bottom_layers = layers;
  if (!labels) return result;
  const auto row = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device).unsqueeze(0) : at::Tensor();
  };
  result.labels = row(whole_numbers(message, "labels", std::int64_t{1} << 31, true));
  result.starts = row(whole_numbers(message, "starts", tokens, true));
  result.ends = row(whole_numbers(message, "ends", tokens, true));
  batch.wanted = row(whole_numbers(message, "wanted", tokens, false));
  if (message.has_tensor("scores")) {
    const at::Tensor& scores = message.tensor("scores");
    if (scores.scalar_type() != at::kFloat || scores.dim() != 1 || !torch::isfinite(scores).all().item<bool>()) {
      throw DataError("\"scores\" should be a list of finite numbers");
    }
    result.scores = row(scores);
  }
  const std::int64_t sequences = batch.packing->sequences();
  for (const at::Tensor* each : {&result.scores, &result.starts, &result.ends}) {
    if (each->defined() && each->size(1) != sequences) throw DataError("there should be one label per sequence");
  }
  if (model.head() == Head::kSeq2Seq || message.has_tensor("target_lengths")) {
    batch.target_packing = packing_of(message, "target_lengths", model.max_length(), device);
    batch.target_ids = row(whole_numbers(message, "target_ids", model.vocabulary(), false));
    if (!batch.target_ids.defined() || batch.target_ids.size(1) != batch.target_packing->tokens() ||
        batch.target_packing->sequences() != sequences) {
      throw DataError("the targets do not belong to these texts");
    }
  }
  if (model.head()->fuses_loss && result.labels.defined()) {
    const std::int64_t rows = batch.wanted.defined() ? batch.wanted.size(1) : tokens;
    if (result.labels.size(1) != rows || any_from(result.labels, model.vocabulary())) {
      throw DataError("the labels do not belong to these texts");
    }
    batch.answers = result.labels;
  }
  if (result.labels.defined()) result.counted = count_labels(result.labels);
  return result;
}

void check_split_labels(const Output& output, const TaskBatch& batch, const Model& model) {
  if (output.loss.defined()) return;
  const bool spans = model.head() == Head::kQuestionAnswering;
  if (spans ? !batch.starts.defined() || !batch.ends.defined() : !batch.labels.defined() && !batch.scores.defined()) {
    throw DataError("a client sent no labels; both sides need the same algorithm.labels");
  }
  if (!batch.labels.defined()) return;
  const bool outside =
      !batch.scores.defined() && output.logits.dim() == 3 && any_from(batch.labels, output.logits.size(2));
  if (outside || output.logits.size(1) != batch.labels.size(1)) {
    throw DataError(fmt::format("the labels are not those of a {} network", model.config().model_type()));
  }
}

}  // namespace chorus::inline trainer
