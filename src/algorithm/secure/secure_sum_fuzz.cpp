// Any order of losing, repeating, delaying, replaying, misdirecting and changing the messages of a secure sum ends with
// the exact sum of its survivors or with none, and no client reveals shares twice (tools/fuzz), also when a server lies
// that is not trusted to be honest. The first byte chooses protocol and graph; each pair after it is an action and its
// operand.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>

#include "tests/any_sum.h"

namespace chorus::inline secure {
namespace {

enum Kind { kSemiHonest, kActive, kLight, kSparseActive, kKinds };
constexpr std::size_t kMostBytes = 4096;  // of a letter that was made longer

struct Letter {
  ClientId client;  // who sent or receives it
  bool up;          // to the server
  Bytes bytes;
};

/// A server and its clients, and the letters on their way.
class FuzzedSum {
 public:
  explicit FuzzedSum(int kind)
      : sum_(parameters_of(kind), clients_of(kind), kind == kLight), semi_honest_(kind == kSemiHonest) {
    for (const auto& [id, party] : sum_.parties) letters_.push_back({id, true, party->advertise()});
  }

  void act(std::uint8_t action, std::uint8_t operand) {
    if (action % 8 == 0) return close();
    if (letters_.empty()) return;
    const std::size_t which = operand % letters_.size();
    Letter& letter = letters_[which];
    switch (action % 8) {
      case 1:
        letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      case 2:
        if (!letter.bytes.empty()) {
          letter.bytes[(action / 8 * 256U + operand) % letter.bytes.size()] ^=
              static_cast<std::byte>(1U << operand % 8);
        }
        lie(letter, operand);
        break;
      case 3:
        letter.bytes.resize(std::min<std::size_t>(letter.bytes.size() * (action / 8U) / 24, kMostBytes));
        lie(letter, operand);
        break;
      case 4:
        letters_.push_back(past_.empty() ? letter : past_[operand % past_.size()]);
        break;
      case 5:
        letter.client = sum_.session.cohort[action / 8U % sum_.session.cohort.size()];
        break;
      default:
        deliver(which);
    }
  }

  /// Everything that is still on its way arrives in order, phase after phase.
  void finish() {
    for (int phase = 0; phase < 6 && !ended_; ++phase) {
      while (!letters_.empty()) deliver(0);
      close();
    }
    check_end();
  }

 private:
  static std::size_t clients_of(int kind) { return kind == kSparseActive ? 7 : 4; }
  static SumParameters parameters_of(int kind) {
    if (kind == kLight) return light_parameters(clients_of(kind), 0.2, 0.3);
    if (kind == kSparseActive) return ring_of_four(Trust::kActive);
    return complete_graph(clients_of(kind), kind == kActive ? Trust::kActive : Trust::kSemiHonest);
  }

  /// Half of the damage is a lie. A semi-honest server does not lie.
  void lie(Letter& letter, std::uint8_t operand) const {
    if (!semi_honest_ && operand % 2 == 1) letter.bytes = with_right_end(std::move(letter.bytes));
  }

  void deliver(std::size_t which) {
    const Letter letter = std::move(letters_[which]);
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(which));
    if (past_.size() < 64) past_.push_back(letter);
    if (letter.up) {
      (void)sum_.host->receive(letter.client, letter.bytes).ok();
      return;
    }
    auto reply = sum_.parties[letter.client]->receive(letter.bytes);
    if (!reply.ok()) return;
    const auto head = read_head(reply.value());
    if (!head || head->client != letter.client) std::abort();
    if (head->type == MessageType::kUnmask) {
      transcript_.see(letter.client, reply.value());
      const auto [before, fresh] = revealed_.try_emplace(letter.client, reply.value());
      if (!fresh && before->second != reply.value()) std::abort();  // shares for two lists of survivors
    }
    letters_.push_back({letter.client, true, std::move(reply.value())});
  }

  void close() {
    if (ended_) return;
    auto out = sum_.host->close();
    ended_ = !out.ok() || sum_.host->done();
    if (ended_) return;
    for (const auto& [client, bytes] : out.value()) letters_.push_back({client, false, *bytes});
  }

  void check_end() const {
    if (!transcript_.exposed().empty()) std::abort();
    if (!sum_.host->done()) return;
    if (sum_.usable() && !sum_.exact()) std::abort();
    if (sum_.host->survivors().size() < sum_.session.parameters.least_cohort) std::abort();
  }

  AnySum sum_;
  bool semi_honest_, ended_ = false;
  std::deque<Letter> letters_;
  std::vector<Letter> past_;
  std::map<ClientId, Bytes> revealed_;
  Transcript transcript_;
};

}  // namespace
}  // namespace chorus::inline secure

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  chorus::FuzzedSum sum(bytes[0] % chorus::kKinds);
  for (std::size_t i = 1; i + 1 < size && i < 400; i += 2) sum.act(bytes[i], bytes[i + 1]);
  sum.finish();
  return 0;
}
