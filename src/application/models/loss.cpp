#include "application/models/loss.h"

namespace chorus {
namespace {

// Mean of values [C, M] where counted [C, M].
at::Tensor mean_where(const at::Tensor& values, const at::Tensor& counted) {
  const at::Tensor weights = counted.to(values.scalar_type());
  return (values * weights).sum(1) / weights.sum(1).clamp_min(1);
}

// One end of the span: scores [N, L], places [C, B].
at::Tensor place_loss(const at::Tensor& scores, const at::Tensor& places, const Packing& packing) {
  const at::Tensor lengths = packing.last_token() - packing.first_token() + 1;
  const at::Tensor counted = packing.sequence_valid().logical_and(places.ge(0)).logical_and(places.lt(lengths));
  const at::Tensor log_probabilities = torch::log_softmax(scores, -1);  // [N, L]
  // One row a sequence slot [C * B]; slots without a sequence point at row 0 and do not count.
  const at::Tensor slot = packing.client_of() * packing.sequences() + packing.sequence_of();
  at::Tensor row = torch::zeros({packing.clients() * packing.sequences()}, slot.options());
  row.index_copy_(0, slot, torch::arange(slot.size(0), slot.options()));
  const at::Tensor chosen = log_probabilities.index_select(0, row).gather(
      1, torch::where(counted, places, torch::zeros_like(places)).view({-1, 1}));
  return mean_where(chosen.view(places.sizes()).neg(), counted);
}

}  // namespace

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor counted = labels.ne(kIgnore);
  const at::Tensor safe = labels.masked_fill(counted.logical_not(), 0);
  const at::Tensor chosen = torch::log_softmax(logits, -1).gather(-1, safe.unsqueeze(-1)).squeeze(-1);
  return mean_where(chosen.neg(), counted);
}

at::Tensor squared_error(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& valid) {
  const at::Tensor error = (logits.squeeze(-1) - targets).pow(2);
  return mean_where(torch::where(valid, error, torch::zeros_like(error)), valid);
}

at::Tensor span_loss(const at::Tensor& logits, const at::Tensor& starts, const at::Tensor& ends,
                     const Packing& packing) {
  const at::Tensor place = torch::arange(packing.longest(), starts.options()).unsqueeze(0);
  const at::Tensor lengths = (packing.last_token() - packing.first_token() + 1)
                                 .flatten()
                                 .index_select(0, packing.client_of() * packing.sequences() + packing.sequence_of());
  const at::Tensor beyond = place.ge(lengths.unsqueeze(1)).unsqueeze(-1);  // [N, L, 1]
  const at::Tensor scores = packing.unpack(logits).masked_fill(beyond, kHiddenScore);
  return (place_loss(scores.select(2, 0), starts, packing) + place_loss(scores.select(2, 1), ends, packing)) / 2;
}

at::Tensor next_token(const at::Tensor& labels, const Packing& packing) {
  at::Tensor shifted = torch::full_like(labels, kIgnore);
  if (labels.size(1) > 1) shifted.narrow(1, 0, labels.size(1) - 1).copy_(labels.narrow(1, 1, labels.size(1) - 1));
  // A token whose right neighbour begins a sequence (or lies in the tail) is the last of its own.
  at::Tensor last = torch::ones_like(labels, labels.options().dtype(at::kBool));
  if (labels.size(1) > 1) {
    const std::int64_t count = labels.size(1) - 1;
    last.narrow(1, 0, count).copy_(packing.positions().narrow(1, 1, count).eq(0));
  }
  return shifted.masked_fill(last.logical_or(packing.token_valid().logical_not()), kIgnore);
}

}  // namespace chorus
