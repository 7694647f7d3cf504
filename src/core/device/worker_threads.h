#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace chorus::inline device {

/// Threads that stay alive between tasks. Setting LibTorch's number of threads costs up to milliseconds per new thread,
/// too much for every ask of a session or every batch read ahead.
///
///     WorkerThreads workers(1);
///     workers.run([&] { ... });       // at once: on an idle thread or a new one
///
/// A task must not throw. The destructor waits for all tasks.
class WorkerThreads {
 public:
  /// `torch_threads`: LibTorch's threads inside each of them.
  explicit WorkerThreads(int torch_threads) : torch_threads_(torch_threads) {}
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;
  ~WorkerThreads();

  /// Never waits for another task: without an idle thread, it starts one more.
  void run(std::function<void()> task);
  std::size_t threads() const;

 private:
  void loop();

  int torch_threads_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  std::size_t waiting_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

/// The result of work on another thread. Like std::async's future, the destructor waits for the work, which may refer
/// to its owner's members.
template <typename Result>
class Beside {
 public:
  Beside() = default;
  explicit Beside(std::future<Result> result) : result_(std::move(result)) {}
  Beside(Beside&&) noexcept = default;
  Beside& operator=(Beside&& other) noexcept {
    wait();
    result_ = std::move(other.result_);
    return *this;
  }
  ~Beside() { wait(); }

  bool valid() const { return result_.valid(); }
  /// Waits; rethrows what the work threw.
  Result get() { return result_.get(); }

 private:
  void wait() const {
    if (result_.valid()) result_.wait();
  }
  std::future<Result> result_;
};

/// The process's threads for short background work; LibTorch uses one thread in each.
WorkerThreads& helper_threads();

/// Runs `work` on one of them.
///
///     Beside<TaskBatch> next = beside([&] { return read(2); });
///     compute(first);
///     compute(next.get());
template <typename Work>
Beside<std::invoke_result_t<Work>> beside(Work work) {
  const auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
  Beside<std::invoke_result_t<Work>> result(task->get_future());
  helper_threads().run([task] { (*task)(); });
  return result;
}

}  // namespace chorus::inline device
