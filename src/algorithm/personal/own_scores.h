#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/client_spread.h"
#include "core/ports/algorithm.h"
#include "core/ports/scorer.h"

namespace chorus::inline personal {

/// Which models are compared at the end of a run, on each client's own test examples.
struct OwnScoresPlan {
  std::string metric = "accuracy";       ///< the main score
  std::int64_t fine_tuning = 0;          ///< passes of the fine-tuned model; 0: not compared
  std::int64_t alone = 0;                ///< passes of a client that trains alone; 0: not compared
  std::size_t clients = 0;               ///< at most this many, drawn at random; 0: all
  std::vector<ClientId> newcomers = {};  ///< clients that never trained, ascending; all of them are asked
  std::uint64_t seed = 0;
};

struct OwnScoresInput {
  Federation& federation;
  const Algorithm& algorithm;
  AlgorithmTraits traits = {};
  const Scorer& scorer;
  at::Tensor model;  ///< [P]
  std::uint64_t round = 0;
  const Variants* variants = nullptr;
};

/// Asks the clients, model by model, skipping clients without test examples. Ascending by client.
std::vector<OwnScore> own_scores(const OwnScoresInput& input, const OwnScoresPlan& plan);

/// A share of the clients with training examples, drawn from the seed, ascending: the clients that never train.
std::vector<ClientId> draw_newcomers(std::span<const double> sizes, double share, std::uint64_t seed);

}  // namespace chorus::inline personal
