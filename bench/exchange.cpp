// One round of a server and its clients as processes of their own, over gRPC with mutual TLS on loopback; nobody
// trains.
//
//     build/exchange [--parameters 110e6] [--clients 3] [--rounds 3] [--asked 0] [--threads-per-process 1]
//                    [--aggregation mean]
//
// Every client replies to a request with random numbers of the model's size, and the server adds them up as they
// arrive. Prints one JSON object: seconds of each round, the most memory of the server (server_bytes), the same in
// models above what it had with all clients connected (models), and its memory per connection. With --aggregation
// '{name: secagg_plus, vanish: 0.1}' the sum is secure, and a tenth of the clients vanish meanwhile.

#include <fmt/format.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/device/tensor_memory.h"
#include "core/files/files.h"
#include "core/ports/aggregation.h"
#include "core/ports/procedure.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/fleet_folder.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"
#include "infrastructure/transport/grpc/grpc_transport.h"

namespace chorus::inline bench {
namespace {

namespace fs = std::filesystem;

struct ExchangeOptions {
  double parameters = 110e6;
  int clients = 3, rounds = 3, asked = 0, threads = 1;
  int first = -1;  // of a child: its first client
  std::string folder, address, aggregation = "mean";
};

/// One client that has trained already.
class TrainedBench : public Workbench {
 public:
  TrainedBench(ClientId id, std::int64_t size)
      : ids_{id}, update_(torch::randn({1, size}, torch::make_generator<torch::CPUGeneratorImpl>(id + 1)) * 0.01) {}

  std::span<const ClientId> clients() const override { return ids_; }
  std::int64_t parameters() const override { return update_.size(1); }
  const Layout& layout() const override { throw InternalError("no layout"); }
  double examples(std::size_t) const override { return 1; }
  at::Tensor beginning() const override { return torch::zeros({parameters()}); }
  ClientState& state(std::size_t) override { return state_; }
  std::function<void()> state_to_keep(std::size_t) override { return {}; }
  using Workbench::train;
  TrainResult train(const at::Tensor&, const TrainWish&) override {
    // Views of memory that nobody else holds, as of a client that has just trained.
    return {.values = torch::from_blob(update_.data_ptr(), update_.sizes()),
            .finite = {true},
            .examples = {1},
            .batches = {1},
            .steps = {1},
            .rate_sum = {1},
            .normalizer = {1},
            .loss = {0},
            .failures = {""}};
  }
  std::unique_ptr<Learner> learner(const at::Tensor&, const LearnerWish&) override { return nullptr; }
  std::size_t public_rows() const override { return 0; }
  at::Tensor predict(const at::Tensor&, std::span<const std::uint32_t>) override { return {}; }
  GradientResult gradient(const at::Tensor&, bool) override { return {}; }
  std::vector<Message> evaluate(const at::Tensor&, TestOn) override { return {}; }

 private:
  void retain_clients(std::span<const std::size_t>) override {}

  std::vector<ClientId> ids_;
  at::Tensor update_;
  ClientState state_;
};

/// Runs what it is asked for on that bench.
class TrainedClient : public Federation {
 public:
  TrainedClient(ClientId id, std::int64_t size) : roster_({{.id = id, .examples = 1}}), bench_(id, size) {}
  const Roster& roster() const override { return roster_; }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return Replies(
        [this, id = cohort.front(), request = std::move(request), done = false]() mutable -> std::optional<Reply> {
          if (std::exchange(done, true)) return std::nullopt;
          Reply reply{id, 0};
          try {
            Answer answer = std::move(Procedures::make(request.procedure)->run(request, bench_).front());
            reply.body = std::move(answer.body);
            reply.failure = std::move(answer.failure);
          } catch (const DataError& error) {
            reply.failure = error.what();
          }
          return reply;
        });
  }
  void end_session(std::uint64_t) override {}
  Traffic traffic() const override { return {}; }

