#pragma once

#include "core/ports/algorithm.h"

namespace chorus::inline distillation {

/// The traffic of a round in float32 elements, for the formulas of Ma et al. 2023, table 5. With |theta| parameters,
/// |D_0| predictions of the public set (rows x classes) and K clients, one round is
///
///     FedAvg |theta| (K + 1)      FedDF (|theta| (K + 1) + |D_0| K)      FedED |theta| + |D_0| K
///     FedKD  |D_0| K              DS-FL, MHAT, FedID |D_0| (K + 1)
///
/// where a broadcast counts once. FedID sends everything once per epoch of distillation; the table counts one epoch.
/// FedDF's predictions are computed by the server, so they do not travel, although the table counts them.
struct Table5 {
  double up = 0;       ///< elements that each client sends
  double down = 0;     ///< elements that each client receives
  double counted = 0;  ///< elements that the table counts once per client and that do not travel
};

/// Adds to the round's numbers:
///     table5_bytes    4 (K (up + counted) + down)
///     payload_bytes   4 K (up + down): what travels if every client is sent its own copy
/// Without filters, bytes_up + bytes_down of the round's event is payload_bytes plus framing: the names and values of
/// the numbers beside the predictions (`Message::bytes`), and over a transport the frames of docs/reference/formats.md.
void note_traffic(const RoundInput& input, const Table5& elements, RoundResult& result);

}  // namespace chorus::inline distillation
