#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "algorithm/secure/common_scale.h"
#include "algorithm/secure/sum_client.h"
#include "algorithm/secure/sum_server.h"

namespace chorus::inline tests {

/// Cases of a random test; a longer run sets the variable.
inline std::size_t secure_cases(std::size_t usual) {
  const char* wanted = std::getenv("CHORUS_SECURE_CASES");
  return wanted == nullptr ? usual : static_cast<std::size_t>(std::atoll(wanted));
}

/// A sparse graph: each client has four neighbours, of which three reconstruct a secret.
inline SumParameters ring_of_four(Trust trust) {
  SumParameters parameters;
  parameters.trust = trust;
  parameters.neighbours = 4;
  parameters.threshold = 3;
  parameters.colluding = 1;
  parameters.least_cohort = 3;
  return parameters;
}

/// What the server, and anyone who reads its disk, has seen of the clients' secrets.
class Transcript {
 public:
  void see(ClientId from, ByteView message) {
    const auto head = read_head(message);
    if (!head || head->type != MessageType::kUnmask) return;
    auto revealed = read_revealed(message);
    if (!revealed) return;
    for (const RevealedShare& entry : *revealed) seen_[entry.client][entry.kind].insert(from);
  }
  std::size_t shares(ClientId owner, RevealedShare::Kind kind) const {
    const auto found = seen_.find(owner);
    if (found == seen_.end()) return 0;
    const auto of_kind = found->second.find(kind);
    return of_kind == found->second.end() ? 0 : of_kind->second.size();
  }
  /// Clients for which both kinds of shares were seen, at least `count` of each.
  std::set<ClientId> exposed(std::size_t count = 1) const {
    std::set<ClientId> result;
    for (const auto& entry : seen_) {
      if (shares(entry.first, RevealedShare::Kind::kOwnMask) >= count &&
          shares(entry.first, RevealedShare::Kind::kMaskingKey) >= count) {
        result.insert(entry.first);
      }
    }
    return result;
  }
  bool empty() const { return seen_.empty(); }

 private:
  std::map<ClientId, std::map<RevealedShare::Kind, std::set<ClientId>>> seen_;
};

/// Clients and a server of one secure sum in one process, with known inputs.
class SumWorld {
 public:
  static constexpr std::size_t kLength = 7;

  SumWorld(std::size_t clients, SumParameters parameters, std::uint8_t attempt = 1) {
    parameters.length = kLength;
    session.parameters = parameters;
    session.nonce.fill(static_cast<std::byte>(attempt));
    for (std::size_t i = 0; i < clients; ++i) session.cohort.push_back(static_cast<ClientId>(3 * i + 2));
    if (parameters.trust == Trust::kActive) {
      for (const ClientId id : session.cohort) {
        identities[id] = identity(id);
        session.identities[id] = identities[id]->open;
      }
    }
    for (const ClientId id : session.cohort) clients_.emplace(id, make_client(id, session));
    server = std::make_unique<SumServer>(session);
  }

  /// Identities are long-lived and slow to create.
  static std::shared_ptr<const SigningKeys> identity(ClientId id) {
    static std::map<ClientId, std::shared_ptr<const SigningKeys>> all;
    auto& keys = all[id];
    if (!keys) keys = std::make_shared<const SigningKeys>(new_signing_keys());
    return keys;
  }

  std::unique_ptr<SumClient> make_client(ClientId id, const SumSession& of) const {
    const Secret<64>* secret = of.parameters.trust == Trust::kActive ? &identities.at(id)->secret : nullptr;
    return std::make_unique<SumClient>(of, id, secret, input_of(id));
  }

  RingVector input_of(ClientId id) const {
    RingVector input(session.parameters.ring_bits, session.parameters.length);
    for (std::size_t i = 0; i < input.size(); ++i) input.set(i, 0x9E3779B97F4A7C15ULL * (id * 31 + i + 1));
    return input;
  }

  RingVector plain_sum(const std::vector<ClientId>& of) const {
    RingVector sum(session.parameters.ring_bits, session.parameters.length);
    for (const ClientId id : of) sum.add(input_of(id));
    return sum;
  }

  SumClient& client(ClientId id) { return *clients_.at(id); }
  void forget(ClientId id) { clients_.erase(id); }
  ClientId id(std::size_t i) const { return session.cohort.at(i); }
  std::size_t phases() const { return session.parameters.trust == Trust::kActive ? 5 : 4; }

  /// Delivers a client's message to the server; returns whether it was new.
  bool deliver(ClientId from, const Bytes& message) {
    transcript.see(from, message);
    const auto accepted = server->receive(from, message);
    return accepted.ok() && accepted.value() == SumServer::Accepted::kNew;
  }

  /// The first phase, for clients with `alive(id, 0)`.
  void advertise(const std::function<bool(ClientId, std::size_t)>& alive) {
    for (const ClientId id : session.cohort) {
      if (alive(id, 0)) deliver(id, client(id).advertise());
    }
  }

  /// Closes the server's phase and delivers the replies of clients that are alive in phase `phase`. False: aborted.
  bool step(std::size_t phase, const std::function<bool(ClientId, std::size_t)>& alive) {
    auto out = server->close();
    if (!out.ok()) return false;
    for (const auto& [id, message] : out.value()) {
      sent[phase][id] = *message;
      if (!alive(id, phase)) continue;
      auto reply = client(id).receive(*message);
      if (reply.ok()) deliver(id, reply.value());
    }
    return true;
  }

  /// The whole sum; `alive(id, p)`: the client replies in phase p. Nothing: aborted.
  std::optional<RingVector> run(const std::function<bool(ClientId, std::size_t)>& alive) {
    advertise(alive);
    for (std::size_t phase = 1; phase <= phases(); ++phase) {
      if (!step(phase, alive)) return std::nullopt;
      if (server->phase() == SumServer::Phase::kDone) return server->sum();
    }
    return std::nullopt;
  }

  SumSession session;
  std::map<ClientId, std::shared_ptr<const SigningKeys>> identities;
  std::unique_ptr<SumServer> server;
  Transcript transcript;
  std::map<std::size_t, std::map<ClientId, Bytes>> sent;  // by the server, by phase

 private:
  std::map<ClientId, std::unique_ptr<SumClient>> clients_;
};

/// Inputs with a weight and a checksum, as they are used: a changed masked input must not go unnoticed.
struct CheckedInputs {
  CheckedInputs() : scale({.clip = 1, .bits = 16, .clients = 8}, 32, SumWorld::kLength - 2, 5) {}
  RingVector of(ClientId id) const {
    std::vector<float> values;
    for (std::size_t i = 0; i + 2 < SumWorld::kLength; ++i) {
      values.push_back(static_cast<float>((id * 7 + i * 3) % 11) / 11 - 0.4F);
    }
    return scale.encode(values, 1, {.seed = 8, .purpose = "input", .client = id}).value();
  }
  CommonScale scale;
};

inline bool always(ClientId, std::size_t) { return true; }

}  // namespace chorus::inline tests
