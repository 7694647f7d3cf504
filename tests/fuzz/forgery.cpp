#include "tests/fuzz/forgery.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace chorus::inline fuzz {
namespace {

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong, at::kByte};
constexpr std::array kFields{"update",      "model",   "predictions", "gradient", "control", "control_change",
                             "activations", "variant", "metric.rows", "answers",  "rows",    "targets"};

double strange_number(Dice& dice) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::array numbers{std::nan(""), kInf, -kInf, -1.0, 0.0, 0.5, 1.0, 2.0, 3.7, 1e5, 1e9, 9.3e18, 1e300, -1e300};
  return numbers[dice.below(numbers.size())];
}

template <typename Map>
auto pick(Map& fields, Dice& dice) {
  auto found = fields.begin();
  std::advance(found, static_cast<std::ptrdiff_t>(dice.below(fields.size())));
  return found;
}

at::Tensor forged(const at::Tensor& given, Dice& dice) {
  const at::Tensor tensor = given.detach().cpu().contiguous().clone();
  switch (dice.below(9)) {
    case 0:
      return tensor.to(kTypes[dice.below(kTypes.size())]);
    case 1:
      return tensor.reshape({-1});
    case 2:
      return tensor.unsqueeze(0);
    case 3:
      return tensor.reshape({-1, 1});
    case 4: {
      const at::Tensor flat = tensor.reshape({-1});
      return flat.narrow(0, 0, static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(flat.numel()) + 1)))
          .clone();
    }
    case 5: {
      const at::Tensor flat = tensor.reshape({-1});
      return at::cat({flat, at::zeros({1 + static_cast<std::int64_t>(dice.below(300))}, flat.options())});
    }
    case 6:
      return at::zeros({static_cast<std::int64_t>(dice.below(3)), static_cast<std::int64_t>(dice.below(3))},
                       tensor.options());
    case 7: {  // some of its bytes
      auto* bytes = static_cast<std::uint8_t*>(tensor.data_ptr());
      for (std::size_t i = 1 + dice.below(8); i > 0 && tensor.nbytes() > 0; --i) {
        bytes[dice.below(std::min<std::size_t>(tensor.nbytes(), 65536))] = dice.byte();
      }
      return tensor;
    }
    default:
      if (tensor.numel() > 0) {
        const auto index = static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(tensor.numel())));
        double value = strange_number(dice);
        const double most = tensor.scalar_type() == at::kDouble ? 1e300
                            : tensor.scalar_type() == at::kHalf ? 6e4
                                                                : 3e38;
        if (std::isfinite(value)) value = std::clamp(value, -most, most);
        const double least = tensor.scalar_type() == at::kByte ? 0 : -100;
        const bool fits = tensor.is_floating_point() || (value >= least && value < 100);
        tensor.reshape({-1})[index] = fits ? value : 7.0;
      }
      return tensor;
  }
}

}  // namespace

void forge(Message& message, Dice& dice) {
  switch (dice.below(8)) {
    case 0:
      if (!message.tensors.empty()) message.tensors.erase(pick(message.tensors, dice));
      break;
    case 1:
      if (!message.tensors.empty()) {
        const auto found = pick(message.tensors, dice);
        message.tensors[kFields[dice.below(kFields.size())]] = found->second;
      }
      break;
    case 2:
      if (!message.numbers.empty()) message.numbers.erase(pick(message.numbers, dice));
      break;
    case 3:
    case 4:
      if (!message.numbers.empty()) pick(message.numbers, dice)->second = strange_number(dice);
      break;
    case 5:
      if (!message.texts.empty()) pick(message.texts, dice)->second = dice.text(12);
      break;
    default:
      if (!message.tensors.empty()) {
        const auto found = pick(message.tensors, dice);
        found->second = forged(found->second, dice);
      }
  }
}

}  // namespace chorus::inline fuzz
