#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace chorus::inline device {

/// Two queues of a GPU's work: the main one, which comes first, and one beside it for what can wait and fills the gaps
/// (a product leaves part of the card idle when it ends, and memory while it runs). While it lives, what this thread
/// asks a GPU for goes to the main lane, after all that it was asked for before; at the end all goes on as before,
/// after both lanes. Lanes are shared by all threads that use them.
///
///     GpuLanes lanes(device);
///     ...
///     lanes.beside([&] { ... });   // after what was asked for so far
///     ...                          // goes on meanwhile
///     lanes.join();                // what comes now comes after it
class GpuLanes {
 public:
  explicit GpuLanes(at::Device device);
  GpuLanes(const GpuLanes&) = delete;
  GpuLanes& operator=(const GpuLanes&) = delete;
  ~GpuLanes();

  /// By any thread whose work is in the main lane.
  void beside(const std::function<void()>& work) const;
  void join() const;

  /// Another thread's work goes to the main lane while the result lives.
  std::shared_ptr<void> enter() const;
  /// The tensor was made in the main lane and is used beside it, too: its memory is not given to others before that is
  /// done.
  void lend(const at::Tensor& tensor) const;
  /// The same for use after the end.
  void hand_over(const at::Tensor& tensor) const;

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace chorus::inline device
