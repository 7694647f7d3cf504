#include "infrastructure/federation/local_federation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/stop_point.h"
#include "core/console/log.h"
#include "core/device/torch_runtime.h"
#include "core/device/worker_threads.h"
#include "core/ports/procedure.h"
#include "core/ports/variants.h"

namespace chorus::inline federation {
namespace {

/// Clients of a session that share a workbench.
struct SessionBatch {
  std::vector<ClientId> clients;
  std::unique_ptr<Workbench> bench;  // null: not opened yet
};

using SessionBatches = std::list<SessionBatch>;  // a batch may be split while others run

}  // namespace

/// State that outlives the federation while replies are held.
struct LocalFederation::Shared {
  LocalFederationInput input;
  std::atomic<std::size_t> batch;  // clients per batch; reduced after memory ran out
  std::mutex mutex;
  Traffic traffic;                                                    // guarded
  std::map<std::uint64_t, std::shared_ptr<SessionBatches>> sessions;  // guarded
  std::weak_ptr<Work> newest;                                         // guarded
  std::optional<WorkerThreads> workers;
};

/// One running `ask`: the remaining batches, and the replies that wait to be read.
class LocalFederation::Work {
 public:
  Work(std::shared_ptr<Shared> shared, std::span<const ClientId> cohort, Request request)
      : shared_(std::move(shared)),
        cohort_(cohort.begin(), cohort.end()),
        request_(std::move(request)),
        procedure_(Procedures::make(request_.procedure)),
        begin_(std::chrono::steady_clock::now()),
        shared_bytes_(request_.body.bytes()) {
    for (const Message& own : request_.own) own_bytes_.push_back(own.bytes());
    open_request();
    cut();
    const std::size_t batches = session_ ? jobs_.size() : (order_.size() + shared_->batch - 1) / shared_->batch;
    running_ = std::min(input().workers, batches);
    for (std::size_t w = running_; w > 0; --w) {
      shared_->workers->run([this] {
        work();
        const std::lock_guard lock(mutex_);
        --running_;
        ended_.notify_all();
      });
    }
  }

  ~Work() { stop(); }

  /// Ends the work; clients that have not replied never will.
  void stop() {
    std::unique_lock lock(mutex_);
    abandoned_ = true;
    room_.notify_all();
    arrived_.notify_all();
    ended_.wait(lock, [&] { return running_ == 0; });
  }

