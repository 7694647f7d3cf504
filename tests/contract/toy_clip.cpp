// A filter that clips updates to a norm, and one that masks them: what differential privacy and secure aggregation need
// from the stages kTransform and kMask. One pair each, registered, without changes elsewhere.
#include <cmath>

#include "core/ports/filter.h"

namespace chorus::toy {
namespace {

struct ClipConfig {
  double norm = 1;  ///< the largest L2 norm of a tensor

  void describe(ConfigVisitor& visitor) { visitor.field("norm", norm, "largest L2 norm").above(0); }
};

class Clip : public Filter {
 public:
  explicit Clip(const ClipConfig& config) : config_(config) {}
  Stage stage() const override { return Stage::kTransform; }
  Numbers transform(std::span<const float> values, const FilterContext&) const override {
    double squares = 0;
    for (const float value : values) squares += static_cast<double>(value) * value;
    const double scale = std::min(1.0, config_.norm / std::max(std::sqrt(squares), 1e-30));
    Numbers result(values.begin(), values.end());
    for (float& value : result) value = static_cast<float>(value * scale);
    return result;
  }

 private:
  ClipConfig config_;
};

class Mask : public Filter {
 public:
  Stage stage() const override { return Stage::kMask; }
  void mask(std::span<std::byte> bytes, const FilterContext& context) const override {
    RandomStream stream(context.key);
    for (std::byte& byte : bytes) byte ^= static_cast<std::byte>(stream.below(256));
  }
  void unmask(std::span<std::byte> bytes, const FilterContext& context) const override { mask(bytes, context); }
};

const Registration<Filters, ClipConfig> kClip{"toy_clip", "clips to a norm",
                                              [](const ClipConfig& config) { return std::make_unique<Clip>(config); }};
const Registration<Filters> kMask{"toy_mask", "masks bytes by a key", [] { return std::make_unique<Mask>(); }};

}  // namespace
}  // namespace chorus::toy
