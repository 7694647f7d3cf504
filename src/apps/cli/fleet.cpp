#include "core/ports/fleet.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <climits>
#include <csignal>
#include <memory>
#include <set>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/console/log.h"
#include "core/console/terminal.h"
#include "core/console/text_table.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kOffice = "x509";
constexpr int kPort = 7733;

struct FleetOptions {
  std::string folder = "fleet";
  std::string address, listen;
  int days = 365;
  std::string name;
  std::vector<std::string> names;
  double hours = 24;
};

std::string moment(std::time_t time) { return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time)); }

const char* state_text(FleetMember::State state) {
  switch (state) {
    case FleetMember::State::kInvited:
      return "invited";
    case FleetMember::State::kInvitationExpired:
      return "invitation expired";
    case FleetMember::State::kCertificateExpired:
      return "certificate expired";
    case FleetMember::State::kJoined:
      return "joined";
    case FleetMember::State::kRevoked:
      return "revoked";
  }
  return "";
}

/// Where clients reach this machine, if nobody says otherwise.
std::string own_address() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) throw WorldError("this machine has no name; give --address");
  return fmt::format("{}:{}", name.data(), kPort);
}

void fleet_init(const FleetOptions& options) {
  const bool named = !options.address.empty();
  const std::string address = named ? options.address : own_address();
  // Debian maps a machine's own name to the loopback (/etc/hosts: 127.0.1.1), where no other machine can connect.
  const std::string listen = named || !options.listen.empty() ? options.listen : fmt::format("0.0.0.0:{}", kPort);
  FleetOffices::make(kOffice)->create({options.folder, address, options.days, listen});
  fmt::print("{} holds a new fleet. Keep authority.key secret, and make a backup of the folder.\n", options.folder);
  fmt::print("Clients look for the server at {}; it listens at {}.\n", address, listen.empty() ? address : listen);
  if (!named) {
    fmt::print(
        "If they know this machine by another name, remove {} and type `chorus fleet init {} --address NAME:{}`.\n",
        options.folder, options.folder, kPort);
  }
}

void fleet_invite(const FleetOptions& options) {
  std::set<std::string> once;
  for (const std::string& name : options.names) {
    if (once.insert(name).second) continue;
    throw ConfigError(fmt::format(
        "{} is named twice, and only the last invitation of a client is valid; give every client its own name", name));
  }
  for (const std::string& name : options.names) {
    const FleetInvitation invitation = FleetOffices::make(kOffice)->invite(options.folder, name, options.hours);
    if (name == options.names.front()) {
      Log("fleet").info("valid once, until {}; `chorus serve` or `chorus fleet admit` lets clients join",
                        moment(invitation.until));
    }
    fmt::print("chorus join {} --token {}\n", invitation.address, invitation.token);
  }
}

void fleet_list(const FleetOptions& options) {
  TextTable table({{"name"}, {"state"}, {"until"}});
  for (const FleetMember& member : FleetOffices::make(kOffice)->members(options.folder)) {
    table.add({member.name, state_text(member.state), member.until == 0 ? "" : moment(member.until)});
  }
  fmt::print("{}", table.render(terminal_columns(STDOUT_FILENO, 120)));
}

std::atomic<bool> fleet_interrupted = false;

void fleet_admit(const FleetOptions& options) {
  std::signal(SIGINT, [](int) { fleet_interrupted = true; });
  std::signal(SIGTERM, [](int) { fleet_interrupted = true; });
  const Log log("fleet");
  log.info("invited clients may enrol; Ctrl-C ends this");
  FleetOffices::make(kOffice)->admit(
      options.folder, [] { return fleet_interrupted.load(); },
      [&log](const std::string& name) { log.info("{} has joined", name); });
}

}  // namespace

void add_fleet(CLI::App& app) {
  CLI::App* group =
      app.add_subcommand("fleet", "Decide which clients may take part: certificates of a private authority");
  group->group(kFleets);
  group->require_subcommand(1);
  const auto options = std::make_shared<FleetOptions>();
  const auto add = [&](const char* name, const char* help, void (*call)(const FleetOptions&)) {
    CLI::App* command = group->add_subcommand(name, help);
    command->callback([options, call] { call(*options); });
    return command;
  };
  const auto of_fleet = [&](CLI::App* command) {
    command->add_option("--fleet", options->folder, "Folder of the fleet")->capture_default_str();
    return command;
  };
  CLI::App* init = add("init", "Create a fleet: an authority, and the server's certificate", fleet_init);
  init->add_option("DIR", options->folder, "Folder to create")->required();
  init->add_option(
      "--address", options->address,
      "HOST:PORT at which clients reach the server; PORT + 1 is for joining (default: this machine's name, "
      "port 7733)");
  init->add_option(
      "--listen", options->listen,
      "IP:PORT where this machine listens, if clients reach it at another address (a container, NAT; default: "
      "that address; without --address 0.0.0.0:7733, all networks of this machine)");
  init->add_option("--days", options->days, "Validity of certificates")->capture_default_str();
  CLI::App* invite = of_fleet(add("invite", "Print the line that each new client types", fleet_invite));
  invite->add_option("NAME", options->names, "Names of the clients")->required();
  invite->add_option("--hours", options->hours, "Validity of the invitation")->capture_default_str();
  of_fleet(add("list", "Show the clients: invited, joined, expired or revoked", fleet_list));
  CLI::App* revoke = of_fleet(add("revoke", "Keep a client out; a running server drops it", [](const FleetOptions& o) {
    FleetOffices::make(kOffice)->revoke(o.folder, o.name);
    fmt::print("{} is revoked\n", o.name);
  }));
  revoke->add_option("NAME", options->name, "The client's name")->required();
  of_fleet(add("rotate", "Renew the server's key and certificate; a running server takes them up",
               [](const FleetOptions& o) {
                 fmt::print("the server's new certificate is valid until {}\n",
                            moment(FleetOffices::make(kOffice)->rotate(o.folder)));
               }));
  of_fleet(add("admit", "Let invited clients join, until Ctrl-C", fleet_admit));
  group->footer(
      "Examples:\n"
      "  chorus fleet init fleet --address server.example:7733\n"
      "  chorus fleet invite clinic-a clinic-b\n"
      "  chorus serve configs/federation.yaml");
}

}  // namespace chorus::inline cli
