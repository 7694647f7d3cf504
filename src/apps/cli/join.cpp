#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "apps/cli/cli.h"
#include "apps/serving/deployment.h"
#include "core/base/error.h"
#include "core/console/log.h"
#include "core/ports/fleet.h"

namespace chorus::inline cli {
namespace {

struct JoinOptions {
  FleetEnrolment enrolment;
  JoinRequest request;
  std::string identity = "identity", policy;
};

std::atomic<int> join_interrupts = 0;

void count_join_interrupt(int) {
  if (++join_interrupts > 1) ::_exit(static_cast<int>(ExitCode::kInterrupted));
}

/// Who brings data waits for the server; it may be started later.
FleetIdentity enrol_patiently(FleetOffice& office, const FleetEnrolment& enrolment, bool patient) {
  constexpr double kLongestPause = 10;
  for (double pause = 0.5;; pause = std::min(pause * 2, kLongestPause)) {
    try {
      return office.enrol(enrolment);
    } catch (const FleetUnreachable& error) {
      if (!patient) throw;
      Log("client").warning("{}; trying again", error.what());
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    }
  }
}

/// The address that was typed must be that of the server which this machine has joined, or of its enrolment.
void check_server(const std::string& typed, const FleetIdentity& known) {
  const auto host = [](const std::string& address) { return address.substr(0, address.rfind(':')); };
  if (host(typed) == host(known.server)) return;
  throw ConfigError(
      fmt::format("this machine has joined the fleet at {}, not at {}; type that address, or name another "
                  "folder with --identity",
                  known.server, typed));
}

/// Enrols where this machine has not yet: the line of an invitation can be typed again.
FleetIdentity join_fleet(const JoinOptions& options) {
  const auto office = FleetOffices::make("x509");
  const std::string& token = options.enrolment.token;
  if (const auto known = office->identity(options.identity)) {
    const std::string invited = token.substr(0, token.find(':'));
    if (!token.empty() && invited != known->name) {
      throw ConfigError(
          fmt::format("{} holds the identity of {}, and the invitation is for {}; name another folder "
                      "with --identity",
                      options.identity, known->name, invited));
    }
    if (!token.empty() && !office->joined_with(options.identity, token)) {
      throw ConfigError(
          fmt::format("{0} holds the identity of {1} from another invitation; to use this one, remove {0}/fleet.json, "
                      "or name another "
                      "folder with --identity",
                      options.identity, known->name));
    }
    check_server(options.enrolment.address, *known);
    if (!token.empty() && options.request.data.empty()) {
      throw ConfigError(
          fmt::format("{} holds the identity of {} already; add --data to take part", options.identity, known->name));
    }
    return *known;
  }
  if (token.empty()) {
    throw ConfigError(
        fmt::format("{} holds no identity; join with the line that `chorus fleet invite` prints, which "
                    "has a --token",
                    options.identity));
  }
  for (const auto* files : {&options.request.data, &options.request.test}) {  // before the invitation is used up
    for (const std::string& file : *files) {
      if (!std::filesystem::exists(file)) throw DataError(fmt::format("{} does not exist", file));
    }
  }
  FleetEnrolment enrolment = options.enrolment;
  enrolment.folder = options.identity;
  enrolment.sending = [&](const std::string& message) {
    Deployments::make("processes")->record_enrolment(options.identity, enrolment.address, message);
  };
  const FleetIdentity identity = enrol_patiently(*office, enrolment, !options.request.data.empty());
  fmt::print("joined as {}; the certificate in {} is valid until {:%Y-%m-%d %H:%M} UTC\n", identity.name,
             options.identity, fmt::gmtime(identity.until));
  std::fflush(stdout);
  return identity;
}

}  // namespace

void add_join(CLI::App& app) {
  const auto options = std::make_shared<JoinOptions>();
  CLI::App* command =
      app.add_subcommand("join",
                         "Join a fleet, and train on this machine's files when its server asks\n\n"
                         "The key is made here and never leaves. Without --data it only gets a certificate.");
  command->group(kFleets);
  JoinRequest& typed = options->request;
  command->add_option("SERVER", options->enrolment.address, "HOST:PORT, as in the invitation")->required();
  command->add_option("--token", options->enrolment.token, "The token of the invitation; needed once");
  command->add_option("--data", typed.data, "Files or folders to train on; they stay here");
  command->add_option("--test", typed.test, "Files for this client's own evaluation");
  command->add_option("--data-set", typed.data_settings, "How to read them, for example --data-set columns.text=note")
      ->allow_extra_args(false);
  command->add_option("--policy", options->policy, "What this client agrees to: a file of 'kind: policy'");
  command->add_option("--identity", options->identity, "Folder for the key, the certificate and the egress log")
      ->capture_default_str();
  command->add_option("--device", typed.device, "cpu or cuda")->capture_default_str();
  command->add_option("--transport", typed.transport, "As the server's serving.transport")->capture_default_str();
  command->add_flag("--once", typed.once, "Leave when a run has ended, instead of waiting for the next");
  command->footer(
      "Examples:\n"
      "  chorus join server.example:7734 --token clinic-a:9f2c...:41aa... --data notes.jsonl\n"
      "  chorus join server.example:7734 --data notes.jsonl --policy policy.yaml");
  command->callback([options] {
    const FleetIdentity identity = join_fleet(*options);
    if (options->request.data.empty()) {
      Log("client").info("to take part: the same command with --data FILE...");
      return;
    }
    std::signal(SIGINT, count_join_interrupt);
    std::signal(SIGTERM, count_join_interrupt);
    JoinRequest request = options->request;
    request.identity = options->identity;
    request.policy = options->policy;
    request.stop = [] { return join_interrupts > 0; };
    (void)device_named(request.device);
    Deployments::make("processes")->join(request);
  });
}

}  // namespace chorus::inline cli
