// Speed of aggregation: the weighted mean of many updates, compared with a parallel copy of the same memory.
//
//     build/aggregation [--updates 100] [--size 110000000] [--threads 2] [--device cpu|cuda] [--tries 3]
//
// Prints one JSON object: `bytes_per_second` of updates read and `copy_bytes_per_second` (read and written), the best
// of the tries. Four update buffers are reused to save memory; the mean is checked.

#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/cuda.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithm/federated/weighted_mean.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline bench {
namespace {

constexpr std::int64_t kBuffers = 4;

struct Request {
  std::int64_t updates = 100, size = 110'000'000;
  int threads = 2, tries = 3;
  std::string device = "cpu";
};

double best_seconds(const Request& request, const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  const auto synchronize = [&] {
    if (request.device == "cuda") torch::cuda::synchronize();
  };
  for (int i = 0; i < request.tries; ++i) {
    synchronize();
    const auto begin = std::chrono::steady_clock::now();
    work();
    synchronize();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

int measure(const Request& request) {
  prepare_torch();  // as in every run: tensors use large pages
  at::set_num_threads(request.threads);
  const auto device = request.device == "cuda" ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  std::vector<at::Tensor> buffers;
  for (std::int64_t i = 0; i < kBuffers; ++i) {
    buffers.push_back(at::full({request.size}, static_cast<double>(i), at::device(device).dtype(at::kFloat)));
  }
  double expected = 0, total = 0;
  for (std::int64_t i = 0; i < request.updates; ++i) {
    expected += static_cast<double>((i + 1) * (i % kBuffers));
    total += static_cast<double>(i + 1);
  }
  double result = 0;
  const double seconds = best_seconds(request, [&] {
    WeightedMean mean(static_cast<std::size_t>(request.updates));
    for (std::int64_t i = 0; i < request.updates; ++i) {
      mean.add(static_cast<std::size_t>(i), static_cast<double>(i + 1),
               buffers[static_cast<std::size_t>(i % kBuffers)]);
    }
    result = mean.result()[0].item<double>();
  });
  if (std::abs(result - expected / total) > 1e-3) {
    std::cerr << "aggregation: the mean is " << result << " instead of " << expected / total << "\n";
    return 1;
  }
  at::Tensor copy = at::empty_like(buffers[0]);
  const double copying = best_seconds(request, [&] {
    for (const at::Tensor& buffer : buffers) copy.copy_(buffer);
  });
  const double bytes = 4.0 * static_cast<double>(request.size);
  const nlohmann::json report{{"updates", request.updates},
                              {"size", request.size},
                              {"threads", request.threads},
                              {"device", request.device},
                              {"seconds", seconds},
                              {"bytes_per_second", bytes * static_cast<double>(request.updates) / seconds},
                              {"copy_bytes_per_second", 2 * bytes * kBuffers / copying}};
  std::cout << report.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus::inline bench

int main(int argc, char** argv) {
  chorus::Request request;
  CLI::App app("The weighted mean of many updates, beside a copy of the same memory");
  const auto positive = CLI::Range(1, std::numeric_limits<int>::max());
  app.add_option("--updates", request.updates, "how many updates")->capture_default_str()->check(positive);
  app.add_option("--size", request.size, "float32 numbers of an update")->capture_default_str()->check(positive);
  app.add_option("--threads", request.threads)->capture_default_str()->check(positive);
  app.add_option("--tries", request.tries)->capture_default_str()->check(positive);
  app.add_option("--device", request.device)->capture_default_str()->check(CLI::IsMember({"cpu", "cuda"}));
  CLI11_PARSE(app, argc, argv);
  if (request.device == "cuda" && !torch::cuda::is_available()) {
    std::cerr << "aggregation: this machine has no usable GPU, or LibTorch was built without CUDA\n";
    return 2;
  }
  return chorus::measure(request);
}
