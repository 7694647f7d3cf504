#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace chorus::inline device {

/// Work of a GPU that is recorded once and then launched as one. A step of training is hundreds of small kernels, and
/// asking for them one by one can take longer than they run.
///
///     GpuGraph graph(memory);
///     if (graph.record([&] { y = f(x); })) {       // nothing has run yet
///       x.copy_(next);
///       graph.launch();                            // y is f(next)
///     }
///
/// A recording knows places, not tensors: what the work reads must stay where it is, and so must what it made (y).
class GpuGraph {
 public:
  /// Where recorded work keeps what it computes on the way. Shared by graphs that are launched one after the other.
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

  /// Whether work of this device can be recorded: it is a GPU, this program was built with CUDA, and fast ways are
  /// wanted (kernels.h).
  static bool works_on(at::Device device);
  /// Whether this thread is recording: what it asks for does not run now, and numbers of this machine's memory must not
  /// enter.
  static bool recording();

  /// False when the work cannot be recorded, because it waits for the GPU or sends numbers to it; it can be done as
  /// usual then. Throws what is thrown when memory is used up.
  bool record(const std::function<void()>& work);
  /// Does what was recorded, after all that the current stream was asked for before.
  void launch() const;

 private:
  struct Recorded;
  std::shared_ptr<Memory> memory_;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace chorus::inline device
