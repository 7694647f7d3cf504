#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/cli.h"
#include "apps/serving/deployment.h"
#include "core/base/error.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"
#include "infrastructure/http/http_ask.h"

namespace chorus::inline cli {
namespace {

struct ControlOptions {
  std::string fleet = "fleet";
  bool json = false, end = false, now = false;
};

std::string ask_server(const ControlOptions& options, const char* method, const char* path) {
  const auto reply = http_ask(control_socket(options.fleet), {method, path});
  if (!reply.ok() && reply.failure().kind == Failure::Kind::kDisconnected) {
    throw Error(ExitCode::kCheckFailed,
                fmt::format("no server is running for the fleet {}; `chorus serve` starts one", options.fleet));
  }
  const HttpResponse response = Result<HttpResponse>(reply).value_or_throw();
  if (response.status != 200) throw WorldError(fmt::format("the server answers: {}", response.body));
  return response.body;
}

void show_status(const ControlOptions& options) {
  const std::string text = ask_server(options, "GET", "/status");
  if (options.json) {
    fmt::print("{}", text);
    return;
  }
  const auto status = nlohmann::json::parse(text);
  const auto number = [&](const char* name) {
    return status[name].is_number() ? fmt::format("{:.4f}", status[name].get<double>()) : std::string("-");
  };
  fmt::print("{}: {}, round {} of {}\n", status["run"].get<std::string>(), status["state"].get<std::string>(),
             status["round"].get<std::int64_t>(), status["rounds"].get<std::int64_t>());
  if (const auto what = status["waiting_for"].get<std::string>(); !what.empty()) fmt::print("waits for {}\n", what);
  fmt::print("loss {}, {} {}; {:.1f} s per round; {:.2f} MB sent, {:.2f} MB received\n", number("loss"),
             status["metric"].get<std::string>(), number("score"), status["round_seconds"].get<double>(),
             status["bytes_down"].get<double>() / 1e6, status["bytes_up"].get<double>() / 1e6);
  TextTable table({{"client"}, {"name"}, {"examples"}, {"state"}});
  for (const auto& client : status["clients"]) {
    table.add({std::to_string(client["id"].get<std::uint64_t>()), client["name"].get<std::string>(),
               client["examples"].is_number() ? fmt::format("{:g}", client["examples"].get<double>()) : "",
               client["state"].get<std::string>()});
  }
  for (const auto& [name, why] : status["refusals"].items()) {
    table.add({"", name, "", "refuses: " + why.get<std::string>()});
  }
  fmt::print("{}", table.render(terminal_columns(STDOUT_FILENO, 120)));
}

}  // namespace

void add_status(CLI::App& app) {
  const auto options = std::make_shared<ControlOptions>();
  const auto add = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->group(kFleets);
    command->add_option("--fleet", options->fleet, "Folder of the fleet")->capture_default_str();
    return command;
  };
  CLI::App* status = add("status", "Show what a running server does, and its clients");
  status->add_flag("--json", options->json, "Print JSON");
  status->callback([options] { show_status(*options); });
  CLI::App* pause = add("pause", "Let a running server wait after its round");
  pause->add_flag("--end", options->end, "Let it go on");
  pause->callback([options] { fmt::print("{}", ask_server(*options, "POST", options->end ? "/continue" : "/pause")); });
  CLI::App* stop = add("stop", "End a running server after its round; `chorus serve` continues later");
  stop->add_flag("--now", options->now, "At once");
  stop->callback([options] { fmt::print("{}", ask_server(*options, "POST", options->now ? "/stop_now" : "/stop")); });
}

}  // namespace chorus::inline cli
