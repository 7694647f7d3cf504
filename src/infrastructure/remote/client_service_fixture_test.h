#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/transport/inproc/inproc.h"

namespace chorus::inline remote {

/// Replies with the id and the request's value, and records which replies were accepted.
class EchoClients : public Federation {
 public:
  const Roster& roster() const override { return roster_; }
  Traffic traffic() const override { return {}; }
  void end_session(std::uint64_t session) override { ended.push_back(session); }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    const std::set<ClientId> once(cohort.begin(), cohort.end());
    check(once.size() == cohort.size(), "a client is asked once at a time");
    if (request.procedure == "endless") return endless();
    if (request.procedure == "unknown") throw ConfigError("there is no procedure \"unknown\"");
    ++asks;
    const std::vector<ClientId> ids(cohort.begin(), cohort.end());
    return Replies([this, ids, request, next = std::size_t{0}]() mutable -> std::optional<Reply> {
      if (next == ids.size()) return std::nullopt;
      if (request.procedure == "breaks" && next == 1) throw std::runtime_error("the disk is gone");
      Reply reply{.client = ids[next], .slot = next};
      reply.body.numbers = {{"id", ids[next]}, {"own", request.own_of(next).number("own", -1)}};
      if (request.procedure != "stateless") reply.on_accept = [this, id = ids[next]] { accepted.push_back(id); };
      if (during) during(ids[next]);
      ++next;
      return reply;
    });
  }

  void wait(double) override { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  std::atomic<bool> working = false, stopped = false;  // endless work, until nobody wants its replies
  std::function<void(ClientId)> during;                // called on the service's thread before each reply
  std::vector<ClientId> accepted;
  std::vector<std::uint64_t> ended;
  int asks = 0;

 private:
  Replies endless() {
    working = true;
    const std::shared_ptr<void> held(nullptr, [this](void*) { stopped = true; });
    return Replies(
        [held]() -> std::optional<Reply> {
          ADD_FAILURE() << "it never replies";
          return std::nullopt;
        },
        [held] { return false; });
  }

  Roster roster_ = Roster(std::vector<RosterEntry>{
      {.id = 3, .examples = 7}, {.id = 8}, {.id = 9, .examples = 2}, {.id = 10, .examples = 0}});
};

class ClientServiceTest : public testing::Test {
 protected:
  void start() {
    end_ = transport_.connect();
    thread_ = std::thread([this] {
      try {
        ClientService(*end_, clients_, hooks_, limits_).run();
      } catch (const WorldError& error) {
        failure_ = error.what();
      }
    });
    const auto joined = server_->receive(5.0);
    ASSERT_TRUE(joined && joined->kind == TransportEvent::Kind::kJoined);
    peer_ = joined->peer;
    hello_ = next<HelloFrame>();
  }
  void TearDown() override {
    server_.reset();
    if (thread_.joinable()) thread_.join();
  }
  /// Waits for the service to end by itself while the server still runs.
  void expect_end() { thread_.join(); }

  /// Asks a client for work that never ends, and returns once it has begun.
  void ask_for_ever(std::uint64_t number) {
    ask(number, {{3, 0, {}}}, "endless");
    while (!clients_.working) std::this_thread::yield();
  }

  template <typename T>
  T next() {
    const auto event = server_->receive(5.0);
    if (!event || event->kind != TransportEvent::Kind::kFrame) {
      ADD_FAILURE() << "no frame came";
      return {};
    }
    auto frame = decode_frame(event->frame);
    if (!frame.ok() || !std::holds_alternative<T>(frame.value())) {
      ADD_FAILURE() << "another frame came";
      return {};
    }
    return std::get<T>(std::move(frame).value());
  }
  void say(const Frame& frame) { say_bytes(encode_frame(frame)); }
  void say_bytes(std::string bytes) {
    EXPECT_TRUE(server_->send(peer_, std::make_shared<const FrameBytes>(std::move(bytes))));
  }
  void ask(std::uint64_t number, std::vector<CohortFrame::Member> members, const std::string& procedure = "train",
           std::uint64_t round = 1) {
    say(RequestFrame{number, {.procedure = procedure, .round = round}});
    say(CohortFrame{number, std::move(members)});
  }
  /// Returns once everything sent before has been handled.
  void sync(std::uint64_t number = 1) {
    say(SyncFrame{number});
    EXPECT_EQ(next<SyncFrame>().number, number);
  }

  EchoClients clients_;
  ClientServiceHooks hooks_;
  ClientServiceLimits limits_;
  InprocTransport transport_;
  std::unique_ptr<ServerTransport> server_ = transport_.listen();
  std::unique_ptr<ClientTransport> end_;
  std::thread thread_;
  std::string failure_;  // of the service's own machine
  PeerId peer_ = 0;
  HelloFrame hello_;
};

}  // namespace chorus::inline remote
