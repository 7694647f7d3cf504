#pragma once

#include <map>
#include <memory>

#include "algorithm/secure/light_server.h"
#include "tests/sum_world.h"

namespace chorus::inline tests {

/// What a hostile server makes of damaged bytes: the end of the message belongs to them again.
inline Bytes with_right_end(Bytes message) {
  const auto body = body_of(message);
  if (!body || kHeadBytes + body->size() == message.size()) return message;
  message.resize(kHeadBytes + body->size());
  return end_message(std::move(message));
}

/// Clients and a server of one secure sum of any protocol. A changed input is noticed: SecAgg's have a checksum, and
/// LightSecAgg adds its own.
struct AnySum {
  AnySum(SumParameters parameters, std::size_t clients, bool is_light = false) : light(is_light) {
    session.parameters = parameters;
    session.parameters.length = SumWorld::kLength;
    const bool active = parameters.trust == Trust::kActive;
    for (ClientId i = 0; i < clients; ++i) session.cohort.push_back(3 * i + 2);
    for (const ClientId id : session.cohort) {
      if (active) session.identities[id] = SumWorld::identity(id)->open;
    }
    for (const ClientId id : session.cohort) parties[id] = make_party(id, session);
    if (light) {
      host = std::make_unique<LightServer>(session);
    } else {
      host = std::make_unique<SumServer>(session);
    }
  }

  std::unique_ptr<PhasedClient> make_party(ClientId id, const SumSession& of) const {
    if (light) return std::make_unique<LightClient>(of, id, input_of(id));
    const bool active = of.parameters.trust == Trust::kActive;
    return std::make_unique<SumClient>(of, id, active ? &SumWorld::identity(id)->secret : nullptr, input_of(id));
  }

  static const CheckedInputs& inputs() {
    static const CheckedInputs kInputs;
    return kInputs;
  }
  RingVector input_of(ClientId id) const {
    if (!light) return inputs().of(id);
    RingVector input(32, SumWorld::kLength);  // its field holds small integers only
    for (std::size_t i = 0; i < input.size(); ++i) input.set(i, 1000 * id - 77 * i);
    return input;
  }

  /// The server has a sum that it would use.
  bool usable() const {
    return host->done() && (light || inputs().scale.decode(host->sum(), host->survivors().size()).ok());
  }
  bool exact() const {
    RingVector plain(32, SumWorld::kLength);
    for (const ClientId id : host->survivors()) plain.add(input_of(id));
    return host->sum() == plain;
  }

  bool light;
  SumSession session;
  std::map<ClientId, std::unique_ptr<PhasedClient>> parties;
  std::unique_ptr<PhasedServer> host;
};

/// A sum that is honest up to the messages of one phase, which are on their way.
struct PausedSum {
  enum Kind { kSemiHonest, kActive, kSparse, kSparseActive, kLight };
  static constexpr int kKinds = 5;

  PausedSum(int kind, std::size_t of) : sum(make(kind)) {
    for (const auto& [id, party] : sum.parties) up[id] = party->advertise();
    for (std::size_t phase = 1; phase <= of; ++phase) {
      deliver();
      down = sum.host->close().value_or_throw();
      if (phase < of) reply();
    }
  }
  static std::size_t phases(int kind) { return kind == kActive || kind == kSparseActive ? 4 : 3; }
  /// The clients receive what they were sent.
  void reply() {
    up.clear();
    for (const auto& [id, message] : down) {
      auto reply = sum.parties[id]->receive(*message);
      if (reply.ok()) up[id] = std::move(reply.value());
    }
  }
  void deliver() {
    for (const auto& [id, message] : up) (void)sum.host->receive(id, message).ok();
  }
  /// To the end, honestly.
  void finish() {
    while (!sum.host->done()) {
      deliver();
      auto next = sum.host->close();
      if (!next.ok()) return;
      down = next.value();
      reply();
    }
  }

  AnySum sum;
  SumHost::Outgoing down;
  std::map<ClientId, Bytes> up;

 private:
  static AnySum make(int kind) {
    const Trust trust = kind == kActive || kind == kSparseActive ? Trust::kActive : Trust::kSemiHonest;
    if (kind == kLight) return {light_parameters(4, 0.2, 0.3), 4, true};
    if (kind == kSparse || kind == kSparseActive) return {ring_of_four(trust), 7};
    return {complete_graph(4, trust), 4};
  }
};

}  // namespace chorus::inline tests
