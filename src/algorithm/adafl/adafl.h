#pragma once

#include <array>
#include <vector>

#include "algorithm/adafl/configurator.h"
#include "core/config/config_visitor.h"
#include "core/ports/algorithm.h"

namespace chorus::inline adafl {

/// AdaFL (Cai et al. 2023): adapters that grow during training. The round's clients are split into three groups, which
/// run FedAvg with the current configuration, a deeper one and a wider one. A group that has used up the trial interval
/// of emulated time waits for the others. Then the server scores the three models and all groups continue from the
/// best; added parts start from their initial values. Fast configurations complete more rounds in the same time.
///
/// Needs a tuning that can grow (pfeiffer, houlsby, lora, prefix), whose width and depth are the upper limits, and
/// `emulation`, whose clock measures the trials. During a trial, evaluations use the model of the current
/// configuration. The clock of the run is that of the slowest group.
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
  /// One group's progress in the current trial.
  struct Group {
    Variant variant = {};
    at::Tensor model = {};  // [P]
    double seconds = 0;     // used so far
    double longest = 0;     // longest round so far
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
