#include "infrastructure/transport/mpi/mpi_world.h"

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <list>

#include "core/base/error.h"

namespace chorus::inline transport_mpi {
namespace {

constexpr int kTag = 7733;
constexpr std::size_t kKeysBytes = 16;
constexpr std::size_t kMostUnderWay = 64U << 20U;
// Naps grow with the time in which nothing happened.
constexpr auto kShortestNap = std::chrono::microseconds(20), kLongestNap = std::chrono::microseconds(2000);
constexpr int kNapsPerPause = 8;

void append_key(std::string& bytes, std::uint64_t key) {
  char raw[sizeof key];
  std::memcpy(raw, &key, sizeof key);
  bytes.append(raw, sizeof key);
}

std::uint64_t take_key(std::string& bytes) {
  std::uint64_t key = 0;
  std::memcpy(&key, bytes.data() + bytes.size() - sizeof key, sizeof key);
  bytes.resize(bytes.size() - sizeof key);
  return key;
}

}  // namespace

MpiWorld& MpiWorld::instance() {
  static MpiWorld world;
  // The program ends without destructors of static objects (apps/cli/main.cpp), but MPI must be told.
  static const int registered = std::at_quick_exit([] { instance().close(); });
  check(registered == 0, "MPI cannot be told about the end of the program");
  return world;
}

MpiWorld::MpiWorld() : thread_([this] { run(); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return started_; });
}

MpiWorld::~MpiWorld() { close(); }

void MpiWorld::close() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void MpiWorld::enlist(std::uint64_t key, Mailbox::Receive receive) {
  const std::lock_guard lock(delivering_);
  check(receivers_.emplace(key, std::move(receive)).second, "an MPI transport has one server per process");
}

void MpiWorld::dismiss(std::uint64_t key) {
  const std::lock_guard lock(delivering_);
  receivers_.erase(key);
}

void MpiWorld::post(int rank, std::uint64_t to, std::uint64_t from, std::string bytes) {
  append_key(bytes, from);
  append_key(bytes, to);
  std::unique_lock lock(mutex_);
  if (std::this_thread::get_id() != thread_.get_id()) {
    changed_.wait(lock, [this] { return under_way_ < kMostUnderWay; });
  }
  under_way_ += bytes.size();
  outgoing_.push_back({rank, std::move(bytes)});
  changed_.notify_all();
}

void MpiWorld::deliver(int rank, std::string bytes) {
  if (bytes.size() < kKeysBytes) return;
  const std::lock_guard lock(delivering_);
  const auto found = receivers_.find(take_key(bytes));
  if (found == receivers_.end()) return;  // it has left
  const std::uint64_t from = take_key(bytes);
  found->second({fmt::format("{}/{}", rank, from), "", std::move(bytes)});
}

void MpiWorld::sent(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  under_way_ -= bytes;
  changed_.notify_all();
}

void MpiWorld::run() {
  // Without mpirun there is no daemon to talk to, and none must be started.
  if (std::getenv("OMPI_COMM_WORLD_SIZE") == nullptr) ::setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  MPI_Comm machine = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  MPI_Comm_size(machine, &beside_);
  MPI_Comm_rank(machine, &local_);
  MPI_Comm_free(&machine);
  std::list<std::pair<MPI_Request, std::string>> sending;
  std::deque<Parcel> to_itself;
  bool busy = true;
  auto last_busy = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (!std::exchange(started_, true)) changed_.notify_all();
      const auto pause = std::chrono::steady_clock::now() - last_busy;
      if (!busy && outgoing_.empty() && !(closing_ && sending.empty())) {
        changed_.wait_for(lock, std::clamp<std::chrono::nanoseconds>(pause / kNapsPerPause, kShortestNap, kLongestNap));
      }
      if (closing_ && outgoing_.empty() && sending.empty()) break;
      busy = !outgoing_.empty();
      for (; !outgoing_.empty(); outgoing_.pop_front()) {
        Parcel& parcel = outgoing_.front();
        if (parcel.rank == rank_) {
          to_itself.push_back(std::move(parcel));
          continue;
        }
        auto& [request, bytes] = sending.emplace_back(MPI_REQUEST_NULL, std::move(parcel.bytes));
        MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, parcel.rank, kTag, MPI_COMM_WORLD, &request);
      }
    }
    for (; !to_itself.empty(); to_itself.pop_front()) {
      sent(to_itself.front().bytes.size());
      deliver(rank_, std::move(to_itself.front().bytes));
    }
    for (auto each = sending.begin(); each != sending.end();) {
      int done = 0;
      MPI_Test(&each->first, &done, MPI_STATUS_IGNORE);
      if (done == 0) {
        ++each;
        continue;
      }
      sent(each->second.size());
      each = sending.erase(each);
      busy = true;
    }
    int waiting = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &waiting, &status);
    if (waiting != 0) {
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      std::string bytes(static_cast<std::size_t>(size), '\0');
      MPI_Recv(bytes.data(), size, MPI_BYTE, status.MPI_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      deliver(status.MPI_SOURCE, std::move(bytes));
      busy = true;
    }
    if (busy) last_busy = std::chrono::steady_clock::now();
  }
  MPI_Finalize();
}

}  // namespace chorus::inline transport_mpi
