#include "algorithm/central_dp/correlated_noise.h"

#include <ATen/ATen.h>

#include <cmath>
#include <deque>
#include <map>

#include "core/base/error.h"

namespace chorus::inline central_dp {

BltParameters blt_parameters(std::int64_t buffers, std::int64_t steps) {
  check(buffers >= 1 && steps >= 1, "a BLT matrix has buffers and steps");
  // Where the integrand x^(3/2) (1-x)^(1/2) matters: from small x to decays that hardly forget within `steps`.
  const double low = -2, high = std::log(400.0 * static_cast<double>(steps));
  const double width = buffers > 1 ? (high - low) / static_cast<double>(buffers - 1) : high - low;
  BltParameters result;
  for (std::int64_t i = 0; i < buffers; ++i) {
    const double v = buffers > 1 ? low + width * static_cast<double>(i) : std::log(static_cast<double>(steps) + 1);
    const double x = 1 / (1 + std::exp(-v));
    result.weights.push_back(width / M_PI * std::pow(x, 1.5) * std::sqrt(1 - x));
    result.decays.push_back(x);
  }
  // The second coefficient is 1/2, exactly.
  double sum = 0;
  for (const double w : result.weights) sum += w;
  for (double& w : result.weights) w *= 0.5 / sum;
  return result;
}

double matrix_sensitivity(const MatrixConfig& config, const Participation& participation) {
  if (config.kind == MatrixKind::kTree) return tree_sensitivity(participation);
  if (config.kind == MatrixKind::kBanded) {
    return toeplitz_sensitivity(square_root_coefficients(std::min(config.bands, participation.steps)), participation);
  }
  const BltParameters blt = blt_parameters(config.buffers, participation.steps);
  return toeplitz_sensitivity(blt_coefficients(blt.weights, blt.decays, participation.steps), participation);
}

class CorrelatedSums::Method {
 public:
  virtual ~Method() = default;
  virtual at::Tensor release(const at::Tensor& sum, Draw draw) = 0;
};

// Node (level, index) has the noise of 2^level steps; a prefix is a handful of nodes.
class CorrelatedSums::Tree final : public Method {
 public:
  at::Tensor release(const at::Tensor& sum, Draw draw) override {
    ++step_;
    const at::Tensor blurred = sum.clone();
    // noise(prefix t) - noise(prefix t-1): the node that ends at t, minus those that it replaces.
    int level = 0;
    for (; (step_ >> level) % 2 == 0; ++level) {
      blurred.sub_(nodes_.at(level));
      nodes_.erase(level);
    }
    const at::Tensor fresh = draw(sum.size(0)).to(sum.device());
    blurred.add_(fresh);
    nodes_[level] = fresh;
    return blurred.to(at::kDouble);
  }

 private:
  std::int64_t step_ = 0;
  std::map<int, at::Tensor> nodes_;  // of the present prefix, by level
};

class CorrelatedSums::Banded final : public Method {
 public:
  explicit Banded(std::vector<double> coefficients) : coefficients_(std::move(coefficients)) {}

  at::Tensor release(const at::Tensor& sum, Draw draw) override {
    const at::Tensor exact = sum.to(at::kDouble);
    at::Tensor row = exact.clone();
    for (std::size_t j = 0; j < past_.size(); ++j) row.add_(past_[j], coefficients_[j + 1]);
    at::Tensor released = row.trunc_().add_(draw(sum.size(0)).to(sum.device()).to(at::kDouble));
    for (std::size_t j = 0; j < released_.size(); ++j) released.sub_(released_[j], coefficients_[j + 1]);
    remember(past_, exact);
    remember(released_, released);
    return released.clone();
  }

 private:
  void remember(std::deque<at::Tensor>& list, const at::Tensor& x) const {
    list.push_front(x);
    if (list.size() >= coefficients_.size()) list.pop_back();
  }

  std::vector<double> coefficients_;
  std::deque<at::Tensor> past_, released_;
};

class CorrelatedSums::Blt final : public Method {
 public:
  explicit Blt(BltParameters parameters) : parameters_(std::move(parameters)) {}

  at::Tensor release(const at::Tensor& sum, Draw draw) override {
    const at::Tensor exact = sum.to(at::kDouble);
    if (past_.empty()) {
      for (std::size_t i = 0; i < parameters_.weights.size(); ++i) {
        past_.push_back(at::zeros_like(exact));
        released_.push_back(at::zeros_like(exact));
      }
    }
    at::Tensor row = exact.clone();
    for (std::size_t i = 0; i < past_.size(); ++i) row.add_(past_[i], parameters_.weights[i]);
    at::Tensor result = row.trunc_().add_(draw(sum.size(0)).to(sum.device()).to(at::kDouble));
    for (std::size_t i = 0; i < past_.size(); ++i) result.sub_(released_[i], parameters_.weights[i]);
    for (std::size_t i = 0; i < past_.size(); ++i) {
      past_[i].mul_(parameters_.decays[i]).add_(exact);
      released_[i].mul_(parameters_.decays[i]).add_(result);
    }
    return result;
  }

 private:
  BltParameters parameters_;
  std::vector<at::Tensor> past_, released_;  // sum_j d^(j-1) x_(t-j)
};

CorrelatedSums::CorrelatedSums(const MatrixConfig& config, std::int64_t steps) : steps_(steps) {
  if (config.kind == MatrixKind::kTree) {
    method_ = std::make_unique<Tree>();
  } else if (config.kind == MatrixKind::kBanded) {
    method_ = std::make_unique<Banded>(square_root_coefficients(std::min(config.bands, steps)));
  } else {
    method_ = std::make_unique<Blt>(blt_parameters(config.buffers, steps));
  }
}

CorrelatedSums::~CorrelatedSums() = default;

at::Tensor CorrelatedSums::release(const at::Tensor& sum, Draw draw) {
  check(++done_ <= steps_, "more sums than the mechanism was made for");
  check(sum.scalar_type() == at::kLong && sum.dim() == 1, "sums are integers on a grid");
  return method_->release(sum, draw);
}

}  // namespace chorus::inline central_dp
