// Any order of losing, repeating, delaying, replaying, misdirecting and changing the messages of a secure sum ends with
// the exact sum of its survivors or with none, and no client reveals shares twice (tools/fuzz). The first byte chooses
// the protocol; each pair after it is an action and its operand.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>

#include "algorithm/secure/light_server.h"
#include "tests/sum_world.h"

namespace chorus::inline secure {
namespace {

constexpr std::size_t kClients = 4;
constexpr std::size_t kMostBytes = 4096;  // of a letter that was made longer

struct Letter {
  ClientId client;  // who sent or receives it
  bool up;          // to the server
  Bytes bytes;
};

/// A server and its clients, and the letters on their way.
class FuzzedSum {
 public:
  explicit FuzzedSum(std::uint8_t kind) : light_(kind % 3 == 2) {
    const Trust trust = kind % 3 == 1 ? Trust::kActive : Trust::kSemiHonest;
    session_.parameters = light_ ? light_parameters(kClients, 0.2, 0.3) : complete_graph(kClients, trust);
    session_.parameters.length = SumWorld::kLength;
    for (ClientId id = 0; id < kClients; ++id) session_.cohort.push_back(3 * id + 2);
    for (const ClientId id : session_.cohort) {
      if (trust == Trust::kActive) session_.identities[id] = SumWorld::identity(id)->open;
    }
    for (const ClientId id : session_.cohort) {
      const Secret<64>* secret = trust == Trust::kActive ? &SumWorld::identity(id)->secret : nullptr;
      if (light_) {
        parties_[id] = std::make_unique<LightClient>(session_, id, input_of(id));
      } else {
        parties_[id] = std::make_unique<SumClient>(session_, id, secret, input_of(id));
      }
      letters_.push_back({id, true, parties_[id]->advertise()});
    }
    if (light_) {
      host_ = std::make_unique<LightServer>(session_);
    } else {
      host_ = std::make_unique<SumServer>(session_);
    }
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
        break;
      case 3:
        letter.bytes.resize(std::min<std::size_t>(letter.bytes.size() * (action / 8U) / 24, kMostBytes));
        break;
      case 4:
        letters_.push_back(past_.empty() ? letter : past_[operand % past_.size()]);
        break;
      case 5:
        letter.client = session_.cohort[action / 8U % kClients];
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
  static const CheckedInputs& inputs() {
    static const CheckedInputs kInputs;
    return kInputs;
  }

  // LightSecAgg has a checksum of its own, and its field holds small integers only.
  RingVector input_of(ClientId id) const {
    if (!light_) return inputs().of(id);
    RingVector input(32, SumWorld::kLength);
    for (std::size_t i = 0; i < input.size(); ++i) input.set(i, 1000 * id - 77 * i);
    return input;
  }

  void deliver(std::size_t which) {
    const Letter letter = std::move(letters_[which]);
    letters_.erase(letters_.begin() + static_cast<std::ptrdiff_t>(which));
    if (past_.size() < 64) past_.push_back(letter);
    if (letter.up) {
      (void)host_->receive(letter.client, letter.bytes).ok();
      return;
    }
    auto reply = parties_[letter.client]->receive(letter.bytes);
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
    auto out = host_->close();
    ended_ = !out.ok() || host_->done();
    if (ended_) return;
    for (const auto& [client, bytes] : out.value()) letters_.push_back({client, false, *bytes});
  }

  void check_end() const {
    if (!transcript_.exposed().empty()) std::abort();
    if (!host_->done()) return;
    RingVector plain(32, SumWorld::kLength);
    for (const ClientId id : host_->survivors()) plain.add(input_of(id));
    const bool noticed = !light_ && !inputs().scale.decode(host_->sum(), host_->survivors().size()).ok();
    if (!(host_->sum() == plain) && !noticed) std::abort();
    if (host_->survivors().size() < session_.parameters.least_cohort) std::abort();
  }

  bool light_, ended_ = false;
  SumSession session_;
  std::map<ClientId, std::unique_ptr<SumParty>> parties_;
  std::unique_ptr<SumHost> host_;
  std::deque<Letter> letters_;
  std::vector<Letter> past_;
  std::map<ClientId, Bytes> revealed_;
  Transcript transcript_;
};

}  // namespace
}  // namespace chorus::inline secure

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  chorus::FuzzedSum sum(bytes[0]);
  for (std::size_t i = 1; i + 1 < size && i < 400; i += 2) sum.act(bytes[i], bytes[i + 1]);
  sum.finish();
  return 0;
}
