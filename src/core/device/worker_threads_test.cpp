#include "core/device/worker_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace chorus::inline device {
namespace {

TEST(WorkerThreads, AreKeptBetweenTasks) {
  WorkerThreads workers(1);
  for (int i = 0; i < 3; ++i) {
    std::promise<void> done;
    workers.run([&] { done.set_value(); });
    done.get_future().wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the thread waits again
  }
  EXPECT_EQ(workers.threads(), 1U);
}

TEST(WorkerThreads, NeverWaitForAnotherTask) {
  WorkerThreads workers(1);
  std::promise<void> first, second;
  workers.run([&] { second.get_future().wait(); });
  workers.run([&] { first.set_value(); });
  EXPECT_EQ(first.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  second.set_value();
}

TEST(Beside, HandsOverResultsAndExceptions) {
  EXPECT_EQ(beside([] { return 42; }).get(), 42);
  auto failing = beside([]() -> int { throw std::runtime_error("no"); });
  EXPECT_THROW(failing.get(), std::runtime_error);
}

TEST(Beside, DestructorAndAssignmentWait) {
  std::atomic<int> done = 0;
  const auto slow = [&done] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return ++done;
  };
  {
    auto first = beside(slow);
    first = Beside<int>();
    EXPECT_EQ(done, 1);
    const auto second = beside(slow);
  }
  EXPECT_EQ(done, 2);
}

}  // namespace
}  // namespace chorus::inline device