  bool ready() {
    const std::lock_guard lock(mutex_);
    return is_ready();
  }
  void wait(double seconds) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return is_ready(); });
  }

  std::optional<Reply> next() {
    std::unique_lock lock(mutex_);
    if (given_ == cohort_.size()) return std::nullopt;
    arrived_.wait(lock, [&] { return is_ready(); });
    if (error_) std::rethrow_exception(error_);
    Reply reply;
    if (replies_.empty()) {
      const auto slot = static_cast<std::size_t>(std::find(replied_.begin(), replied_.end(), false) - replied_.begin());
      replied_.at(slot) = true;
      reply = failed(slot, "the federation was closed before it replied");
    } else {
      reply = std::move(replies_.front());
      replies_.pop_front();
    }
    ++given_;
    lock.unlock();
    reply.bytes_down = shared_bytes_ + (own_bytes_.empty() ? 0 : own_bytes_.at(reply.slot));
    reply.bytes_up = reply.body.bytes();
    reply.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    {
      const std::lock_guard totals(shared_->mutex);
      shared_->traffic.down += reply.bytes_down;
      shared_->traffic.up += reply.bytes_up;
    }
    room_.notify_one();
    return reply;
  }

 private:
  /// Clients that run the procedure together, as slots of the cohort.
  struct Job {
    std::vector<std::size_t> slots;
    SessionBatch* kept = nullptr;  // in a session
  };

  const LocalFederationInput& input() const { return shared_->input; }

  // Whether `next` need not wait. With the mutex held.
  bool is_ready() const { return given_ == cohort_.size() || !replies_.empty() || error_ || abandoned_; }

  Reply failed(std::size_t slot, std::string why) const {
    Reply reply;
    reply.client = cohort_[slot];
    reply.slot = slot;
    reply.failure = std::move(why);
    return reply;
  }

  GateMoment moment() const { return {request_.procedure, variant_, request_.round, request_.ask, 0, {}}; }

  // All clients receive the same bytes, so one process decodes them once.
  void open_request() {
    try {
      variant_ = read_variant(request_.body);
      if (request_.layout != 0 && input().layout != 0 && request_.layout != input().layout) {
        throw DataError("it trains another network than the server; give both the same model and tuning");
      }
      if (input().gate == nullptr) return;
      input().gate->receive(request_.body, moment());
      for (std::size_t i = 0; i < request_.own.size(); ++i) {
        GateMoment of_client = moment();
        of_client.client = cohort_[i] + std::uint64_t{1};
        input().gate->receive(request_.own[i], of_client);
      }
    } catch (const DataError& error) {
      unreadable_ = error.what();
    }
  }

  // Slots in the order of execution, grouped by network.
  void cut() {
    replied_.assign(cohort_.size(), false);
    std::vector<std::string> keys;
    for (std::size_t slot = 0; slot < cohort_.size(); ++slot) {
      order_.push_back(slot);
      keys.push_back(input().roster.find(cohort_[slot])->model);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
    for (const std::size_t slot : order_) keys_.push_back(keys[slot]);
    if (request_.session == 0) return;
    const std::lock_guard lock(shared_->mutex);
    std::shared_ptr<SessionBatches>& batches = shared_->sessions[request_.session];
    if (!batches) {
      batches = std::make_shared<SessionBatches>();
      for (std::size_t begin = 0; begin < order_.size();) {
        SessionBatch batch;
        const std::size_t end = end_of_batch(begin);
        for (; begin < end; ++begin) batch.clients.push_back(cohort_[order_[begin]]);
        batches->push_back(std::move(batch));
      }
      fresh_session_ = true;
    }
    session_ = batches;
    std::map<ClientId, std::size_t> slots;
    for (std::size_t slot = 0; slot < cohort_.size(); ++slot) slots[cohort_[slot]] = slot;
    for (SessionBatch& batch : *session_) {
      Job job{{}, &batch};
      std::vector<std::size_t> staying;
      for (std::size_t i = 0; i < batch.clients.size(); ++i) {
        const auto found = slots.find(batch.clients[i]);
        if (found == slots.end()) continue;
        staying.push_back(i);
        job.slots.push_back(found->second);
        slots.erase(found);
      }
      narrow(batch, staying);
      if (!job.slots.empty()) jobs_.push_back(std::move(job));
    }
    for (const auto& entry : slots) {
      replied_[entry.second] = true;
      replies_.push_back(failed(entry.second, "it is no longer in the session"));
    }
  }

  static void narrow(SessionBatch& batch, const std::vector<std::size_t>& staying) {
    if (staying.size() == batch.clients.size()) return;
    std::vector<ClientId> clients;
    for (const std::size_t i : staying) clients.push_back(batch.clients[i]);
    if (batch.bench != nullptr && !clients.empty()) {
      std::vector<std::size_t> rows;  // of the workbench, which has its own order
      const auto of_bench = batch.bench->clients();
      for (std::size_t row = 0; row < of_bench.size(); ++row) {
        if (std::find(clients.begin(), clients.end(), of_bench[row]) != clients.end()) rows.push_back(row);
      }
      batch.bench->retain(rows);
    }
    if (clients.empty()) batch.bench.reset();
    batch.clients = std::move(clients);
  }

  std::size_t end_of_batch(std::size_t begin) const {
    std::size_t end = begin;
    while (end < order_.size() && end - begin < shared_->batch && keys_[end] == keys_[begin]) ++end;
    return end;
  }

  void work() {
    const StopScope scope(abandoned_);
    try {
      for (;;) {
        std::unique_lock lock(mutex_);
        const std::size_t most = 2 * input().workers * shared_->batch;
        room_.wait(lock, [&] { return abandoned_ || error_ || replies_.size() < most; });
        if (abandoned_ || error_) return;
        Job job;
        if (session_) {
          if (next_ == jobs_.size()) return;
          job = jobs_[next_++];
        } else {
          const std::size_t end = end_of_batch(next_);
          job.slots.assign(order_.begin() + static_cast<std::ptrdiff_t>(next_),
                           order_.begin() + static_cast<std::ptrdiff_t>(end));
          if (job.slots.empty()) return;
          next_ = end;
        }
        lock.unlock();
        if (input().stop && input().stop()) throw Interrupted();
        run(std::move(job));
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_ && !abandoned_) error_ = std::current_exception();
      arrived_.notify_all();
      room_.notify_all();
    }
  }

  void run(Job job) {
    std::vector<Reply> replies;
    std::vector<std::size_t> ready;
    for (const std::size_t slot : job.slots) {
      if (!unreadable_.empty()) {
        replies.push_back(failed(slot, unreadable_));
      } else if (input().roster.size_of(cohort_[slot]) <= 0) {
        replies.push_back(failed(slot, "it has no training data"));
      } else {
        ready.push_back(slot);
      }
    }
    if (!ready.empty()) answer(ready, job.kept, replies);
    std::sort(replies.begin(), replies.end(), [](const Reply& a, const Reply& b) { return a.slot < b.slot; });
    const std::lock_guard lock(mutex_);
    for (Reply& reply : replies) {
      replied_[reply.slot] = true;
      replies_.push_back(std::move(reply));
    }
    arrived_.notify_all();
  }

  /// Runs the procedure for some slots. A batch that fails as a whole is repeated in halves, until the client is found
  /// that does not fit into memory or whose data makes the procedure throw.
  void answer(std::span<const std::size_t> slots, SessionBatch* kept, std::vector<Reply>& replies) {
    std::string why;
    try {
      answer_at_once(slots, kept, replies);
      return;
    } catch (const ConfigError&) {
      throw;
    } catch (const Interrupted&) {
      if (kept != nullptr) *kept = {};  // in the middle of a step
      throw;
    } catch (const std::exception& error) {
      const bool memory = is_out_of_memory(error);
      if (memory) release_unused_memory();
      why = memory ? "it needs more memory than there is" : first_line(error);
      if (memory && slots.size() > 1) smaller_batches(slots.size());
    }
    // What a session keeps may have changed by then, so only its first ask can be repeated.
    if (slots.size() == 1 || (kept != nullptr && !fresh_session_)) {
      for (const std::size_t slot : slots) replies.push_back(failed(slot, why));
      if (kept != nullptr) *kept = {};
      return;
    }
    const std::size_t half = (slots.size() + 1) / 2;
    answer(slots.first(half), kept, replies);
    answer(slots.subspan(half), kept != nullptr ? another_batch() : nullptr, replies);
  }

  SessionBatch* another_batch() {
    const std::lock_guard lock(shared_->mutex);
    return &session_->emplace_back();
  }

  void smaller_batches(std::size_t clients) {
    const std::size_t half = (clients + 1) / 2;
    Log("federation")
        .warning("{} clients at once need more memory than there is; {} from now on (federation.cohort_batch)", clients,
                 half);
    shared_->batch = std::min(shared_->batch.load(), half);
  }

  void answer_at_once(std::span<const std::size_t> slots, SessionBatch* kept, std::vector<Reply>& replies) {
    std::vector<ClientId> clients;
    for (const std::size_t slot : slots) clients.push_back(cohort_[slot]);
    std::unique_ptr<Workbench> opened;
    if (kept == nullptr || kept->bench == nullptr) opened = input().open(clients, request_);
    Workbench& bench = opened ? *opened : *kept->bench;
    std::vector<std::size_t> slot_of;  // of each client on the workbench
    for (const ClientId id : bench.clients()) {
      const auto place = std::find(clients.begin(), clients.end(), id) - clients.begin();
      slot_of.push_back(slots[static_cast<std::size_t>(place)]);
    }
    Request request = request_;
    if (!request_.own.empty()) {
      request.own.clear();
      for (const std::size_t slot : slot_of) request.own.push_back(request_.own_of(slot));
    }
    std::vector<Answer> answers = procedure_->run(request, bench);
    check(answers.size() == slot_of.size(), "a procedure answers for each client");
    std::vector<Reply> done;
    for (std::size_t i = 0; i < answers.size(); ++i) done.push_back(reply_of(answers[i], bench, i, slot_of[i]));
    if (kept != nullptr && opened) *kept = {clients, std::move(opened)};
    for (Reply& reply : done) replies.push_back(std::move(reply));
  }

  Reply reply_of(Answer& answer, Workbench& bench, std::size_t i, std::size_t slot) const {
    if (answer.failure.empty() && input().gate != nullptr) {
      GateMoment of_client = moment();
      of_client.client = cohort_[slot];
      of_client.memory = [&]() -> ClientState& { return bench.state(i); };
      try {
        input().gate->send(answer.body, of_client);
      } catch (const DataError& error) {
        answer.failure = error.what();
      }
    }
    if (!answer.failure.empty()) return failed(slot, std::move(answer.failure));
    Reply reply;
    reply.client = cohort_[slot];
    reply.slot = slot;
    reply.body = std::move(answer.body);
    if (input().gate == nullptr) reply.finite = std::move(answer.finite);  // a gate may have changed it
    reply.on_accept = bench.state_to_keep(i);
    return reply;
  }

  std::shared_ptr<Shared> shared_;
  std::vector<ClientId> cohort_;
  Request request_;
  Variant variant_ = {};
  std::unique_ptr<Procedure> procedure_;
  std::chrono::steady_clock::time_point begin_;
  std::uint64_t shared_bytes_;            // before the request is decoded
  std::vector<std::uint64_t> own_bytes_;  // likewise, per slot
  std::string unreadable_;                // why the request cannot be decoded
  std::vector<std::size_t> order_;        // slots
  std::vector<std::string> keys_;         // their model keys
  std::shared_ptr<SessionBatches> session_;
  bool fresh_session_ = false;
  std::vector<Job> jobs_;  // of a session

  std::mutex mutex_;
  std::condition_variable arrived_, room_, ended_;
  std::deque<Reply> replies_;
  std::vector<bool> replied_;            // per slot
  std::size_t next_ = 0;                 // of order_, or of jobs_
  std::size_t given_ = 0;                // replies already read
  std::atomic<bool> abandoned_ = false;  // changes with the mutex held
  std::exception_ptr error_;
  std::size_t running_ = 0;  // workers
};

