#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace chorus::inline federation {

/// Threads that stay between tasks. Giving LibTorch its number of threads costs up to milliseconds per new thread,
/// which an ask of a session must not pay each time.
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

}  // namespace chorus::inline federation