 private:
  Roster roster_;
  TrainedBench bench_;
};

Choice<Aggregations> aggregation_of(const std::string& text) {
  struct Holder {
    Choice<Aggregations> aggregation{"mean"};
    void describe(ConfigVisitor& visitor) { visitor.field("aggregation", aggregation, ""); }
  };
  return ConfigDocument::parse("aggregation: " + text, "--aggregation").load<Holder>().aggregation;
}

std::string client_name(int id) { return fmt::format("client-{:05}", id); }

GrpcConfig grpc_config(const ExchangeOptions& options, const std::string& who, const fs::path& folder) {
  GrpcConfig config;
  config.address = options.address;
  config.tls = {(folder / (who + ".crt")).string(), (folder / (who + ".key")).string(),
                (fs::path(options.folder) / "fleet" / "authority.crt").string()};
  return config;
}

/// Keys and certificates of all clients, without the network.
void enrol_all(const ExchangeOptions& options) {
  const std::time_t now = std::time(nullptr);
  FleetFolder::create({fs::path(options.folder) / "fleet", options.address, 1}, now);
  const fs::path fleet = fs::path(options.folder) / "fleet";
  const std::string authority = read_file(fleet / "authority.crt"), authority_key = read_file(fleet / "authority.key");
  for (int id = 0; id < options.clients; ++id) {
    const std::string key = make_key();
    const fs::path folder = fs::path(options.folder) / client_name(id);
    fs::create_directories(folder);
    write_file(folder / "client.key", key);
    write_file(folder / "client.crt", sign_request({authority, authority_key, make_request(key, client_name(id)),
                                                    client_name(id), now - 600, now + 86'400}));
  }
}

void be_clients(const ExchangeOptions& options) {
  std::vector<std::thread> threads;
  const int last = std::min(options.first + options.threads, options.clients);
  for (int id = options.first; id < last; ++id) {
    threads.emplace_back([&options, id] {
      TrainedClient client(static_cast<ClientId>(id), static_cast<std::int64_t>(options.parameters));
      GrpcTransport transport(grpc_config(options, "client", fs::path(options.folder) / client_name(id)));
      const auto end = transport.connect();
      ClientService(*end, client).run();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

double memory_bytes(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return std::strtod(line.c_str() + name.size(), nullptr) * 1024;
  }
  return 0;
}

void be_server(const ExchangeOptions& options, char** argv) {
  const fs::path fleet = fs::path(options.folder) / "fleet";
  GrpcConfig config = grpc_config(options, "server", fleet);
  config.revoked = (fleet / "revoked").string();
  GrpcTransport transport(config);
  const auto server = transport.listen();
  std::vector<pid_t> children;
  for (int first = 0; first < options.clients; first += options.threads) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::vector<std::string> words{argv[0],
                                           "--parameters",
                                           fmt::format("{}", options.parameters),
                                           "--clients",
                                           std::to_string(options.clients),
                                           "--threads-per-process",
                                           std::to_string(options.threads),
                                           "--first",
                                           std::to_string(first),
                                           "--folder",
                                           options.folder,
                                           "--address",
                                           options.address};
      std::vector<char*> raw;
      for (const std::string& word : words) raw.push_back(const_cast<char*>(word.c_str()));
      raw.push_back(nullptr);
      ::execv("/proc/self/exe", raw.data());
      ::_exit(97);
    }
    children.push_back(child);
  }
  nlohmann::json report{{"parameters", options.parameters}, {"clients", options.clients}};
  double base = 0;
  {
    const double alone = memory_bytes("VmRSS:");
    RemoteFederation federation({*server, 1, 2});
    check(federation.wait_for(static_cast<std::size_t>(options.clients), 600), "the clients did not connect");
    report["connection_bytes"] = (memory_bytes("VmRSS:") - alone) / options.clients;
    base = memory_bytes("VmHWM:");
    const auto size = static_cast<std::int64_t>(options.parameters);
    at::Tensor model = torch::randn({size});
    const auto aggregation = aggregation_of(options.aggregation).make();
    const int asked = options.asked > 0 ? options.asked : options.clients;
    for (int round = 1; round <= options.rounds; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      std::vector<Member> cohort;
      for (int i = 0; i < asked; ++i) {
        cohort.push_back({static_cast<ClientId>((round * asked + i) % options.clients), 1});
      }
      Request request{.procedure = "train", .round = static_cast<std::uint64_t>(round)};
      request.body.tensors["model"] = model.clone();  // as algorithms do
      AggregationInput input{.federation = federation, .cohort = cohort, .request = std::move(request)};
      input.size = size;
      input.weighting = Weighting::kEqual;
      const Aggregated result = aggregation->aggregate(std::move(input));
      std::size_t used = 0;
      for (const ClientReport& client : result.clients) {
        check(client.failure.empty() || client.left_out, client.failure);
        used += client.failure.empty() ? 1 : 0;
      }
      check(result.means.front().defined(), "the sum was abandoned");
      report["summed"].push_back(used);
      model.add_(result.means.front());
      report["seconds"].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  report["server_bytes"] = memory_bytes("VmHWM:");
  report["models"] = (memory_bytes("VmHWM:") - base) / (options.parameters * sizeof(float));
  fmt::print("{}\n", report.dump());
  std::fflush(stdout);
  for (const pid_t child : children) ::kill(child, SIGTERM);
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
}

int exchange(int argc, char** argv) {
  CLI::App app{"A round of server and clients that do not train"};
  ExchangeOptions options;
  app.add_option("--parameters", options.parameters)->capture_default_str();
  app.add_option("--clients", options.clients)->capture_default_str();
  app.add_option("--rounds", options.rounds)->capture_default_str();
  app.add_option("--asked", options.asked, "Clients of a round; 0: all");
  app.add_option("--threads-per-process", options.threads, "Clients of a process")->capture_default_str();
  app.add_option("--aggregation", options.aggregation, "As in a configuration")->capture_default_str();
  app.add_option("--first", options.first);
  app.add_option("--folder", options.folder);
  app.add_option("--address", options.address);
  CLI11_PARSE(app, argc, argv);
  prepare_tensor_memory();  // as `chorus` does
  if (options.first >= 0) {
    torch::set_num_threads(1);
    be_clients(options);
    return 0;
  }
  std::string pattern = (fs::temp_directory_path() / "chorus_exchange_XXXXXX").string();
  options.folder = ::mkdtemp(pattern.data());
  options.address = fmt::format("127.0.0.1:{}", 23'000 + ::getpid() % 9'000);
  enrol_all(options);
  be_server(options, argv);
  fs::remove_all(options.folder);
  return 0;
}

}  // namespace
}  // namespace chorus::inline bench

int main(int argc, char** argv) { return chorus::bench::exchange(argc, argv); }
