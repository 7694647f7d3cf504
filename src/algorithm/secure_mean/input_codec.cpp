#include "algorithm/secure_mean/input_codec.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr std::size_t kFacts = 6;
constexpr double kMostLoss = 32;

ScaleSettings settings_of(const SumPlan& plan, bool equal) {
  ScaleSettings settings = plan.scale;
  settings.checksum = plan.protocol != SumProtocol::kLightSecAgg;
  settings.capacity = plan.capacity();
  if (equal) settings.most_weight = 1;
  return settings;
}

/// `count` positions of `size`, drawn without replacement, ascending.
at::Tensor drawn_positions(const SumPlan& plan, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(plan.size));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  RandomStream stream({.seed = plan.seed, .purpose = "secure random-k", .round = plan.round});
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::swap(all[i], all[i + stream.below(all.size() - i)]);
  }
  std::sort(all.begin(), all.begin() + count);
  at::Tensor positions = at::empty({count}, at::kLong);
  std::copy_n(all.begin(), count, positions.data_ptr<std::int64_t>());
  return positions;
}

double fact(const Message& reply, const char* name, double fallback) {
  const double value = reply.number(name, fallback);
  return std::isfinite(value) && value >= 0 ? value : 0;
}

}  // namespace

InputCodec::InputCodec(const SumPlan& plan)
    : size_(plan.size),
      clients_(plan.scale.clients),
      values_(static_cast<std::size_t>(plan.size)),
      ring_bits_(plan.ring_bits()),
      capacity_(plan.capacity()),
      most_weight_(plan.scale.most_weight),
      seed_(plan.seed),
      round_(plan.round),
      clip_(plan.scale.clip) {
  if (plan.keep < 1) {
    values_ = static_cast<std::size_t>(std::max(1.0, std::ceil(plan.keep * static_cast<double>(plan.size))));
    positions_ = drawn_positions(plan, static_cast<std::int64_t>(values_));
  }
  if (plan.noise.on()) {
    noisy_.emplace(plan.noise, NoisyScale::Shape{.ring_bits = ring_bits_,
                                                 .capacity = capacity_,
                                                 .values = values_,
                                                 .checksum = plan.protocol != SumProtocol::kLightSecAgg,
                                                 .seed = plan.seed,
                                                 .round = plan.round});
    return;
  }
  for (const AggregatedTensor& tensor : plan.tensors) {
    equal_.push_back(tensor.equal);
    scales_.emplace_back(settings_of(plan, tensor.equal), ring_bits_, values_, plan.seed);
  }
}

std::size_t InputCodec::length() const {
  if (noisy_) return noisy_->length();
  std::size_t length = kFacts;
  for (const CommonScale& scale : scales_) length += scale.length();
  return length;
}

double InputCodec::most_fact() const {
  return std::floor((std::exp2(std::min(capacity_, 53U) - 1) - 1) / static_cast<double>(clients_));
}

double InputCodec::loss_levels() const {
  return std::max(1.0, std::floor(most_fact() / static_cast<double>(most_weight_)));
}

