#include "infrastructure/federation/worker_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

namespace chorus::inline federation {
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

}  // namespace
}  // namespace chorus::inline federation
