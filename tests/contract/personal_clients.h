#pragma once

#include <torch/types.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/contract/quadratic_clients.h"

/// The clients of tests/golden/make_personal_rounds.py, and its values.
namespace chorus::inline contract {

inline std::vector<quadratic::Client> three_unequal() {
  return {{.curvature = 0.5, .target = -1.0, .steps = 1, .examples = 10},
          {.curvature = 1.0, .target = 0.5, .steps = 3, .examples = 20},
          {.curvature = 2.0, .target = 2.0, .steps = 5, .examples = 70}};
}

inline at::Tensor centre_of(double target) { return torch::arange(4, at::kFloat) / 10 + target; }

inline bool about_equal(const at::Tensor& a, const at::Tensor& b, double tolerance = 3e-6) {
  return torch::allclose(a, b, tolerance, tolerance);
}

inline at::Tensor vector_of(const nlohmann::json& numbers) {
  return torch::tensor(numbers.get<std::vector<double>>(), at::kDouble).to(at::kFloat);
}

inline nlohmann::json golden_rounds() {
  std::ifstream file(CHORUS_SOURCE_DIR "/tests/golden/personal_rounds.json");
  return nlohmann::json::parse(file);
}

}  // namespace chorus::inline contract
