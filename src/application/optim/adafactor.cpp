#include "application/optim/adafactor.h"

#include <torch/types.h>

#include <cmath>

namespace chorus::inline optim {
namespace {

// The last two dimensions are factored, the others are a batch, as in the original.
bool factored(const ParamSpec& spec) { return spec.shape.size() >= 2; }

// Mean square of each client's slice, [A, 1, ...], of the rank of `x`.
at::Tensor root_mean_square(const at::Tensor& x) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d < x.dim(); ++d) all.push_back(d);
  return x.square().mean(all, true).sqrt();
}

}  // namespace

void AdafactorConfig::describe(ConfigVisitor& visitor) {
  visitor.field("decay_rate", decay_rate, "exponent of the second moment's decay, 1 - step^decay_rate").below(0);
  visitor.field("clip_threshold", clip_threshold, "the root mean square an update may have").above(0);
  visitor.field("epsilon1", epsilon1, "added to squared gradients").above(0);
  visitor.field("epsilon2", epsilon2, "the least scale of a parameter, with scale_parameter").above(0);
  visitor.field("scale_parameter", scale_parameter, "the learning rate is in units of the parameter's size");
}

Adafactor::Adafactor(const AdafactorConfig& config, const OptimizerInput& input) : Optimizer(input), config_(config) {
  std::int64_t size = 0;
  for (const ParamSpec& spec : input.layout->specs()) {
    Place place{size, -1};
    if (spec.trainable && factored(spec)) {
      size += spec.count / spec.shape.back();
      place.column = size;
      size += spec.count / spec.shape[spec.shape.size() - 2];
    } else if (spec.trainable) {
      size += spec.count;
    }
    places_.push_back(place);
  }
  statistics_ = buffer("statistics", size);
}

void Adafactor::update(const Rows& rows) {
  std::vector<double> keep, gain;
  for (const double step : steps(rows.count)) {
    keep.push_back(1 - std::pow(step, config_.decay_rate));
    gain.push_back(std::pow(step, config_.decay_rate));
  }
  const at::Tensor kept = column(keep), gained = column(gain), rates = column(rows.rates);
  const at::Tensor statistics = statistics_.narrow(0, 0, rows.count);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ParamSpec& spec = input().layout->specs()[i];
    if (!spec.trainable) continue;
    std::vector<std::int64_t> shape{rows.count};
    shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
    if (spec.shape.empty()) shape.push_back(1);
    const at::Tensor values = rows.values.narrow(1, spec.offset, spec.count);
    const at::Tensor gradient = rows.gradients.narrow(1, spec.offset, spec.count).reshape(shape);
    const at::Tensor square = gradient.square().add_(config_.epsilon1);
    const auto moving = [&](std::int64_t begin, const at::Tensor& now) {
      const at::Tensor mean = statistics.narrow(1, begin, now.numel() / rows.count);
      mean.mul_(kept).add_(now.reshape({rows.count, -1}).mul(gained));
      return mean.reshape(now.sizes());
    };
    at::Tensor update;
    if (places_[i].column >= 0) {
      const at::Tensor row = moving(places_[i].row, square.mean(-1));
      const at::Tensor col = moving(places_[i].column, square.mean(-2));
      const at::Tensor row_factor = row.div(row.mean(-1, true)).rsqrt_().unsqueeze(-1);
      update = gradient * row_factor * col.rsqrt().unsqueeze(-2);
    } else {
      update = gradient * moving(places_[i].row, square).rsqrt();
    }
    update.div_(root_mean_square(update).div_(config_.clip_threshold).clamp_min_(1.0));
    at::Tensor rate = rates;
    if (config_.scale_parameter) {
      rate = root_mean_square(values.reshape(shape)).reshape({rows.count, 1}).clamp_min_(config_.epsilon2) * rates;
    }
    update = update.reshape({rows.count, -1}).mul_(rate);
    if (input().weight_decay > 0 && (spec.shape.size() > 1 || !input().decay_matrices_only)) {
      values.add_(values * rate, -input().weight_decay);
    }
    values.sub_(update);
  }
}

namespace {

const Registration<Optimizers, AdafactorConfig> kRegisteredAdafactor{
    "adafactor", "Adafactor: second moments as rows and columns (Shazeer and Stern 2018)",
    [](const AdafactorConfig& config, const OptimizerInput& input) {
      return std::make_unique<Adafactor>(config, input);
    }};

}  // namespace
}  // namespace chorus::inline optim
