// Speed of secure sums: CPU seconds of one client and of the server, without serialisation to a network.
//
//     build/secure_sum [--clients 100] [--length 100000] [--neighbours 99] [--threshold 67] [--dropout 0.1]
//                      [--active] [--threads 1]
//     build/secure_sum --table [--rows 1,2,3] [--threads 1]
//
// Prints one JSON object; with --table a row for each setting of a reference measurement (X25519, Shamir, AES-CTR, one
// thread at 2.8 GHz): its seconds and ours, and what a client may upload, 4 bytes per element + 130 k + 2048. Clients
// drop out after sharing their keys, the most expensive moment for the server.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

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

struct Measured {
  double client_seconds = 0, server_seconds = 0;
  std::size_t bytes_up = 0;  // of one client
};

Measured measure(const Arguments& arguments) {
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
  return {client_seconds / survivors, server_seconds, bytes_up};
}

void print_one(const Arguments& arguments) {
  const Measured measured = measure(arguments);
  const nlohmann::json result = {{"clients", arguments.clients},
                                 {"length", arguments.length},
                                 {"neighbours", arguments.neighbours},
                                 {"threshold", arguments.threshold},
                                 {"dropout", arguments.dropout},
                                 {"trust", name_of(arguments.active ? Trust::kActive : Trust::kSemiHonest)},
                                 {"threads", arguments.threads},
                                 {"client_seconds", measured.client_seconds},
                                 {"server_seconds", measured.server_seconds},
                                 {"bytes_up", measured.bytes_up}};
  std::cout << result.dump() << "\n";
}

struct Reference {
  std::size_t clients, length, neighbours, threshold;
  double dropout, client_seconds, server_seconds;
};
constexpr Reference kReference[] = {
    {100, 100'000, 99, 67, 0.1, 0.025, 0.13},    {100, 1'000'000, 99, 67, 0.1, 0.076, 0.77},
    {500, 100'000, 499, 334, 0, 0.095, 0.32},    {500, 100'000, 499, 334, 0.1, 0.095, 2.5},
    {500, 100'000, 499, 334, 0.3, 0.095, 6.0},   {1000, 100'000, 999, 667, 0.1, 0.235, 13.6},
    {100, 1'000'000, 16, 11, 0.05, 0.013, 0.16}, {1000, 100'000, 52, 37, 0.05, 0.010, 0.43},
    {1000, 1'000'000, 52, 37, 0.05, 0.056, 3.4}, {1000, 1'000'000, 72, 24, 0.3, 0.063, 11.8},
};

void print_table(const std::vector<std::size_t>& rows, unsigned threads) {
  std::cout
      << "| clients | elements | k, t | dropouts | client s (reference) | server s (reference) | bytes up (bound) |\n"
         "|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::size(kReference); ++i) {
    if (!rows.empty() && std::find(rows.begin(), rows.end(), i + 1) == rows.end()) continue;
    const Reference& row = kReference[i];
    const Measured found =
        measure({row.clients, row.length, row.neighbours, row.threshold, row.dropout, false, threads});
    std::cout << fmt::format("| {} | {} | {}, {} | {:g} % | {:.3f} ({:.3f}) | {:.2f} ({:.2f}) | {} ({}) |\n",
                             row.clients, row.length, row.neighbours, row.threshold, 100 * row.dropout,
                             found.client_seconds, row.client_seconds, found.server_seconds, row.server_seconds,
                             found.bytes_up, 4 * row.length + 130 * row.neighbours + 2048)
              << std::flush;
  }
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
  bool table = false;
  std::vector<std::size_t> rows;
  app.add_flag("--table", table, "All settings of the reference");
  app.add_option("--rows", rows, "With --table: only these, from 1 to 10; all take 10 minutes and 5 GB")
      ->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  try {
    table ? chorus::bench::print_table(rows, arguments.threads) : chorus::bench::print_one(arguments);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "secure_sum: " << error.what() << "\n";
    return 1;
  }
}
