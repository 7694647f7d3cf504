#include "infrastructure/remote/client_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/spare_buffer.h"
#include "core/console/log.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline remote {
namespace {

constexpr double kStopSeconds = 0.2;  // how often `stop` is looked at
// A transport reads on only once a large message has been taken, so what was sent after it comes a moment later.
constexpr std::size_t kLarge = 16U << 20U;
constexpr double kMoment = 0.005;  // seconds

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
  for (RosterEntry entry : clients_.roster().members()) {
    if (!hooks_.states_sizes && entry.examples > 0.0) entry.examples.reset();
    hello.clients.push_back(std::move(entry));
  }
  if (!send(Frame(hello))) return;
  while (!broken_) {
    if (!later_.empty()) {
      auto [frame, bytes] = std::move(later_.front());
      later_.pop_front();
      held_ -= bytes;
      handle(std::move(frame), bytes);
      continue;
    }
    auto bytes = transport_.receive(hooks_.stop ? std::optional<double>(kStopSeconds) : std::nullopt);
    if (!bytes) {
      if (!transport_.connected() || (hooks_.stop && hooks_.stop())) return;
      continue;
    }
    const std::size_t size = bytes->size();
    auto frame = decode_frame(returning_buffer(std::move(*bytes)));
    if (!frame.ok()) {
      Log("client").error("the server cannot be understood: {}", frame.failure().message);
      return;
    }
    handle(std::move(frame).value(), size);
  }
}

bool ClientService::has_room(std::size_t bytes) {
  const std::size_t held = open_.size() + later_.size() + pending_.size() + sessions_.size();
  if (held < limits_.frames && bytes <= limits_.bytes - std::min(held_, limits_.bytes)) {
    return true;
  }
  const std::string why = fmt::format("more requests than it can hold: at most {} of {:.3g} bytes together",
                                      limits_.frames, static_cast<double>(limits_.bytes));
  Log("client").error("the server sends {}; the connection ends", why);
  (void)send(Frame(ControlFrame{"refuse", "it was sent " + why, ""}));
  broken_ = true;
  return false;
}

// What was asked in other rounds is over.
void ClientService::begin_round(std::uint64_t round) {
  for (auto entry = open_.begin(); entry != open_.end();) {
    if (entry->second.request.round == round) {
      ++entry;
      continue;
    }
    held_ -= entry->second.bytes;
    entry = open_.erase(entry);
  }
  std::erase_if(pending_, [&](const auto& entry) { return entry.second.round != round; });
}

// Its frames came before this one, so they are here.
void ClientService::cancel(std::uint64_t number) {
  if (running_ == number) running_ = 0;
  if (const auto request = open_.find(number); request != open_.end()) {
    held_ -= request->second.bytes;
    open_.erase(request);
  }
  std::erase_if(later_, [&](const auto& entry) {
    const auto* request = std::get_if<RequestFrame>(&entry.first);
    const auto* cohort = std::get_if<CohortFrame>(&entry.first);
    const bool of_it =
        (request != nullptr && request->number == number) || (cohort != nullptr && cohort->number == number);
    if (of_it) held_ -= entry.second;
    return of_it;
  });
}

void ClientService::handle(Frame frame, std::size_t bytes) {
  if (const auto* accept = std::get_if<AcceptFrame>(&frame)) {
    const auto found = pending_.find({accept->number, accept->slot});
    if (found == pending_.end()) return;
    if (found->second.keep) found->second.keep();
    pending_.erase(found);
  } else if (const auto* cancel = std::get_if<CancelFrame>(&frame)) {
    this->cancel(cancel->number);
  } else if (std::holds_alternative<SyncFrame>(frame)) {
    if (!send(frame)) broken_ = true;
  } else if (const auto* end = std::get_if<EndSessionFrame>(&frame)) {
    clients_.end_session(end->session);
    sessions_.erase(end->session);
  } else if (const auto* control = std::get_if<ControlFrame>(&frame)) {
    if (hooks_.control) hooks_.control(*control);
  } else if (auto* request = std::get_if<RequestFrame>(&frame)) {
    begin_round(request->request.round);
    if (!has_room(bytes)) return;
    if (request->request.session != 0) sessions_.insert(request->request.session);
    const auto [held, fresh] = open_.try_emplace(request->number);
    if (!fresh) held_ -= held->second.bytes;
    held->second = {std::move(request->request), bytes};
    held_ += bytes;
  } else if (const auto* cohort = std::get_if<CohortFrame>(&frame)) {
    answer(*cohort);
  } else {
    Log("client").error("the server sent what only a client may send");
    broken_ = true;
  }
}

