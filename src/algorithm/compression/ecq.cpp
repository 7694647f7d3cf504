#include "algorithm/compression/ecq.h"

namespace chorus::inline compression {

void EcqConfig::describe(ConfigVisitor& visitor) {
  describe_bits(visitor, bits, bucket);
  visitor.field("compensation", compensation, "alpha: share of the accumulated error that is added")
      .at_least(0)
      .at_most(1);
  visitor.field("decay", decay, "beta: share of the accumulated error that is kept").at_least(0).at_most(1);
}

namespace {

const Registration<Filters, EcqConfig> kRegisteredEcq{
    "ecq", "error-compensated quantizer, 8, 4 or 2 bits (Wu et al. 2018; FTQ of Cai et al. 2023)",
    [](const EcqConfig& config) { return std::make_unique<EcqFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
