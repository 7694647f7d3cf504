#include "tests/contract/faulty_network.h"

namespace chorus::inline contract {
namespace {

class FaultyMailbox final : public Mailbox {
 public:
  FaultyMailbox(FaultyNetwork& network, std::string address) : network_(network), address_(std::move(address)) {}
  ~FaultyMailbox() override { network_.dismiss(address_); }
  void open(Receive receive) override { network_.enlist(address_, std::move(receive)); }
  void post(const std::string& to, std::string bytes) override { network_.post(address_, to, std::move(bytes)); }
  std::string server() const override { return "server"; }

 private:
  FaultyNetwork& network_;
  std::string address_;
};

}  // namespace

FaultyNetwork::FaultyNetwork(std::uint64_t seed, const Faults& faults)
    : seed_(seed), faults_(faults), thread_([this] { deliver(); }) {}

FaultyNetwork::~FaultyNetwork() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::unique_ptr<Mailbox> FaultyNetwork::mailbox(const std::string& address) {
  return std::make_unique<FaultyMailbox>(*this, address);
}

void FaultyNetwork::enlist(const std::string& address, Mailbox::Receive receive) {
  const std::lock_guard lock(delivering_);
  receivers_[address] = std::move(receive);
}

void FaultyNetwork::dismiss(const std::string& address) {
  const std::lock_guard lock(delivering_);
  receivers_.erase(address);
}

void FaultyNetwork::post(const std::string& from, const std::string& to, std::string bytes) {
  const std::lock_guard lock(mutex_);
  RandomStream stream({.seed = seed_, .purpose = "fault " + from, .step = sent_[from]++});
  const double what = stream.uniform();
  double edge = faults_.disconnect;
  if (what < edge && from != "server") cut_[from] = true;
  if (cut_[from] || what < (edge += faults_.drop)) return;
  const auto now = std::chrono::steady_clock::now();
  Moment due = now;
  if (what < (edge += faults_.damage)) {
    bytes[stream.below(bytes.size())] ^= static_cast<char>(1U << stream.below(8));
  } else if (what < (edge += faults_.duplicate)) {
    under_way_.emplace(now + std::chrono::microseconds(stream.below(2000)), Parcel{to, {from, "", bytes}});
  } else if (what < (edge += faults_.delay)) {
    due += std::chrono::microseconds(stream.below(5000));
  }
  under_way_.emplace(due, Parcel{to, {from, "", std::move(bytes)}});
  changed_.notify_all();
}

void FaultyNetwork::deliver() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (closing_) return;
    if (under_way_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Moment due = under_way_.begin()->first;
    if (due > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, due);
      continue;
    }
    Parcel parcel = std::move(under_way_.begin()->second);
    under_way_.erase(under_way_.begin());
    lock.unlock();
    {
      const std::lock_guard turn(delivering_);
      const auto found = receivers_.find(parcel.to);
      if (found != receivers_.end()) found->second(std::move(parcel.letter));
    }
    lock.lock();
  }
}

}  // namespace chorus::inline contract
