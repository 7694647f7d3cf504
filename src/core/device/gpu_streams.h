#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace chorus::inline device {

/// A high- and a low-priority CUDA stream. The high-priority stream is the main one. The low-priority stream runs work
/// beside it that can wait, and fills gaps: a matmul leaves multiprocessors idle at its end and memory bandwidth while
/// it runs. While the object lives, the constructing thread's current stream is the high-priority one, which first
/// waits for the previous current stream. The destructor restores that stream, which then waits for both. There is one
/// pair of streams per device, shared by all threads.
///
///     GpuStreams streams(device);
///     ...
///     streams.beside([&] { ... });   // low priority; waits for the main work launched so far
///     ...                            // runs at the same time
///     streams.join();                // later main work waits for the low-priority stream
class GpuStreams {
 public:
  explicit GpuStreams(at::Device device);
  GpuStreams(const GpuStreams&) = delete;
  GpuStreams& operator=(const GpuStreams&) = delete;
  ~GpuStreams();

  /// May be called by any thread whose current stream is the high-priority one.
  void beside(const std::function<void()>& work) const;
  void join() const;

  /// Makes the high-priority stream current for another thread while the returned guard lives.
  std::shared_ptr<void> enter() const;
  /// Declares that the low-priority stream also uses a tensor of the main stream, so that its memory is not reused
  /// too early.
  void lend(const at::Tensor& tensor) const;
  /// The same for the stream that was current before.
  void hand_over(const at::Tensor& tensor) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace chorus::inline device
