// Speed of secure sums: CPU seconds of one client and of the server, without serialisation to a network.
//
//     build/secure_sum [--clients 100] [--length 100000] [--neighbours 99] [--threshold 67] [--dropout 0.1]
//                      [--active] [--threads 1]
//
// Prints one JSON object. Clients drop out after sharing their keys, the most expensive moment for the server.

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "algorithm/secure/sum_client.h"
#include "algorithm/secure/sum_server.h"

namespace chorus::inline bench {
namespace {

struct Arguments {
  std::size_t clients = 100, length = 100'000, neighbours = 99, threshold = 67;
  double dropout = 0.1;
  bool active = false;
  unsigned threads = 1;
};

/// Adds the CPU time of this thread, or with several threads the wall time, during its lifetime.
class Timer {
 public:
  Timer(double& total, bool wall) : total_(total), wall_(wall), begin_(now()) {}
  ~Timer() { total_ += now() - begin_; }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  double now() const {
    if (wall_) return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    std::timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double& total_;
  bool wall_;
  double begin_;
};

int measure(const Arguments& arguments) {
  SumSession session;
  SumParameters& parameters = session.parameters;
  parameters.trust = arguments.active ? Trust::kActive : Trust::kSemiHonest;
  parameters.neighbours = arguments.neighbours;
  parameters.threshold = arguments.threshold;
  parameters.length = arguments.length;
  std::map<ClientId, SigningKeys> identities;
  for (ClientId id = 0; id < arguments.clients; ++id) {
    session.cohort.push_back(id);
    if (!arguments.active) continue;
    identities[id] = new_signing_keys();
    session.identities[id] = identities[id].open;
  }
  const auto dropped = static_cast<ClientId>(arguments.dropout * static_cast<double>(arguments.clients));
  double client_seconds = 0, server_seconds = 0;
  std::size_t bytes_up = 0;
  RingVector expected(32, arguments.length);
  std::map<ClientId, std::unique_ptr<SumClient>> clients;
  SumServer server(session, arguments.threads);
  const bool wall = arguments.threads > 1;
  const auto deliver = [&](ClientId id, const Bytes& message) {
    if (id + 1 == arguments.clients) bytes_up += message.size();
    const Timer timer(server_seconds, wall);
    if (!server.receive(id, message).ok()) throw std::runtime_error("the server refuses a message");
  };
  for (const ClientId id : session.cohort) {
    RingVector input(32, arguments.length);
    for (std::size_t i = 0; i < arguments.length; ++i) input.set(i, id * 2654435761U + i);
    if (id >= dropped) expected.add(input);
    const Secret<64>* identity = arguments.active ? &identities[id].secret : nullptr;
    {
      const Timer timer(client_seconds, false);
      clients[id] = std::make_unique<SumClient>(session, id, identity, std::move(input));
    }
    deliver(id, clients[id]->advertise());
  }
  for (std::size_t phase = 1; server.phase() != SumServer::Phase::kDone; ++phase) {
    SumServer::Outgoing out;
    {
      const Timer timer(server_seconds, wall);
      out = server.close().value_or_throw();
    }
    for (const auto& [id, message] : out) {
      if (phase >= 2 && id < dropped) continue;
      Bytes reply;
      {
        const Timer timer(client_seconds, false);
        reply = clients[id]->receive(*message).value_or_throw();
      }
      deliver(id, reply);
    }
  }
  if (!(server.sum() == expected)) throw std::runtime_error("the sum is wrong");
  const double survivors = static_cast<double>(arguments.clients - dropped);
  const nlohmann::json result = {{"clients", arguments.clients},       {"length", arguments.length},
                                 {"neighbours", arguments.neighbours}, {"threshold", arguments.threshold},
                                 {"dropout", arguments.dropout},       {"trust", name_of(parameters.trust)},
                                 {"threads", arguments.threads},       {"client_seconds", client_seconds / survivors},
                                 {"server_seconds", server_seconds},   {"bytes_up", bytes_up}};
  std::cout << result.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus::inline bench

int main(int argc, char** argv) {
  CLI::App app("Speed of secure sums");
  chorus::bench::Arguments arguments;
  app.add_option("--clients", arguments.clients, "Clients")->capture_default_str();
  app.add_option("--length", arguments.length, "Elements of an input")->capture_default_str();
  app.add_option("--neighbours", arguments.neighbours, "k")->capture_default_str();
  app.add_option("--threshold", arguments.threshold, "t")->capture_default_str();
  app.add_option("--dropout", arguments.dropout, "Share of clients that vanish")->capture_default_str();
  app.add_flag("--active", arguments.active, "Against an active server");
  app.add_option("--threads", arguments.threads, "Of the server's last step")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return chorus::bench::measure(arguments);
  } catch (const std::exception& error) {
    std::cerr << "secure_sum: " << error.what() << "\n";
    return 1;
  }
}
