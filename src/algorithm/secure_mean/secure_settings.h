#pragma once

#include <cstdint>

#include "algorithm/secure_mean/sum_plan.h"
#include "core/config/config_visitor.h"

namespace chorus::inline secure_mean {

/// What all protocols have in common.
struct SecureMeanConfig {
  enum class Mode { kReal, kCost };

  double clip = 0.25;                 ///< largest absolute value of an element of an update; larger ones are cut off
  double norm = 0;                    ///< largest L2 norm of an update, scaled down to before; 0: none
  std::int64_t bits = 16;             ///< of a quantised element, sign included
  std::int64_t most_examples = 1000;  ///< weight at which a client's weight is cut off, where weights are not equal
  std::int64_t least_clients = 3;     ///< a sum over fewer is never revealed
  double keep = 1;                    ///< share of elements summed, at shared random positions, with error feedback
  std::int64_t rare_rows = 0;         ///< rows of word tables changed by fewer clients are left out; 0: none are
  Mode mode = Mode::kReal;            ///< simulation only. cost: plain sums of the same bits, the protocol's cost added
  double vanish = 0;                  ///< simulation only: share of clients that vanish, each before a random step

  void describe(ConfigVisitor& visitor);
};

struct SecAggConfig : SecureMeanConfig {
  Trust server = Trust::kSemiHonest;  ///< active: it may lie

  void describe(ConfigVisitor& visitor);
};

struct SecAggPlusConfig : SecureMeanConfig {
  Trust server = Trust::kSemiHonest;
  double corrupt = kUsualCorrupt;  ///< share of clients that may collude with the server
  double dropout = kUsualDropout;  ///< share of clients that may vanish

  void describe(ConfigVisitor& visitor);
};

struct LightSecAggConfig : SecureMeanConfig {
  double corrupt = 0.3;
  double dropout = 0.3;

  void describe(ConfigVisitor& visitor);
};

struct SecureMeanSettings {
  SumProtocol protocol = SumProtocol::kSecAggPlus;
  SecureMeanConfig common = {};
  double corrupt = kUsualCorrupt, dropout = kUsualDropout;
  Trust server = Trust::kSemiHonest;
  NoiseShare noise = {};  ///< of every client; its bits and clients are those of the sum
};

}  // namespace chorus::inline secure_mean
