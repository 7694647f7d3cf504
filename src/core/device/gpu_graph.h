#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace chorus::inline device {

/// A CUDA graph: GPU work that is recorded once and then launched as a whole. A training step is hundreds of small
/// kernels, and launching them one by one can take longer than running them.
///
///     GpuGraph graph(memory);
///     if (graph.record([&] { y = f(x); })) {       // nothing has run yet
///       x.copy_(next);
///       graph.launch();                            // y is f(next)
///     }
///
/// A recording refers to addresses, not to tensors: its inputs and results (y) must stay where they are.
class GpuGraph {
 public:
  /// Memory for intermediate results. Shared by graphs that are launched one after the other.
  class Memory {
   public:
    explicit Memory(at::Device device);
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

   private:
    friend class GpuGraph;
    struct Pool;
    std::unique_ptr<Pool> pool_;
  };

  explicit GpuGraph(std::shared_ptr<Memory> memory);
  GpuGraph(const GpuGraph&) = delete;
  GpuGraph& operator=(const GpuGraph&) = delete;
  ~GpuGraph();

  /// Whether work on this device can be recorded: it is a GPU, the build has CUDA, and fast kernels are on (kernels.h).
  static bool works_on(at::Device device);
  /// Whether this thread is recording. Kernels are then not run, and values from host memory must not be used.
  static bool recording();

  /// False if the work cannot be recorded because it waits for the GPU or copies values to it; run it as usual then.
  /// Throws only if memory runs out.
  bool record(const std::function<void()>& work);
  /// Runs the recording on the current stream.
  void launch() const;

 private:
  struct Recorded;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace chorus::inline device
