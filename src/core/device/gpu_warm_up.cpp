#include "core/device/gpu_warm_up.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>

#include "core/console/log.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline device {
namespace {

constexpr unsigned kMostCompilers = 12;

void quietly(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    Log("gpu").debug("warming up: {}", error.what());
  }
}

// Creates the context, and cuBLAS with the kernels for small matmuls. LibTorch passes the handle on to other threads.
void start_libraries(at::Device device) {
  const TorchThreads one(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor x = at::ones({2, 64, 64}, at::TensorOptions(device).dtype(type));
    (void)at::bmm(x, x).sum().item<float>();
    (void)at::mm(x[0], x[1]).sum().item<float>();
  }
}

}  // namespace

std::vector<GpuWarmUp::Job> GpuWarmUp::jobs(const KernelValues& values) {
  std::vector<const KernelFamily*> families;
  for (const AnyGpuKernel* kernel : AnyGpuKernel::all()) {
    if (std::find(families.begin(), families.end(), &kernel->family()) == families.end())
      families.push_back(&kernel->family());
  }
  std::vector<std::pair<std::size_t, Job>> ranked;
  for (const KernelFamily* family : families) {
    std::size_t rank = 0;
    for (std::string& defines : family->variants(values)) ranked.push_back({rank++, {family, std::move(defines)}});
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Job> result;
  for (auto& entry : ranked) result.push_back(std::move(entry.second));
  return result;
}

GpuWarmUp::GpuWarmUp(at::Device device, const KernelValues& values) {
  if (!device.is_cuda()) return;
  struct Queue {
    std::vector<Job> jobs;
    std::atomic<std::size_t> next{0};
  };
  const auto queue = std::make_shared<Queue>();
  queue->jobs = jobs(values);
  const int index = device.has_index() ? device.index() : 0;
  threads_.emplace_back([device] { quietly([&] { start_libraries(device); }); });
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::size_t compilers = std::min<std::size_t>(queue->jobs.size(), std::min(cores, kMostCompilers));
  for (std::size_t i = 0; i < compilers; ++i) {
    threads_.emplace_back([queue, index] {
      for (std::size_t job = queue->next++; job < queue->jobs.size(); job = queue->next++) {
        quietly([&] { queue->jobs[job].family->load(queue->jobs[job].defines, index); });
      }
    });
  }
}

GpuWarmUp::~GpuWarmUp() {
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace chorus::inline device
