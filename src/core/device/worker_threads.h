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

/// Threads that stay between tasks. Giving LibTorch its number of threads costs up to milliseconds per new thread,
/// which neither an ask of a session nor a batch that is read ahead should pay each time.
///
///     WorkerThreads workers(1);
///     workers.run([&] { ... });       // at once: on a thread that waits, or on a new one
///
/// A task must not throw. The destructor waits for all tasks.
class WorkerThreads {
 public:
  /// `torch_threads`: what LibTorch may use inside each of them.
  explicit WorkerThreads(int torch_threads) : torch_threads_(torch_threads) {}
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;
  ~WorkerThreads();

  /// Never waits for another task: with none to spare there is one more thread.
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

/// The result of work on another thread. As with std::async, the destructor waits for the work, which may refer to what
/// its owner holds.
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

/// Threads of the process for short work beside other work; LibTorch uses one thread in each.
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
