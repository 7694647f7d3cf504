#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "infrastructure/transport/mailbox/mailbox.h"

namespace chorus::inline transport_mpi {

/// This process as a rank of an MPI job. One thread makes all calls of MPI, from MPI_Init to MPI_Finalize, so nothing
/// is asked of the library's thread support. It sleeps for a moment when nothing happens, because MPI cannot wake it.
///
/// A rank that dies takes the job with it (mpirun ends the others).
class MpiWorld {
 public:
  /// Starts MPI at the first call; MPI ends with the process. A process that mpirun did not start is a job of its own.
  static MpiWorld& instance();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld();

  int rank() const { return rank_; }
  int size() const { return size_; }
  int beside() const { return beside_; }  ///< ranks on this machine
  int local() const { return local_; }    ///< this one among them

  /// Letters to `key` of this rank go to `receive` until `dismiss`, which waits for one that is being handled.
  void enlist(std::uint64_t key, Mailbox::Receive receive);
  void dismiss(std::uint64_t key);
  /// To a key of some rank. Blocks while much is under way, but for the thread that delivers letters.
  void post(int rank, std::uint64_t to, std::uint64_t from, std::string bytes);

 private:
  struct Parcel {
    int rank = 0;
    std::string bytes;
  };
  MpiWorld();
  void run();
  void close();  // ends MPI; once
  void deliver(int rank, std::string bytes);
  void sent(std::size_t bytes);

  int rank_ = 0, size_ = 1, beside_ = 1, local_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Parcel> outgoing_;
  std::size_t under_way_ = 0;  // bytes that were posted and are not sent
  bool started_ = false, closing_ = false;
  std::mutex delivering_;  // held while a letter is handled
  std::map<std::uint64_t, Mailbox::Receive> receivers_;
  std::thread thread_;
};

}  // namespace chorus::inline transport_mpi
