#include "application/models/embed.h"

#include "application/models/ops/lookup.h"
#include "core/base/error.h"

namespace chorus::inline models {

at::Tensor mean_embeddings(const Model& model, const Params& params, const std::vector<TokenRow>& sequences,
                           bool normalise) {
  check(params.clients() == 1, "embedding works on one client at a time");
  const auto* generative = dynamic_cast<const GenerativeModel*>(&model);
  if (generative != nullptr && generative->has_encoder()) {
    throw ConfigError("sentence vectors come from an encoder or a causal model; an encoder-decoder gives none");
  }
  const at::NoGradGuard no_grad;
  Dropout off;
  Batch batch = collate({sequences}, {}, params.device());
  // The head is evaluated on one token only: its logits are not wanted.
  batch.wanted = torch::zeros({1, 1}, batch.ids.options());
  const at::Tensor hidden = model.forward(params, batch, off).hidden.squeeze(0);  // [T, H]
  const std::int64_t count = batch.packing->total_sequences();
  const at::Tensor owner = batch.packing->owner().squeeze(0);
  const at::Tensor sums = sum_rows(hidden, owner, count);
  const at::Tensor lengths = sum_rows(torch::ones({hidden.size(0), 1}, hidden.options()), owner, count);
  const at::Tensor means = sums / lengths;
  return normalise ? means / means.norm(2, 1, true).clamp_min(1e-12) : means;
}

}  // namespace chorus::inline models