bool ClientService::ends_nothing(const Frame& frame) const {
  const auto* end = std::get_if<EndSessionFrame>(&frame);
  return end != nullptr && !sessions_.contains(end->session) &&
         std::none_of(later_.begin(), later_.end(), [&](const auto& entry) {
           const auto* request = std::get_if<RequestFrame>(&entry.first);
           return request != nullptr && request->request.session == end->session;
         });
}

void ClientService::handle_control(double patience) {
  while (auto bytes = transport_.receive(patience)) {
    const std::size_t size = bytes->size();
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
      handle(std::move(frame).value(), size);
    } else if (ends_nothing(frame.value())) {
      continue;
    } else if (has_room(size)) {
      later_.emplace_back(std::move(frame).value(), size);
      held_ += size;
    }
    if (broken_) return;
  }
}

bool ClientService::send(std::uint64_t number, std::uint64_t round, Reply reply) {
  std::function<void()> on_accept = std::move(reply.on_accept);
  const bool keeps = on_accept != nullptr, ok = reply.ok();
  const ClientId client = reply.client;
  const std::size_t slot = reply.slot;
  const Frame frame(ReplyFrame{number, std::move(reply), keeps});
  FrameBytes bytes = encode_parts(frame);
  if (std::string why = ok && hooks_.withheld ? hooks_.withheld(bytes.size()) : ""; !why.empty()) {
    Reply refusal;
    refusal.client = client;
    refusal.slot = slot;
    refusal.failure = std::move(why);
    return send(Frame(ReplyFrame{number, std::move(refusal), false}));
  }
  if (keeps) pending_[{number, slot}] = {round, std::move(on_accept)};
  return send(frame, std::move(bytes));
}

bool ClientService::send(const Frame& frame) { return send(frame, encode_parts(frame)); }

bool ClientService::send(const Frame& frame, FrameBytes bytes) {
  if (hooks_.sending) hooks_.sending(frame, bytes);
  return transport_.send(std::move(bytes));
}

// Replies that are dropped stop the work for them (LocalFederation).
std::optional<Reply> ClientService::next_reply(Replies& replies, std::uint64_t number) {
  const auto unwanted = [&] { return broken_ || running_ != number; };
  while (!replies.ready()) {
    clients_.wait(kStopSeconds);
    handle_control(0);
    if (!transport_.connected() || (hooks_.stop && hooks_.stop())) broken_ = true;
    if (unwanted()) return std::nullopt;
  }
  std::optional<Reply> reply = replies.next();
  if (reply) handle_control(0);
  if (unwanted()) reply.reset();
  return reply;
}

void ClientService::answer(const CohortFrame& cohort) {
  running_ = cohort.number;
  const auto asked = open_.find(cohort.number);
  // A client that was busy or suspended finds requests that are over.
  handle_control(asked != open_.end() && asked->second.bytes > kLarge ? kMoment : 0);
  if (broken_ || running_ != cohort.number) return;
  std::vector<ClientId> ids;
  std::vector<bool> replied(cohort.members.size(), false);
  std::string why = "its client process failed";
  std::uint64_t round = 0;
  try {
    const auto request = open_.find(cohort.number);
    if (request == open_.end()) throw DataError("a cohort came without its request");
    if (hooks_.asked) hooks_.asked(cohort);
    // A request is answered once; its model makes room for the next one.
    Request of_part = std::move(request->second.request);
    held_ -= request->second.bytes;
    open_.erase(request);
    round = of_part.round;
    bool own = false;
    for (const CohortFrame::Member& member : cohort.members) {
      if (clients_.roster().find(member.client) == nullptr) throw DataError("a client is asked that is not here");
      ids.push_back(member.client);
      own = own || !member.own.tensors.empty() || !member.own.numbers.empty() || !member.own.texts.empty();
    }
    for (std::size_t i = 0; own && i < cohort.members.size(); ++i) of_part.own.push_back(cohort.members[i].own);
    Replies replies = clients_.ask(ids, std::move(of_part));
    while (std::optional<Reply> reply = next_reply(replies, cohort.number)) {
      const std::size_t place = reply->slot;
      replied.at(place) = true;
      reply->slot = cohort.members[place].slot;
      if (!send(cohort.number, round, *std::move(reply))) {
        broken_ = true;
        return;
      }
    }
    return;
  } catch (const Interrupted&) {
    broken_ = true;
    return;
  } catch (const WorldError&) {  // a full disk, for example: this process ends, and nothing is told in its name
    throw;
  } catch (const std::exception& error) {
    why = first_line(error);
  }
  for (std::size_t i = 0; i < cohort.members.size(); ++i) {
    if (replied[i]) continue;
    Reply failed;
    failed.client = cohort.members[i].client;
    failed.slot = cohort.members[i].slot;
    failed.failure = why;
    if (!send(cohort.number, round, std::move(failed))) return;
  }
}

}  // namespace chorus::inline remote
