#include "infrastructure/federation/local_federation.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/device/torch_runtime.h"
#include "core/ports/procedure.h"

namespace chorus {

/// One `ask` under way: the batches that are left, the replies that wait.
class LocalFederation::Work {
 public:
  Work(const LocalFederationInput& input, std::span<const ClientId> cohort, Request request,
       std::shared_ptr<Traffic> traffic, std::shared_ptr<std::atomic<std::size_t>> batch)
      : input_(input),
        batch_(std::move(batch)),
        cohort_(cohort.begin(), cohort.end()),
        request_(std::move(request)),
        procedure_(Procedures::make(request_.procedure)),
        traffic_(std::move(traffic)) {
    open();
    const std::size_t batches = (cohort_.size() + *batch_ - 1) / *batch_;
    for (std::size_t w = 0; w < std::min(input_.workers, batches); ++w) threads_.emplace_back([this] { work(); });
  }

  ~Work() {
    {
      const std::lock_guard lock(mutex_);
      next_ = cohort_.size();
      abandoned_ = true;
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::optional<Reply> next() {
    std::unique_lock lock(mutex_);
    if (given_ == cohort_.size()) return std::nullopt;
    arrived_.wait(lock, [&] { return !replies_.empty() || error_; });
    if (error_) std::rethrow_exception(error_);
    Reply reply = std::move(replies_.front());
    replies_.pop_front();
    ++given_;
    traffic_->down += request_bytes_;
    traffic_->up += reply.body.bytes();
    lock.unlock();
    room_.notify_one();
    return reply;
  }

 private:
  // All clients get the same bytes, so in one process they are read once.
  void open() {
    if (input_.gate == nullptr) return;
    try {
      request_ = input_.gate->open(std::move(request_));
    } catch (const DataError& error) {
      unreadable_ = error.what();
    }
  }

  void work() {
    const TorchThreads threads(input_.threads);
    try {
      for (;;) {
        std::unique_lock lock(mutex_);
        const std::size_t most = 2 * input_.workers * *batch_;
        room_.wait(lock, [&] { return abandoned_ || replies_.size() < most; });
        const std::size_t begin = next_;
        const std::size_t end = std::min(begin + *batch_, cohort_.size());
        if (begin >= end) return;
        next_ = end;
        lock.unlock();
        if (input_.stop && input_.stop()) throw Interrupted();
        run(begin, end);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = cohort_.size();
      arrived_.notify_all();
    }
  }

  // What did not fit is done again in halves, and batches stay that small.
  void run(std::size_t begin, std::size_t end) {
    try {
      answer(begin, end);
      return;
    } catch (const std::exception& error) {
      if (end - begin == 1 || !is_out_of_memory(error)) throw;
    }
    release_unused_memory();
    const std::size_t half = (end - begin + 1) / 2;
    Log("federation")
        .warning(
            "{} clients at once need more memory than there is; {} from now on (federation."
            "cohort_batch)",
            end - begin, half);
    *batch_ = std::min(batch_->load(), half);
    run(begin, begin + half);
    run(begin + half, end);
  }

  void answer(std::size_t begin, std::size_t end) {
    std::vector<ClientId> clients;
    std::vector<Reply> replies;
    for (std::size_t slot = begin; slot < end; ++slot) {
      if (!unreadable_.empty()) {
        replies.push_back({cohort_[slot], slot, {}, unreadable_});
      } else if (input_.sizes[cohort_[slot]] > 0) {
        clients.push_back(cohort_[slot]);
      } else {
        replies.push_back({cohort_[slot], slot, {}, "it has no training data"});
      }
    }
    if (!clients.empty()) {
      const std::unique_ptr<Workbench> bench = input_.open(clients, request_);
      std::vector<Answer> answers = procedure_->run(request_, *bench);
      check(answers.size() == clients.size(), "a procedure answers for each client");
      if (input_.gate != nullptr) input_.gate->close(request_, *bench, answers);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const ClientId id = bench->clients()[i];
        const auto place = std::find(cohort_.begin() + static_cast<std::ptrdiff_t>(begin), cohort_.end(), id);
        if (answers[i].failure.empty()) bench->keep_state(i);
        Reply reply{id, static_cast<std::size_t>(place - cohort_.begin()), std::move(answers[i].body),
                    std::move(answers[i].failure)};
        if (input_.gate == nullptr) reply.finite = std::move(answers[i].finite);  // a gate may have changed it
        replies.push_back(std::move(reply));
      }
    }
    std::sort(replies.begin(), replies.end(), [](const Reply& a, const Reply& b) { return a.slot < b.slot; });
    const std::lock_guard lock(mutex_);
    for (Reply& reply : replies) replies_.push_back(std::move(reply));
    arrived_.notify_all();
  }

  const LocalFederationInput& input_;
  std::shared_ptr<std::atomic<std::size_t>> batch_;  // clients at once
  std::vector<ClientId> cohort_;
  Request request_;
  std::unique_ptr<Procedure> procedure_;
  std::shared_ptr<Traffic> traffic_;
  std::uint64_t request_bytes_ = request_.body.bytes();  // before it is opened
  std::string unreadable_;                               // why nobody can

  std::mutex mutex_;
  std::condition_variable arrived_, room_;
  std::deque<Reply> replies_;
  std::size_t next_ = 0;   // first client of the next batch
  std::size_t given_ = 0;  // replies that were read
  bool abandoned_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

LocalFederation::LocalFederation(const LocalFederationInput& input)
    : input_(input),
      traffic_(std::make_shared<Traffic>()),
      batch_(std::make_shared<std::atomic<std::size_t>>(input.cohort_batch)) {
  check(input.cohort_batch > 0 && input.workers > 0 && input.threads > 0, "a federation needs workers");
}

LocalFederation::~LocalFederation() = default;

Replies LocalFederation::ask(std::span<const ClientId> cohort, Request request) {
  std::vector<ClientId> sorted(cohort.begin(), cohort.end());
  std::sort(sorted.begin(), sorted.end());
  check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a client is asked once at a time");
  check(sorted.empty() || sorted.back() < input_.sizes.size(), "no such client");
  const auto work = std::make_shared<Work>(input_, cohort, std::move(request), traffic_, batch_);
  return Replies([work] { return work->next(); });
}

Traffic LocalFederation::traffic() const { return *traffic_; }

}  // namespace chorus