Result<RingVector> InputCodec::encode(const std::vector<at::Tensor>& tensors, const WorkFacts& facts,
                                      ClientId client) const {
  if (noisy_) {
    const at::Tensor values = tensors.at(0).to(at::kCPU, at::kFloat).contiguous();
    check(values.numel() == size_, "a tensor of another size");
    return noisy_->encode({values.data_ptr<float>(), values_});
  }
  check(tensors.size() == scales_.size(), "one tensor for each of the plan");
  const auto weight =
      static_cast<std::uint64_t>(std::clamp(std::round(facts.weight), 1.0, static_cast<double>(most_weight_)));
  StreamKey key{.seed = seed_, .purpose = "secure rounding", .round = round_, .client = client};
  RingVector input(ring_bits_, length());
  std::size_t begin = 0;
  double cut = 0, shrunk = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor values = tensors[i].to(at::kCPU, at::kFloat).contiguous();
    check(values.numel() == size_, "a tensor of another size");
    if (positions_.defined()) values = values.index_select(0, positions_);
    const std::span<const float> span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel()));
    const double factor = scales_[i].shrink(span);
    shrunk += factor < 1 ? 1 : 0;
    cut += static_cast<double>(std::count_if(span.begin(), span.end(), [this, factor](float x) {
      return std::abs(factor * static_cast<double>(x)) > clip_;
    }));
    key.step = i;
    auto part = scales_[i].encode(span, equal_[i] ? 1 : weight, key);
    if (!part) return part.failure();
    input.place(begin, part.value());
    begin += scales_[i].length();
  }
  key.step = tensors.size();
  RandomStream stream(key);
  const double most = most_fact();
  const auto whole = [&](double value) { return static_cast<std::uint64_t>(std::clamp(std::floor(value), 0.0, most)); };
  input.set(begin++, whole(facts.examples));
  input.set(begin++, whole(facts.steps));
  input.set(begin++, whole(1000 * facts.seconds));
  input.set(begin++, whole(cut));
  input.set(begin++, whole(shrunk));
  const double levels =
      std::floor(std::clamp(facts.loss / kMostLoss, 0.0, 1.0) * (loss_levels() - 1) + stream.uniform());
  input.set(begin, static_cast<std::uint64_t>(levels) * weight);
  return input;
}

Result<InputCodec::Sums> InputCodec::decode(const RingVector& sum, std::size_t clients) const {
  check(sum.size() == length(), "a sum of another plan");
  Sums sums;
  if (noisy_) {
    auto mean = noisy_->decode(sum, clients);
    if (!mean) return mean.failure();
    sums.means.push_back(at::empty({size_}, at::kFloat));
    std::memcpy(sums.means[0].data_ptr<float>(), mean.value().data(), values_ * sizeof(float));
    sums.facts.weight = static_cast<double>(clients);
    sums.facts.loss = std::nan("");  // clients keep it to themselves
    return sums;
  }
  std::size_t begin = 0;
  double weight = static_cast<double>(clients);
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const RingVector part = sum.part(begin, scales_[i].length());
    auto mean = scales_[i].decode(part, clients);
    if (!mean) return mean.failure();
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(values_)}, at::kFloat);
    std::memcpy(tensor.data_ptr<float>(), mean.value().data(), values_ * sizeof(float));
    if (positions_.defined()) tensor = at::zeros({size_}, at::kFloat).index_copy_(0, positions_, tensor);
    sums.means.push_back(std::move(tensor));
    if (!equal_[i]) weight = static_cast<double>(scales_[i].weight_of(part));
    begin += scales_[i].length();
  }
  std::vector<double> facts;
  for (std::size_t i = 0; i < kFacts; ++i) facts.push_back(static_cast<double>(sum.at(begin + i)));
  const double most = most_fact() * static_cast<double>(clients);
  if (std::any_of(facts.begin(), facts.end(), [&](double value) { return value > most; })) {
    return Failure{Failure::Kind::kMalformed, "a count of the secure sum is out of range"};
  }
  sums.facts.weight = weight;
  sums.facts.examples = facts[0];
  sums.facts.steps = facts[1];
  sums.facts.seconds = facts[2] / 1000;
  const auto updates = static_cast<double>(clients * scales_.size());
  sums.cut = facts[3] / (updates * static_cast<double>(values_));
  sums.shrunk = facts[4] / updates;
  sums.facts.loss = kMostLoss * facts[5] / (std::max(loss_levels() - 1, 1.0) * weight);
  return sums;
}

WorkFacts facts_of(const Message& reply, Weighting weighting) {
  const double examples = reply.number("examples");
  if (!(examples > 0) || !std::isfinite(examples)) throw DataError("its examples should be a positive number");
  if (!std::isfinite(reply.number("loss", 0))) throw DataError("its loss is not a number");
  WorkFacts facts;
  facts.examples = examples;
  facts.steps = fact(reply, "steps", 1);
  facts.seconds = fact(reply, "seconds", 0);
  facts.loss = fact(reply, "loss", 0);
  if (weighting == Weighting::kExamples) facts.weight = examples;
  if (weighting == Weighting::kBatches) facts.weight = std::max(1.0, fact(reply, "batches", examples));
  return facts;
}

}  // namespace chorus::inline secure_mean
