#include "core/device/worker_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>

namespace chorus::inline device {
namespace {

void run_and_wait(WorkerThreads& workers, const std::function<void()>& task) {
  std::promise<void> done;
  workers.run([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

TEST(WorkerThreads, OneThreadServesTasksThatFollowEachOther) {
  WorkerThreads workers(1);
  std::atomic<int> runs{0};
  for (int i = 0; i < 50; ++i) {
    run_and_wait(workers, [&] { ++runs; });
    // The thread says that a task is done just before it waits for the next.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(runs, 50);
  EXPECT_LE(workers.threads(), 5U);
}

TEST(WorkerThreads, ATaskThatBlocksHoldsUpNoOther) {
  WorkerThreads workers(1);
  std::promise<void> open;
  std::shared_future<void> gate = open.get_future().share();
  for (int i = 0; i < 3; ++i) workers.run([gate] { gate.wait(); });
  bool ran = false;
  run_and_wait(workers, [&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_EQ(workers.threads(), 4U);
  open.set_value();
}

TEST(WorkerThreads, TheDestructorWaitsForEveryTask) {
  std::atomic<int> runs{0};
  {
    WorkerThreads workers(1);
    for (int i = 0; i < 20; ++i) {
      workers.run([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++runs;
      });
    }
  }
  EXPECT_EQ(runs, 20);
}

TEST(WorkerThreads, LibTorchMayUseSoManyThreadsInside) {
  for (const int threads : {1, 2}) {
    WorkerThreads workers(threads);
    int inside = 0;
    run_and_wait(workers, [&] { inside = at::get_num_threads(); });
    EXPECT_EQ(inside, threads);
  }
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
