#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "algorithm/secure/graph/graph_finder.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kGraphHelp = R"(
How many neighbours each client of a secure sum needs, and how many of them must stay for the
sum to succeed (SecAgg+, Bell et al. 2020). Shares are rounded up to whole clients; without
--corrupt and --dropout they are those of aggregation: secagg_plus.

Examples:
  chorus privacy graph --clients 1000 --corrupt 0.05 --dropout 0.05
  chorus privacy graph --clients 1000 --corrupt 0.05 --dropout 0.05 --server semi-malicious --json)";

struct GraphArguments {
  GraphRequest request;
  std::string server = "curious";
  bool json = false;
};

void print_graph(GraphArguments arguments) {
  if (arguments.server != "curious" && arguments.server != "semi-malicious") {
    throw ConfigError(fmt::format("--server {}: it must be curious or semi-malicious", arguments.server));
  }
  GraphRequest& request = arguments.request;
  request.server = arguments.server == "curious" ? ServerKind::kCurious : ServerKind::kSemiMalicious;
  const GraphRequest whole = request.in_whole_clients();
  const GraphChoice choice = find_graph(whole);
  const auto clients = [&](double share) { return std::llround(share * static_cast<double>(request.clients)); };
  if (arguments.json) {
    const nlohmann::json result = {{"clients", request.clients},
                                   {"corrupt", request.corrupt},
                                   {"dropout", request.dropout},
                                   {"corrupt_clients", clients(whole.corrupt)},
                                   {"dropout_clients", clients(whole.dropout)},
                                   {"server", arguments.server},
                                   {"security_bits", request.security_bits},
                                   {"correctness_bits", request.correctness_bits},
                                   {"neighbours", choice.neighbours},
                                   {"threshold", choice.threshold},
                                   {"colluding", choice.colluding}};
    fmt::print("{}\n", result.dump(2));
    return;
  }
  fmt::print("of {} clients {} may collude with the server (corrupt {}) and {} may vanish (dropout {})\n",
             request.clients, clients(whole.corrupt), request.corrupt, clients(whole.dropout), request.dropout);
  fmt::print(
      "neighbours {}, threshold {} ({} server, at most {} neighbours of a client collude)\n"
      "a secret leaks with probability below 2^-{:g}, a round fails with probability below 2^-{:g}\n",
      choice.neighbours, choice.threshold, arguments.server, choice.colluding, request.security_bits,
      request.correctness_bits);
}

}  // namespace

void add_privacy_graph(CLI::App& app) {
  const auto found = app.get_subcommands([](CLI::App* sub) { return sub->get_name() == "privacy"; });
  CLI::App* privacy = found.empty() ? nullptr : found.front();
  if (privacy == nullptr) {
    privacy = app.add_subcommand("privacy", "Parameters of secure sums");
    privacy->group(kRuns);
    privacy->require_subcommand(1);
  }
  auto arguments = std::make_shared<GraphArguments>();
  CLI::App* command = privacy->add_subcommand("graph", "Neighbours and threshold of a secure sum");
  command->footer(kGraphHelp);
  command->add_option("--clients", arguments->request.clients, "Clients of a round")->required();
  command->add_option("--corrupt", arguments->request.corrupt, "Share of clients that collude with the server")
      ->capture_default_str();
  command->add_option("--dropout", arguments->request.dropout, "Share of clients that may drop out")
      ->capture_default_str();
  command->add_option("--server", arguments->server, "curious or semi-malicious")->capture_default_str();
  command
      ->add_option("--security-bits", arguments->request.security_bits,
                   "A secret leaks with at most 2^-this, at most 200")
      ->capture_default_str();
  command
      ->add_option("--correctness-bits", arguments->request.correctness_bits,
                   "A round fails with at most 2^-this, at most 200")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "For programs");
  command->callback([arguments] { print_graph(*arguments); });
}

}  // namespace chorus::inline cli
