#include "apps/serving/served_clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/console/terminal.h"
#include "core/files/files.h"

namespace chorus::inline serving {
namespace {

constexpr std::size_t kMostReason = 300;  // characters of what a client says

/// Procedures that measure and change nothing; a missing reply spoils nothing.
bool only_measures(const std::string& procedure) {
  return procedure == "evaluate" || procedure == "loss" || procedure.ends_with("/evaluate");
}

/// Numbers of requests that no earlier process of this run has used: clients name their states by them.
std::uint64_t unused_number() { return static_cast<std::uint64_t>(std::random_device{}()) << 24U; }

/// Counts usable replies, and lets clients keep their new state only when there are enough.
struct Quorum {
  Replies inner;
  std::size_t least, asked;
  std::uint64_t round;
  std::size_t usable = 0;
  std::string last_failure = {};
  std::vector<std::function<void()>> accepted = {};  // that wait for the others

  void accept(const std::function<void()>& keep) {
    if (usable >= least) {
      keep();
    } else {
      accepted.push_back(keep);
    }
  }
};

}  // namespace

ClientNames::ClientNames(std::filesystem::path path) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) return;
  const auto json = nlohmann::json::parse(read_file(path_, 1U << 30U), nullptr, false);
  const auto list = json.is_object() ? json.find("clients") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) {
    throw DataError(fmt::format("{} is damaged; put it back from a backup, or start a new run", path_.string()));
  }
  for (const auto& name : *list) names_.push_back(name.is_string() ? name.get<std::string>() : "");
}

ClientId ClientNames::id_of(const std::string& name) {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end()) return static_cast<ClientId>(found - names_.begin());
  names_.push_back(name);
  write_file(path_, nlohmann::json{{"format", 1}, {"clients", names_}}.dump(1) + "\n");
  return static_cast<ClientId>(names_.size() - 1);
}

ServedClients::ServedClients(ServedClientsInput input) : input_(std::move(input)), remote_(remote_input()) {}

RemoteFederationInput ServedClients::remote_input() {
  RemoteFederationInput remote{input_.transport, input_.job.run, input_.layout, input_.stop};
  remote.joined = [this](PeerId peer, const std::string& name) { welcome(peer, name); };
  remote.control = [this](PeerId peer, const std::string& name, const ControlFrame& frame) { hear(peer, name, frame); };
  remote.before_first = unused_number();
  remote.id_of = [this](const std::string& name) -> std::optional<ClientId> {
    if (name.empty()) return std::nullopt;
    return input_.names.id_of(name);
  };
  return remote;
}

void ServedClients::welcome(PeerId peer, const std::string& name) {
  if (name.empty()) {
    Log("serve").warning("a peer without a certificate is ignored");
    return;
  }
  Log("serve").info("{} is connected", name);
  connected_.try_emplace(name, std::chrono::steady_clock::now());
  Job job = input_.job;
  job.client = input_.names.id_of(name);
  input_.transport.send(peer,
                        std::make_shared<const FrameBytes>(encode_frame(ControlFrame{kJobTopic, to_json(job), ""})));
}

void ServedClients::hear(PeerId peer, const std::string& name, const ControlFrame& frame) {
  if (frame.topic == kRefuseTopic) {
    const std::string why = shortened(frame.text, kMostReason);
    Log("serve").warning("{} does not take part: {}", name, why);
    connected_.erase(name);
    if (input_.refused) input_.refused(name, why);
    return;
  }
  try {
    if (frame.topic != kWantTopic) throw DataError("its topic is not known");
    for (const std::string& digest : parse_wanted(frame.text, input_.files.files.size())) send_file(peer, digest);
  } catch (const DataError& error) {
    Log("serve").warning("{} said what this server does not understand ({}); it is ignored", name, error.what());
  }
}

void ServedClients::send_file(PeerId peer, const std::string& digest) {
  const auto path = input_.files.paths.find(digest);
  if (path == input_.files.paths.end() || !sent_.emplace(peer, digest).second) return;
  auto frame = frames_[digest].lock();
  if (!frame) {
    frame = std::make_shared<const FrameBytes>(encode_frame(ControlFrame{kFileTopic, digest, read_file(path->second)}));
    frames_[digest] = frame;
  }
  input_.transport.send(peer, frame);
}

void ServedClients::note_ready() {
  for (const RosterEntry& member : roster().members()) {
    if (member.alive) connected_.erase(member.name);
  }
}

