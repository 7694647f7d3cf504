#pragma once

#include "core/ports/algorithm.h"

namespace chorus::inline distillation {

/// The traffic of a round in float32 elements, for the formulas of Ma et al. 2023, table 5. With |theta| parameters,
/// |D_0| predictions of the public set (rows x classes) and K clients, one round is
///
///     FedAvg |theta| (K + 1)      FedDF (|theta| (K + 1) + |D_0| K)      FedED |theta| + |D_0| K
///     FedKD  |D_0| K              DS-FL, MHAT, FedID |D_0| (K + 1)
///
/// where a broadcast counts once. FedDF's predictions are computed by the server, so they do not travel, although the
/// table counts them. FedID sends every prediction once per epoch of distillation; the table counts one epoch, so with
/// E epochs payload_bytes is E times what the table suggests.
struct Table5 {
  double up = 0;        ///< elements of the table per client of the cohort
  double down = 0;      ///< elements of the table that are broadcast
  double sent = 0;      ///< elements that clients sent, all together
  double received = 0;  ///< elements that clients were sent, all together
};

/// Adds to the round's numbers:
///     table5_bytes    4 (K up + down), K the clients of the cohort
///     payload_bytes   4 (sent + received), where every client is sent its own copy
/// What a client sends in a reply that is not used does not count, nor what it is not sent any more. Without filters,
/// bytes_up + bytes_down of the round's event is payload_bytes plus framing: the names and values of the numbers beside
/// the predictions (`Message::bytes`), and over a transport the frames of docs/reference/formats.md.
void note_traffic(const RoundInput& input, const Table5& elements, RoundResult& result);

/// Clients of the cohort whose replies were used so far in this round.
double used_clients(const RoundInput& input, const RoundResult& result);

}  // namespace chorus::inline distillation