LocalFederation::LocalFederation(LocalFederationInput input) : shared_(std::make_shared<Shared>()) {
  check(input.cohort_batch > 0 && input.workers > 0 && input.threads > 0, "a federation needs workers");
  shared_->batch = input.cohort_batch;
  shared_->workers.emplace(input.threads);
  shared_->input = std::move(input);
}

LocalFederation::~LocalFederation() {
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(shared_->mutex);
    work = shared_->newest.lock();
  }
  if (work) work->stop();
}

const Roster& LocalFederation::roster() const { return shared_->input.roster; }

Replies LocalFederation::ask(std::span<const ClientId> cohort, Request request) {
  std::vector<ClientId> sorted(cohort.begin(), cohort.end());
  std::sort(sorted.begin(), sorted.end());
  check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a client is asked once at a time");
  for (const ClientId id : sorted) check(roster().find(id) != nullptr, "no such client");
  check(request.own.empty() || request.own.size() == cohort.size(), "a request has one own message per client");
  const auto work = std::make_shared<Work>(shared_, cohort, std::move(request));
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->newest = work;
  }
  return Replies([work] { return work->next(); }, [work] { return work->ready(); });
}

void LocalFederation::end_session(std::uint64_t session) {
  const std::lock_guard lock(shared_->mutex);
  shared_->sessions.erase(session);
}

void LocalFederation::wait(double seconds) {
  std::shared_ptr<Work> work;
  {
    const std::lock_guard lock(shared_->mutex);
    work = shared_->newest.lock();
  }
  if (work) work->wait(seconds);
}

Traffic LocalFederation::traffic() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->traffic;
}

}  // namespace chorus::inline federation
