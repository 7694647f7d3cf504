// A server and a client process whose peers send frames in any order, valid and forged (tools/fuzz). No reply counts
// twice or for another client, and a client keeps a state only for a reply that it has sent.
#include <ATen/ATen.h>

#include <cstdlib>
#include <set>

#include "core/base/error.h"
#include "core/console/quiet_console.h"
#include "core/device/torch_runtime.h"
#include "core/ports/procedure.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"
#include "tests/contract/quadratic_clients.h"
#include "tests/fuzz/forgery.h"

namespace chorus::inline fuzz {
namespace {

constexpr std::size_t kPeers = 3;
constexpr std::int64_t kParameters = 4;

Message some_message(Dice& dice) {
  Message message;
  message.tensors["update"] = at::ones({kParameters});
  message.tensors["model"] = at::ones({kParameters});
  message.numbers = {{"examples", 3}, {"loss", 1}, {"mu", 0.1}, {"steps", 1}};
  for (std::size_t i = dice.below(4); i > 0; --i) forge(message, dice);
  return message;
}

/// Of a few, so that some fit what was asked.
std::uint64_t number(Dice& dice) { return dice.below(16) == 15 ? ~std::uint64_t{0} - dice.below(3) : dice.below(5); }

Frame some_frame(Dice& dice, bool from_client) {
  static const std::vector<std::string> kProcedures = Procedures::names();
  switch (from_client ? dice.below(6) : 3 + dice.below(9)) {
    case 0: {
      HelloFrame hello;
      for (std::size_t i = dice.below(4); i > 0; --i) {
        hello.clients.push_back({.id = static_cast<ClientId>(number(dice)), .name = dice.text(3), .examples = 1.0});
      }
      return hello;
    }
    case 1:
    case 2: {
      ReplyFrame reply{number(dice), {}, dice.below(2) == 1};
      reply.reply.client = static_cast<ClientId>(number(dice));
      reply.reply.slot = number(dice);
      reply.reply.body = some_message(dice);
      if (dice.below(4) == 3) reply.reply.failure = dice.text(5);
      return reply;
    }
    case 3:
      return SyncFrame{number(dice)};
    case 4:
      return ControlFrame{dice.text(6), dice.text(9), dice.text(9)};
    case 5:
      return AcceptFrame{number(dice), number(dice)};
    case 6:
      return CancelFrame{number(dice)};
    case 7:
      return EndSessionFrame{number(dice)};
    case 8:
    case 9: {
      RequestFrame request{number(dice), {}};
      request.request.procedure = dice.below(8) == 7 ? dice.text(9) : kProcedures[dice.below(kProcedures.size())];
      request.request.round = number(dice);
      request.request.session = dice.below(2) == 1 ? number(dice) : 0;
      request.request.body = some_message(dice);
      return request;
    }
    case 10:
    case 11:
      break;
  }
  CohortFrame cohort{number(dice), {}};
  for (std::size_t i = dice.below(4); i > 0; --i) {
    cohort.members.push_back({static_cast<ClientId>(number(dice)), number(dice), {}, number(dice)});
    if (dice.below(2) == 1) cohort.members.back().own = some_message(dice);
  }
  return cohort;
}

std::string some_bytes(Dice& dice, bool from_client) {
  std::string bytes = encode_frame(some_frame(dice, from_client));
  if (dice.below(8) == 7 && !bytes.empty()) bytes[dice.below(bytes.size())] = static_cast<char>(dice.byte());
  return bytes;
}

/// Peers that come, send and leave as the dice say, and are gone at the end.
class HostilePeers final : public ServerTransport {
 public:
  explicit HostilePeers(Dice& dice) : dice_(dice) {}
  bool send(PeerId, std::shared_ptr<const FrameBytes>, bool) override { return dice_.below(16) != 15; }
  std::optional<TransportEvent> receive(std::optional<double>) override {
    TransportEvent event;
    if (dice_.over()) {
      if (gone_ == kPeers) return std::nullopt;
      event.kind = TransportEvent::Kind::kLeft;
      event.peer = ++gone_;
      return event;
    }
    event.peer = 1 + dice_.below(kPeers);
    const std::size_t kind = dice_.below(16);
    event.kind = kind == 0   ? TransportEvent::Kind::kLeft
                 : kind == 1 ? TransportEvent::Kind::kJoined
                             : TransportEvent::Kind::kFrame;
    if (kind == 1 && dice_.below(2) == 1) event.identity = dice_.text(2);
    if (kind > 1) event.frame = some_bytes(dice_, true);
    return event;
  }

 private:
  Dice& dice_;
  std::size_t gone_ = 0;
};

void try_server(Dice& dice) {
  HostilePeers peers(dice);
  RemoteFederationInput input{peers, 1, 2};
  input.patience = 1e-4;
  RemoteFederation federation(input);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    (void)federation.wait_for(2, 1e-4);
    std::vector<ClientId> cohort;
    for (const RosterEntry& entry : federation.roster().members()) cohort.push_back(entry.id);
    Request request{.procedure = "train", .round = round};
    request.enough = dice.below(3);
    std::set<std::size_t> slots;
    for (Reply& reply : federation.ask(cohort, std::move(request))) {
      if (reply.slot >= cohort.size() || cohort[reply.slot] != reply.client) std::abort();
      if (!slots.insert(reply.slot).second) std::abort();
      if (reply.ok() && dice.below(2) == 1) reply.accept();
    }
    if (slots.size() != cohort.size()) std::abort();
  }
}

class HostileServer final : public ClientTransport {
 public:
  explicit HostileServer(Dice& dice) : dice_(dice) {}
  bool send(FrameBytes bytes) override {
    const auto frame = decode_frame(bytes.flat());
    if (!frame.ok()) std::abort();
    if (const auto* reply = std::get_if<ReplyFrame>(&frame.value()); reply != nullptr && reply->keeps) ++kept_;
    return dice_.below(32) != 31;
  }
  std::optional<std::string> receive(std::optional<double> seconds) override {
    if (dice_.over() || (seconds && dice_.below(2) == 1)) return std::nullopt;
    return some_bytes(dice_, false);
  }
  bool connected() const override { return !dice_.over(); }
  std::size_t kept() const { return kept_; }

 private:
  Dice& dice_;
  std::size_t kept_ = 0;  // replies with a state
};

void try_client(Dice& dice) {
  quadratic::World world{.clients = {{.examples = 3}, {.target = 1, .steps = 2}}, .parameters = kParameters};
  LocalFederation clients(quadratic::federation_input(world));
  HostileServer server(dice);
  ClientService(server, clients).run();
  if (world.states.size() > server.kept()) std::abort();
}

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  static const QuietConsole kQuiet;
  static const TorchThreads kOne(1);
  Dice dice(bytes, size);
  if (dice.below(2) == 0) {
    try_server(dice);
  } else {
    try_client(dice);
  }
  return 0;
}
