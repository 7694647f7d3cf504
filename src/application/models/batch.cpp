#include "application/models/batch.h"

#include "core/base/error.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline models {
namespace {

std::vector<std::vector<std::int64_t>> lengths_of(const CohortRows& rows) {
  std::vector<std::vector<std::int64_t>> lengths;
  for (const auto& client : rows) {
    auto& list = lengths.emplace_back();
    for (const TokenRow& row : client) list.push_back(static_cast<std::int64_t>(row.size()));
  }
  return lengths;
}

}  // namespace

Batch collate(const CohortRows& ids, const CohortRows& types, at::Device device) {
  Batch batch;
  batch.packing = std::make_shared<Packing>(lengths_of(ids), device);
  batch.ids = pack_rows(ids, *batch.packing, 0);
  if (!types.empty()) batch.types = pack_rows(types, *batch.packing, 0);
  return batch;
}

void collate_target(Batch& batch, const CohortRows& ids) {
  batch.target_packing = std::make_shared<Packing>(lengths_of(ids), batch.ids.device());
  batch.target_ids = pack_rows(ids, *batch.target_packing, 0);
}

at::Tensor pack_rows(const CohortRows& rows, const Packing& packing, std::int64_t tail) {
  check(lengths_of(rows) == packing.lengths(), "the rows have other lengths than the packing");
  at::Tensor result = torch::full({packing.clients(), packing.tokens()}, tail, at::kLong);
  auto* out = result.data_ptr<std::int64_t>();
  for (const auto& client : rows) {
    std::int64_t* next = out;
    for (const TokenRow& row : client) next = std::copy(row.begin(), row.end(), next);
    out += packing.tokens();
  }
  return sent_to(packing.positions().device(), result);
}

at::Tensor per_sequence(const std::vector<TokenRow>& values, const Packing& packing, std::int64_t missing) {
  check(values.size() == packing.lengths().size(), "one row per client");
  at::Tensor result = torch::full({packing.clients(), packing.sequences()}, missing, at::kLong);
  auto* out = result.data_ptr<std::int64_t>();
  for (std::size_t c = 0; c < values.size(); ++c) {
    check(values[c].size() == packing.lengths()[c].size(), "one value a sequence");
    std::copy(values[c].begin(), values[c].end(), out + static_cast<std::int64_t>(c) * packing.sequences());
  }
  return sent_to(packing.positions().device(), result);
}

}  // namespace chorus::inline models
