#include "application/trainer/curvature.h"

#include <fmt/format.h>
#include <torch/autograd.h>

#include "core/base/error.h"
#include "core/device/second_order.h"
#include "core/tensor/flat_views.h"

namespace chorus::inline trainer {
namespace {

// Every trainable parameter, in the layout's order.
template <typename Visit>
void each_trainable(const Layout& layout, const Visit& visit) {
  for (std::size_t i = 0; i < layout.specs().size(); ++i) {
    if (layout.specs()[i].trainable) visit(ParamId{static_cast<int>(i)}, layout.specs()[i]);
  }
}

}  // namespace

at::Tensor hessian_times(const TrainerInput& trainer, const at::Tensor& values, const at::Tensor& direction,
                         Reading reading) {
  const SecondOrder second_order;
  const at::AutoGradMode with_gradients(true);
  const Params params = Params::views_of_start(trainer.base, values.size(0), values, false);
  const Layout& layout = params.layout();
  torch::autograd::variable_list leaves;
  std::vector<at::Tensor> directions;
  each_trainable(layout, [&](ParamId id, const ParamSpec& spec) {
    leaves.push_back(at::Tensor(params[id]).set_requires_grad(true));
    directions.push_back(view_of(direction, spec));
  });
  at::Tensor result = torch::zeros_like(values);
  try {
    const Output output = trainer.model.answer(params, reading.batch.batch, reading.dropout);  // as a probe does
    const at::Tensor loss = trainer.task.loss(output, reading.batch).sum();
    const auto gradients = torch::autograd::grad({loss}, leaves, {}, true, true, true);
    at::Tensor along = torch::zeros({}, values.options());
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (gradients[i].defined()) along = along + (gradients[i] * directions[i]).sum();
    }
    if (!along.requires_grad()) return result;
    const auto products = torch::autograd::grad({along}, leaves, {}, false, false, true);
    std::size_t next = 0;
    each_trainable(layout, [&](ParamId, const ParamSpec& spec) {
      if (const at::Tensor& product = products[next++]; product.defined()) view_of(result, spec).copy_(product);
    });
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    if (what.find("differentia") == std::string::npos && what.find("derivative") == std::string::npos) throw;
    throw ConfigError(fmt::format("this network cannot be differentiated twice ({}); use hessian: free or first_order",
                                  what.substr(0, what.find('\n'))));
  }
  return result;
}

}  // namespace chorus::inline trainer
