#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/serving/client_board.h"
#include "apps/serving/job_offer.h"
#include "core/base/error.h"
#include "core/ports/federation.h"
#include "core/ports/transport.h"
#include "infrastructure/remote/remote_federation.h"

namespace chorus::inline serving {

/// Names and ids of a run's clients: the file `fleet.json` of its run folder. Ids are given once and never change: to
/// the members of the fleet in the order they were invited, then to those who come later.
class ClientNames {
 public:
  explicit ClientNames(std::filesystem::path path);
  /// Gives an id to a name that has none.
  ClientId id_of(const std::string& name);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::filesystem::path path_;
  std::vector<std::string> names_;  // by id
};

struct ServedClientsInput {
  ServerTransport& transport;  ///< borrowed, as are the names
  ClientNames& names;
  Job job;                          ///< without a client
  ModelFiles files;                 ///< that it names
  std::uint64_t layout = 0;         ///< fingerprint of what trains
  std::size_t least = 1;            ///< replies that a request needs; of a smaller cohort all
  double deadline = 0;              ///< seconds for a reply, or for all of a client in a session; 0: no limit
  double rest = 300;                ///< seconds that a client is not asked after its policy forbade something
  std::function<bool()> stop = {};  ///< true: give up; asked several times per second while replies are awaited
  /// A client refuses the job, for a log: its name and why.
  std::function<void(const std::string& name, const std::string& why)> refused = {};
};

/// The clients of a fleet as a server reaches them. A client that connects gets the job and the files it lacks; it is
/// on the roster once it is ready. A request that changes the model needs `least` replies within the deadline; with
/// fewer it throws TooFewReplies, and no client keeps what it learnt. Who makes background requests counts their
/// replies himself (RoundInput::least). A client whose policy forbids a request (at this hour, so many bytes) rests, so
/// that the others are asked when the round is repeated.
class ServedClients : public Federation {
 public:
  explicit ServedClients(ServedClientsInput input);

  /// Handles what arrives until so many clients can be asked. False: not within so many seconds.
  bool wait_for(std::size_t clients, double seconds) { return remote_.wait_for(clients, seconds); }
  /// Handles what arrives, as RemoteFederation::poll does.
  void poll(double seconds = 0) { remote_.poll(seconds); }
  /// What each client does now.
  std::vector<ClientNow> states();
  /// Clients that are connected, and not asked for a while.
  std::size_t resting() const;
  /// Which state of each client is the current one; see RemoteFederation.
  std::map<ClientId, std::uint64_t> kept() const { return remote_.kept(); }
  void restore_kept(std::map<ClientId, std::uint64_t> kept) { remote_.restore_kept(std::move(kept)); }
  /// Clients that took part, were gone, connected again less than so many seconds ago, and are getting ready. The time
  /// counts from their first connection since they were ready: nobody waits for one that connects again and again.
  std::size_t returning(double seconds);
  /// Tells all clients that the run has ended.
  void finish();

  const Roster& roster() const override { return remote_.roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override;
  void end_session(std::uint64_t session) override;
  Traffic traffic() const override { return remote_.traffic(); }
  bool real_time() const override { return true; }
  void wait(double seconds) override { remote_.wait(seconds); }

 private:
  RemoteFederationInput remote_input();
  void welcome(PeerId peer, const std::string& name);
  void note_ready();
  void hear(PeerId peer, const std::string& name, const ControlFrame& frame);
  Replies watched(std::span<const ClientId> cohort, Request request);
  void limit_time(std::uint64_t session, Reply& reply);
  void send_file(PeerId peer, const std::string& digest);

  ServedClientsInput input_;
  std::map<std::string, std::weak_ptr<const FrameBytes>> frames_;  // of files under way, by digest
  std::set<std::pair<PeerId, std::string>> sent_;                  // no file twice over one connection
  std::shared_ptr<ClientBoard> board_ = std::make_shared<ClientBoard>();
  std::map<std::string, std::chrono::steady_clock::time_point> connected_;  // when each did first since it was ready
  std::map<std::uint64_t, std::map<ClientId, double>> spent_;               // seconds of each client in open sessions
  RemoteFederation remote_;
};

}  // namespace chorus::inline serving
