#include "infrastructure/remote/client_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/spare_buffer.h"
#include "core/console/log.h"

namespace chorus::inline remote {
namespace {

constexpr double kStopSeconds = 0.2;  // how often `stop` is looked at

}  // namespace

void ClientService::run() {
  struct EndSessions {
    ClientService& service;
    ~EndSessions() {
      for (const std::uint64_t session : service.sessions_) service.clients_.end_session(session);
    }
  };
  const EndSessions at_the_end{*this};
  serve();
}

void ClientService::serve() {
  HelloFrame hello;
  for (const RosterEntry& entry : clients_.roster().members()) hello.clients.push_back(entry);
  if (!send(Frame(hello))) return;
  while (!broken_) {
    if (!later_.empty()) {
      Frame frame = std::move(later_.front());
      later_.pop_front();
      handle(std::move(frame));
      continue;
    }
    auto bytes = transport_.receive(hooks_.stop ? std::optional<double>(kStopSeconds) : std::nullopt);
    if (!bytes) {
      if (!transport_.connected() || (hooks_.stop && hooks_.stop())) return;
      continue;
    }
    auto frame = decode_frame(returning_buffer(std::move(*bytes)));
    if (!frame.ok()) {
      Log("client").error("the server cannot be understood: {}", frame.failure().message);
      return;
    }
    handle(std::move(frame).value());
  }
}

// True: it could be handled while clients work.
bool ClientService::handle(Frame frame) {
  if (const auto* accept = std::get_if<AcceptFrame>(&frame)) {
    const auto found = pending_.find({accept->number, accept->slot});
    if (found == pending_.end()) return true;
    if (found->second) found->second();
    pending_.erase(found);
    return true;
  }
  if (const auto* cancel = std::get_if<CancelFrame>(&frame)) {
    cancelled_ = std::max(cancelled_, cancel->number);
    return true;
  }
  if (std::holds_alternative<SyncFrame>(frame)) {
    if (!send(frame)) broken_ = true;
    return true;
  }
  if (const auto* end = std::get_if<EndSessionFrame>(&frame)) {
    clients_.end_session(end->session);
    sessions_.erase(end->session);
    return true;
  }
  if (const auto* control = std::get_if<ControlFrame>(&frame)) {
    if (hooks_.control) hooks_.control(*control);
    return true;
  }
  if (auto* request = std::get_if<RequestFrame>(&frame)) {
    const std::uint64_t round = request->request.round;
    std::erase_if(requests_, [&](const auto& entry) { return entry.second.round != round; });
    std::erase_if(pending_, [&](const auto& entry) { return !requests_.contains(entry.first.first); });
    if (request->request.session != 0) sessions_.insert(request->request.session);
    requests_[request->number] = std::move(request->request);
    return true;
  }
  if (const auto* cohort = std::get_if<CohortFrame>(&frame)) {
    answer(*cohort);
    return true;
  }
  Log("client").error("the server sent what only a client may send");
  broken_ = true;
  return false;
}

void ClientService::handle_control() {
  while (auto bytes = transport_.receive(0.0)) {
    auto frame = decode_frame(returning_buffer(std::move(*bytes)));
    if (!frame.ok()) {
      Log("client").error("the server cannot be understood: {}", frame.failure().message);
      broken_ = true;
      return;
    }
    const bool now = std::holds_alternative<AcceptFrame>(frame.value()) ||
                     std::holds_alternative<CancelFrame>(frame.value()) ||
                     std::holds_alternative<SyncFrame>(frame.value());
    if (now) {
      handle(std::move(frame).value());
    } else {
      later_.push_back(std::move(frame).value());
    }
  }
}

bool ClientService::send(std::uint64_t number, Reply reply) {
  std::function<void()> on_accept = std::move(reply.on_accept);
  const bool keeps = on_accept != nullptr;
  if (keeps) pending_[{number, reply.slot}] = std::move(on_accept);
  return send(Frame(ReplyFrame{number, std::move(reply), keeps}));
}

bool ClientService::send(const Frame& frame) {
  FrameBytes bytes = encode_parts(frame);
  if (hooks_.sending) hooks_.sending(frame, bytes);
  return transport_.send(std::move(bytes));
}

void ClientService::answer(const CohortFrame& cohort) {
  std::vector<ClientId> ids;
  std::vector<bool> replied(cohort.members.size(), false);
  std::string why = "its client process failed";
  try {
    const auto request = requests_.find(cohort.number);
    if (request == requests_.end()) throw DataError("a cohort came without its request");
    if (hooks_.asked) hooks_.asked(cohort);
    // A request is answered once; its model makes room for the next one.
    Request of_part = std::exchange(request->second, Request{.procedure = {}, .round = request->second.round});
    bool own = false;
    for (const CohortFrame::Member& member : cohort.members) {
      if (clients_.roster().find(member.client) == nullptr) throw DataError("a client is asked that is not here");
      ids.push_back(member.client);
      own = own || !member.own.tensors.empty() || !member.own.numbers.empty() || !member.own.texts.empty();
    }
    for (std::size_t i = 0; own && i < cohort.members.size(); ++i) of_part.own.push_back(cohort.members[i].own);
    for (Reply& reply : clients_.ask(ids, std::move(of_part))) {
      handle_control();
      if (broken_ || cancelled_ >= cohort.number) return;
      const std::size_t place = reply.slot;
      replied.at(place) = true;
      reply.slot = cohort.members[place].slot;
      if (!send(cohort.number, std::move(reply))) {
        broken_ = true;
        return;
      }
    }
    return;
  } catch (const std::exception& error) {
    why = error.what();
  }
  for (std::size_t i = 0; i < cohort.members.size(); ++i) {
    if (replied[i]) continue;
    Reply failed;
    failed.client = cohort.members[i].client;
    failed.slot = cohort.members[i].slot;
    failed.failure = why;
    if (!send(cohort.number, std::move(failed))) return;
  }
}

}  // namespace chorus::inline remote
