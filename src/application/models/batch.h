#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "application/models/model.h"

namespace chorus::inline models {

/// One integer per token of a sequence.
using TokenRow = std::vector<std::int64_t>;
/// The sequences of each client: [C][B][tokens].
using CohortRows = std::vector<std::vector<TokenRow>>;

/// Packs the ids (and token types, if any) of a cohort into a Batch.
///
///     Batch batch = collate({{{101, 7, 102}, {101, 8, 9, 102}}});     // one client, two sequences
Batch collate(const CohortRows& ids, const CohortRows& types = {}, at::Device device = at::kCPU);

/// Adds the decoder's input to a batch.
void collate_target(Batch& batch, const CohortRows& ids);

/// Integers packed like the tokens of `packing`, [C, T], with `tail` past the end. The rows must have the packing's
/// lengths.
at::Tensor pack_rows(const CohortRows& rows, const Packing& packing, std::int64_t tail);

/// One integer per sequence, [C, B], with `missing` for clients with fewer sequences.
at::Tensor per_sequence(const std::vector<TokenRow>& values, const Packing& packing, std::int64_t missing);

}  // namespace chorus::inline models
