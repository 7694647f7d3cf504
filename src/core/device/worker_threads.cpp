#include "core/device/worker_threads.h"

#include <utility>

#include "core/device/torch_runtime.h"

namespace chorus::inline device {

WorkerThreads::~WorkerThreads() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerThreads::run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (tasks_.size() > waiting_) threads_.emplace_back([this] { loop(); });
  ready_.notify_one();
}

std::size_t WorkerThreads::threads() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void WorkerThreads::loop() {
  const TorchThreads threads(torch_threads_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++waiting_;
    ready_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    --waiting_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

WorkerThreads& helper_threads() {
  static WorkerThreads threads(1);
  return threads;
}

}  // namespace chorus::inline device
