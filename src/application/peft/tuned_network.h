#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "application/peft/tuning.h"
#include "core/ports/variants.h"

namespace chorus::inline peft {

/// A network with a tuning attached, and its smaller variants: each a Model of its own over the same frozen weights.
/// Variants are made when they are first asked for. Where all of a transformer trains, a variant is a smaller network
/// (sub_network.h): the first `depth` layers, with feed-forward sublayers `width` wide.
///
///     TunedNetwork network(std::move(model), std::move(params), tuning);       // the whole
///     const TunedNetwork::Part& part = network.part({.depth = 2, .width = 8});
class TunedNetwork : public Variants {
 public:
  /// One variant; `params` (C = 1) has the whole's values where the variant has them, and the whole's frozen vector.
  struct Part {
    const Model& model;
    const Params& params;
  };

  TunedNetwork(std::unique_ptr<Model> model, Params params, std::shared_ptr<const Tuning> tuning);

  const Model& model() const { return *model_; }
  const Params& params() const { return params_; }
  const Tuning& tuning() const { return *tuning_; }

  Part part(const Variant& variant) const;

  Variant whole() const override { return whole_; }
  int unit() const override { return tuning_->unit(); }
  at::Tensor places(const Variant& variant) const override;
  std::vector<LowRankPair> low_rank_pairs() const override;

 private:
  struct Made {
    std::unique_ptr<Model> model;
    Params params;
    at::Tensor places;
  };
  const Made& made(const Variant& variant) const;
  Variant full_of(const Variant& variant) const;
  Made sub_network(const Variant& wanted) const;

  std::unique_ptr<Model> model_;
  Params params_;
  std::shared_ptr<const Tuning> tuning_;
  Variant whole_;
  bool resizable_ = false;  // all of it trains, and it can be made smaller
  mutable std::mutex mutex_;
  mutable std::map<Variant, Made> made_;
};

/// Where the numbers that train in `part` lie among those that train in `whole`: int64. A tensor that is smaller in the
/// part is the leading block of the whole's. InternalError when the part trains something the whole does not.
at::Tensor places_of(const Layout& part, const Layout& whole);

}  // namespace chorus::inline peft