std::vector<ClientNow> ServedClients::states() {
  note_ready();
  std::vector<ClientNow> states = board_->states(roster(), std::chrono::steady_clock::now());
  const auto members = roster().members();
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (remote_.rests(members[i].id)) states[i].state = kResting;
  }
  return states;
}

std::size_t ServedClients::resting() const {
  const auto members = roster().members();
  return static_cast<std::size_t>(
      std::count_if(members.begin(), members.end(), [&](const RosterEntry& each) { return remote_.rests(each.id); }));
}

std::size_t ServedClients::returning(double seconds) {
  note_ready();
  const auto now = std::chrono::steady_clock::now();
  std::size_t count = 0;
  for (const RosterEntry& member : roster().members()) {
    const auto since = connected_.find(member.name);
    if (member.alive || since == connected_.end()) continue;
    count += std::chrono::duration<double>(now - since->second).count() < seconds ? 1 : 0;
  }
  return count;
}

void ServedClients::finish() { remote_.tell_all({kFinishedTopic, "", ""}); }

Replies ServedClients::watched(std::span<const ClientId> cohort, Request request) {
  const bool background = request.background;
  board_->asked(cohort, std::chrono::steady_clock::now(), background);
  const std::uint64_t session = request.session;
  const auto replies = std::make_shared<Replies>(remote_.ask(cohort, std::move(request)));
  const auto next = [this, replies, session, background] {
    std::optional<Reply> reply = replies->next();
    if (reply && session != 0) limit_time(session, *reply);
    if (reply) board_->replied(*reply, std::chrono::steady_clock::now(), background);
    if (reply && reply->failure.starts_with(kRefuses)) {
      const std::string& name = input_.names.names().at(reply->client);
      remote_.rest(reply->client, input_.rest);
      connected_.erase(name);  // nobody waits for it
      if (input_.refused) input_.refused(name, shortened(reply->failure.substr(kRefuses.size()), kMostReason));
    }
    return reply;
  };
  return Replies(next, [replies] { return replies->ready(); });
}

// A client that takes part in many messages has one deadline for all of them: otherwise it could go on for ever.
void ServedClients::limit_time(std::uint64_t session, Reply& reply) {
  if (input_.deadline <= 0 || !reply.ok()) return;
  double& spent = spent_[session][reply.client];
  spent += reply.seconds;
  if (spent <= input_.deadline) return;
  Reply late{.client = reply.client, .slot = reply.slot};
  late.bytes_down = reply.bytes_down;
  late.bytes_up = reply.bytes_up;
  late.failure = fmt::format("its part of the round took over {:g} seconds", input_.deadline);
  reply = std::move(late);
  remote_.rest(reply.client, input_.rest);  // the round may be repeated without it
}

void ServedClients::end_session(std::uint64_t session) {
  spent_.erase(session);
  remote_.end_session(session);
}

Replies ServedClients::ask(std::span<const ClientId> cohort, Request request) {
  if (input_.deadline > 0 && !request.deadline) request.deadline = input_.deadline;
  if (request.background || only_measures(request.procedure)) return watched(cohort, std::move(request));
  std::size_t least = std::min(input_.least, cohort.size());
  if (request.enough > 0) least = std::min(least, request.enough);
  const std::uint64_t round = request.round;
  const auto quorum =
      std::make_shared<Quorum>(Quorum{watched(cohort, std::move(request)), least, cohort.size(), round});
  return Replies([quorum]() -> std::optional<Reply> {
    auto reply = quorum->inner.next();
    if (!reply) {
      if (quorum->usable >= quorum->least) return std::nullopt;
      throw TooFewReplies(fmt::format("round {}: only {} of {} clients replied, and {} are needed{}", quorum->round,
                                      quorum->usable, quorum->asked, quorum->least,
                                      quorum->last_failure.empty() ? "" : "; the last: " + quorum->last_failure));
    }
    if (!reply->ok()) {
      quorum->last_failure = reply->failure;
      return reply;
    }
    if (++quorum->usable == quorum->least) {
      for (const auto& keep : quorum->accepted) keep();
      quorum->accepted.clear();
    }
    if (reply->on_accept) {
      reply->on_accept = [quorum, keep = std::move(reply->on_accept)] { quorum->accept(keep); };
    }
    return reply;
  });
}

}  // namespace chorus::inline serving
