#pragma once

#include <array>
#include <vector>

#include "algorithm/adafl/configurator.h"
#include "core/config/config_visitor.h"
#include "core/ports/algorithm.h"

namespace chorus::inline adafl {

/// AdaFL (Cai et al. 2023): adapters that grow while they are trained. The round's clients are dealt to three groups,
/// which run FedAvg with the present configuration, a deeper one and a wider one. When a group has used up the trial
/// interval of emulated time it waits for the others; then the server scores the three and all go on from the best, the
/// added parts as they were initialised. Fast configurations make more rounds in the same time.
///
/// Needs a tuning that can grow (pfeiffer, houlsby, lora, prefix), whose width and depth are the largest allowed, and
/// `emulation`, whose clock the trials are measured by. While a trial goes on, the model that is evaluated is that of
/// the present configuration. The clock of the run is that of the slowest group.
struct AdaFlConfig {
  std::int64_t depth = 1;
  std::int64_t width = 8;
  std::int64_t depth_step = 1;
  std::int64_t width_step = 8;
  double interval = 90;
  double expand = 4;
  bool skip_depth_one = true;

  void describe(ConfigVisitor& visitor);
};

class AdaFl : public Algorithm {
 public:
  explicit AdaFl(const AdaFlConfig& config);

  RoundResult round(const RoundInput& input) override;
  Variant variant() const override { return now_; }
  std::map<std::string, at::Tensor> state() const override;
  void restore(const std::map<std::string, at::Tensor>& state) override;

 private:
  /// One group's progress in the present trial.
  struct Group {
    Variant variant = {};
    at::Tensor model = {};  // [P]
    double seconds = 0;     // used up
    double longest = 0;     // round so far
    double rounds = 0;
    bool done = false;
  };

  Configurator configurator(const Variants& variants) const;
  void begin_trial(const RoundInput& input, const Configurator& configurator);
  RoundResult train(const RoundInput& input, Group& group, std::vector<Member> cohort) const;
  void end_trial(const RoundInput& input, Configurator configurator, RoundResult& result);
  double clock() const;

  AdaFlConfig config_;
  Variant now_;
  std::array<Group, 3> groups_;
  bool in_trial_ = false;
  double trials_ = 0;
};

}  // namespace chorus::inline adafl
