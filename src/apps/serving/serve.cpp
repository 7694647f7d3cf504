#include "apps/serving/serve.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/experiment/machine.h"
#include "apps/experiment/own_data.h"
#include "apps/experiment/run_checkpoints.h"
#include "apps/experiment/run_journal.h"
#include "apps/experiment/update_groups.h"
#include "apps/experiment/watched_federation.h"
#include "apps/serving/control_room.h"
#include "apps/serving/served_clients.h"
#include "apps/serving/transport_end.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/device/torch_runtime.h"
#include "core/files/files.h"
#include "core/ports/fleet.h"
#include "infrastructure/http/listener.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;
using ServeClock = std::chrono::steady_clock;

constexpr double kPumpSeconds = 0.5;                  // between looks at pause, stop and the roster
constexpr double kRemindSeconds = 30;                 // between two log lines about waiting
constexpr int kMostAttempts = 5;                      // at one round
constexpr double kAttemptPause = 2;                   // seconds before a round is repeated
constexpr std::chrono::milliseconds kShowPause(400);  // between two looks at what clients do

double seconds_since(ServeClock::time_point begin) {
  return std::chrono::duration<double>(ServeClock::now() - begin).count();
}

/// What a simulation has and a fleet has not.
void check_servable(const ExperimentConfig& config) {
  const auto refuse = [](const std::string& what) {
    throw ConfigError(
        fmt::format("{}, which `chorus run` simulates and `chorus serve` cannot have; leave it out", what));
  };
  if (config.algorithm.traits().clock) {
    refuse(fmt::format("algorithm: {} measures by the emulated clock of `emulation`", config.algorithm.name()));
  }
  if (config.emulation) refuse("emulation: devices are emulated");
  if (config.attacks) refuse("attacks: some clients are malicious");
  if (config.aggregation.traits().masked && !config.aggregation.make()->masks()) {
    refuse("aggregation: mode: cost models a secure sum without masks");
  }
  if (config.continual) refuse("continual: data is cut into segments of time");
  if (!config.clients.models.empty()) refuse("clients.models: the server chooses the clients' networks");
  if (config.publics && config.publics->unlabelled.empty()) {
    throw ConfigError(
        "public.share: a server has no training data to split a public set off; give public.unlabelled, files that "
        "every "
        "client is sent");
  }
  if (config.publics && config.publics->query.empty() && config.algorithm.make()->queries()) {
    throw ConfigError(fmt::format(
        "public.query_share: clients are sent the public files, so labelled examples in them are no secret of the "
        "server's; algorithm: {} needs public.query, files that stay here",
        config.algorithm.name()));
  }
  if (config.algorithm.traits().pooled) {
    refuse(fmt::format("algorithm: {} trains on everybody's data in one place", config.algorithm.name()));
  }
}

/// The run that a fleet is in the middle of.
struct Unfinished {
  fs::path folder;
  std::string config;
};

fs::path unfinished_path(const fs::path& fleet) { return fleet / "serving.json"; }

std::optional<Unfinished> read_unfinished(const fs::path& fleet) {
  const fs::path path = unfinished_path(fleet);
  if (!fs::exists(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(read_file(path, 1U << 24U), nullptr, false);
  if (!json.is_object() || !json.contains("run") || !json["run"].is_string()) {
    throw DataError(fmt::format(
        "{} is damaged; it says which run this fleet is in the middle of: put it back, or begin anew with --new",
        path.string()));
  }
  const fs::path folder = json["run"].get<std::string>();
  if (fs::exists(folder / "summary.json")) return std::nullopt;
  if (!fs::exists(folder / "config.yaml")) {
    throw DataError(fmt::format(
        "this fleet is in the middle of {}, which is not there; put that folder back, or begin anew with --new",
        folder.string()));
  }
  return Unfinished{folder, read_file(folder / "config.yaml", 1U << 24U)};
}

/// What stays as it is until a run ends. How clients are reached and waited for may change, and so may shares of public
/// examples where files replace them: older runs recorded the defaults.
std::string lasting_part(ExperimentConfig config) {
  config.serving = {};
  if (config.publics) {
    if (!config.publics->unlabelled.empty()) config.publics->share.reset();
    config.publics->query_share = config.publics->queries();
  }
  return config_to_yaml(std::move(config), "experiment");
}

void check_same_run(const Unfinished& unfinished, const ExperimentConfig& config, const fs::path& fleet) {
  std::string before;
  try {
    before = lasting_part(ConfigDocument::parse(unfinished.config, "its config.yaml").load<ExperimentConfig>());
  } catch (const ConfigError& error) {
    throw DataError(fmt::format(
        "the fleet {} is in the middle of {}, whose configuration cannot be read; put it right, or begin anew with "
        "--new: {}",
        fleet.string(), unfinished.folder.string(), error.what()));
  }
  if (before == lasting_part(config)) return;
  throw ConfigError(fmt::format(
      "the fleet {} is in the middle of {}, whose configuration is another one (see its config.yaml; only the section "
      "serving may change); go on with that, or begin anew with --new",
      fleet.string(), unfinished.folder.string()));
}

/// Continues the unfinished run of the same configuration, or makes a new one.
RunFolder open_run(const ExperimentConfig& config, const ServeRequest& request) {
  const std::string yaml = config_to_yaml(config, "experiment");
  const auto unfinished = request.fresh ? std::nullopt : read_unfinished(request.fleet);
  if (unfinished && (request.run.folder.empty() || fs::absolute(request.run.folder) == unfinished->folder)) {
    if (unfinished->config == yaml) return RunFolder::open(unfinished->folder);
    check_same_run(*unfinished, config, request.fleet);
    RunFolder folder = RunFolder::open(unfinished->folder);
    write_file(folder.config(), yaml);
    return folder;
  }
  NewRun run;
  run.folder = request.run.folder;
  run.parent = request.run.parent;
  run.experiment = config.name;
  run.config_yaml = yaml;
  run.info.command = request.run.command;
  run.info.chorus_version = request.run.version;
  run.info.torch_version = TORCH_VERSION;
  run.info.seed = static_cast<std::uint64_t>(config.seed);
  return RunFolder::create(run);
}

/// From now on the fleet is in the middle of this run.
void remember(const fs::path& fleet, const fs::path& run) {
  write_file(unfinished_path(fleet), nlohmann::json{{"format", 1}, {"run", fs::absolute(run).string()}}.dump(1) + "\n");
}

/// Lets invited clients enrol, on a thread of its own.
class Admission {
 public:
  explicit Admission(const fs::path& fleet) {
    thread_ = std::thread([this, fleet] {
      try {
        FleetOffices::make("x509")->admit(
            fleet, [this] { return closing_.load(); },
            [](const std::string& name) { Log("serve").info("{} has joined the fleet", name); });
      } catch (const std::exception& error) {
        failure_ = error.what();
        failed_ = true;
      }
    });
  }
  /// WorldError when it has ended, for example because another program has its port.
  void check() const {
    if (failed_) throw WorldError(fmt::format("nobody can join the fleet: {}", failure_));
  }
  ~Admission() {
    closing_ = true;
    thread_.join();
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

 private:
  std::atomic<bool> closing_ = false, failed_ = false;
  std::string failure_;  // read after failed_
  std::thread thread_;
};

class ServedRun {
 public:
  ServedRun(const ServerHalf& server, std::string data, RunFolder folder, const ServeRequest& request,
            std::unique_ptr<ServerTransport> transport)
      : server_(server),
        config_(with_checkpoints(server.config())),
        data_(std::move(data)),
        request_(request),
        folder_(std::move(folder)),
        names_(folder_.path() / "fleet.json"),
        room_(control_socket(request.fleet), request.metrics, folder_.path() / "pause"),
        rounds_(config_.rounds),
        combined_(updates_to_combine(config_)),
        transport_(std::move(transport)) {
    remember(request.fleet, folder_.path());
    for (const FleetMember& member : FleetOffices::make("x509")->members(request.fleet)) {
      if (member.state != FleetMember::State::kRevoked) (void)names_.id_of(member.name);
    }
    clients_ = std::make_unique<ServedClients>(clients_input());
    if (request.admit) admission_.emplace(request.fleet);
    Log("serve").info("{}: {} for the fleet {} at {}", folder_.path().string(), config_.algorithm.name(),
                      request.fleet.string(), FleetOffices::make("x509")->server_end(request.fleet).address);
    if (room_.paused()) Log("serve").info("is still paused; `chorus pause --end` lets it go on");
  }

  RunReport run(ServeClock::time_point begun) {
    const TorchThreads one(1);
    use_kernels_of(config_.federation);
    std::int64_t failed_round = -1;
    for (int attempt = 1;; ++attempt) {
      checkpoints_.reset();
      checkpoints_.emplace(folder_, config_);
      checkpoints_->begin(server_, data_);
      began_ = false;
      journal_.emplace(folder_, server_);
      try {
        gather();
        journal_->begin(state(), rounds_, clients_->roster().size());
        began_ = true;
        state().setup_seconds += seconds_since(begun);
        WatchedFederation watched(*clients_, [this](std::size_t done, std::size_t asked) {
          journal_->show_replies(done, asked);
          room_.note_progress();
        });
        const RoundLoopEnd end = server_.run(watched, rounds(), state());
        if (end == RoundLoopEnd::kStopped) interrupted();
        return finish(end);
      } catch (const TooFewReplies& error) {
        checkpoints_->wait(journal_->tracker());
        const std::int64_t round = state().loop.round + 1;
        if (round != failed_round) attempt = 1;
        failed_round = round;
        room_.update([](ServerStatus& status) { ++status.retries; });
        if (attempt >= kMostAttempts) {
          throw WorldError(
              fmt::format("{}, {} times in a row; the same command continues the run", error.what(), kMostAttempts));
        }
        Log("serve").warning("{}; the round is repeated", error.what());
        begun = ServeClock::now();
        (void)clients_->wait_for(clients_->roster().size() + 1, kAttemptPause);
      } catch (const Interrupted&) {
        interrupted();
      }
    }
  }

 private:
  // What a client forgets when its server is killed should be a round at most.
  static ExperimentConfig with_checkpoints(ExperimentConfig config) {
    if (config.checkpoint.every == 0) config.checkpoint.every = 1;
    return config;
  }

  // With fewer updates than this the aggregation makes none, and a round would be counted for nothing.
  static std::size_t updates_to_combine(const ExperimentConfig& config) {
    const AggregationSetting setting{.folder = {}, .clients_per_round = static_cast<double>(updates_per_step(config))};
    return config.aggregation.make()->sum_floor(setting).clients;
  }

  std::size_t per_round() const { return static_cast<std::size_t>(config_.clients_per_round); }
  std::size_t least() const {
    const std::int64_t given = config_.serving.min_clients;
    return std::max(static_cast<std::size_t>(given > 0 ? given : (updates_per_step(config_) + 1) / 2), combined_);
  }
  int stops() const { return std::max(room_.stops(), request_.run.interrupts ? request_.run.interrupts() : 0); }
  RunState& state() { return checkpoints_->state(); }

  ServedClientsInput clients_input() {
    Job job;
    const Fingerprint run = fingerprint(read_file(folder_.path() / "run.json", 1U << 20U));
    job.run = run.low == 0 ? 1 : run.low;
    job.rounds = rounds_;
    job.config = config_for_clients(config_);
    job.facts = to_json(server_.model().facts());
    ModelFiles files = model_files(config_);
    job.files = files.files;
    ServedClientsInput input{*transport_, names_, std::move(job), std::move(files)};
    input.layout = server_.model().layout();
    input.least = least();
    input.deadline = config_.serving.deadline;
    input.stop = [this] {
      if (clients_) show_clients();
      return stops() >= 2;
    };
    input.refused = [this](const std::string& name, const std::string& why) {
      room_.update([&](ServerStatus& status) { status.refusals[name] = why; });
    };
    return input;
  }

  /// Until the clients are there that the run begins or continues with.
  void gather() {
    const bool resumed = state().loop.round > 0;
    const auto wanted = std::max(
        least(), config_.serving.clients > 0 ? static_cast<std::size_t>(config_.serving.clients) : per_round());
    clients_->restore_kept(state().kept);
    room_.update([&](ServerStatus& status) {
      status.run = folder_.path().string();
      status.round = state().loop.round;
      status.rounds = rounds_;
      status.needed = least();
      status.metric = server_.metric();
    });
    if (resumed) Log("serve").info("continues after round {} of {}", state().loop.round, rounds_);
    const auto begin = ServeClock::now();
    wait_until(wanted, [&] {
      return resumed && seconds_since(begin) > config_.serving.return_seconds &&
             clients_->roster().trainable() >= least();
    });
  }

  /// Until so many clients can be asked and nobody has paused the server, or `enough` says so.
  void wait_until(std::size_t wanted, const std::function<bool()>& enough) {
    const auto begin = ServeClock::now();
    auto reminded = ServeClock::time_point{};
    for (;;) {
      clients_->poll();
      if (admission_) admission_->check();
      show_clients();
      const std::size_t there = clients_->roster().trainable();
      const bool paused = room_.paused();
      const double grace = config_.serving.grace;
      const bool returning = seconds_since(begin) < grace && clients_->returning(grace) > 0;
      if (!paused && !returning && (there >= wanted || (enough && enough()))) break;
      if (stops() >= 1) throw Interrupted();
      const std::string what = paused      ? "`chorus pause --end`"
                               : returning ? "clients that were restarted"
                                           : fmt::format("clients: {} of {} can be asked{}", there, wanted, rests());
      room_.update([&](ServerStatus& status) {
        status.state = "waiting";
        status.waiting_for = what;
      });
      if (seconds_since(reminded) > kRemindSeconds) {
        Log("serve").info("waits for {}", what);
        reminded = ServeClock::now();
      }
      if (paused) {
        clients_->poll(kPumpSeconds);
      } else {
        (void)clients_->wait_for(returning ? there + 1 : wanted, kPumpSeconds);
      }
    }
    room_.update([](ServerStatus& status) {
      status.state = "training";
      status.waiting_for.clear();
    });
  }

  std::string rests() const {
    const std::size_t resting = clients_->resting();
    if (resting == 0) return "";
    return fmt::format("; {} rest for some minutes, because they refused or took too long", resting);
  }

  void show_clients() {
    const auto now = ServeClock::now();
    if (now - shown_ < kShowPause) return;
    shown_ = now;
    const auto members = clients_->roster().members();
    if (const std::size_t there = clients_->roster().trainable(); std::exchange(there_, there) != there) {
      room_.note_progress();
    }
    const std::vector<ClientNow> states = clients_->states();
    room_.update([&](ServerStatus& status) {
      for (const ClientNow& state : states) status.doing[state.name] = state.state;
      status.clients.assign(members.begin(), members.end());
      status.traffic = clients_->traffic();
      for (const RosterEntry& member : members) {
        if (member.alive) status.refusals.erase(member.name);
      }
    });
    const std::string text = server_json(room_.status(), states);
    if (text == written_) return;
    written_ = text;
    try {
      AtomicFile file(folder_.path() / "server.json", Durability::kUnsynced);
      file.write(text);
      file.commit();
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a full disk is noticed where something is lost
    }
  }

  ServerRounds rounds() {
    ServerRounds rounds{.first = 1, .last = rounds_, .total = rounds_, .tracker = journal_->tracker()};
    rounds.folder = folder_.path();
    rounds.shrink = true;
    rounds.least = least();
    rounds.stop = [this] { return stops() >= 1; };
    rounds.before = [this](std::int64_t) {
      wait_until(least(), {});
      round_begin_ = ServeClock::now();
    };
    rounds.show = [this](const RoundLoopState& loop, const RoundResult& result) {
      journal_->show(loop, result);
      show_clients();
      room_.note_progress();
      room_.update([&](ServerStatus& status) {
        status.round = loop.round;
        status.loss = result.loss;
        status.round_seconds = seconds_since(round_begin_);
        if (const auto found = loop.last.find(server_.metric()); found != loop.last.end()) status.score = found->second;
      });
    };
    rounds.save = [this](const ServerMemory& memory, bool last) {
      state().kept = clients_->kept();
      checkpoints_->save(memory, last, journal_->tracker());
    };
    return rounds;
  }

  RunReport finish(RoundLoopEnd end) {
    journal_->end_rounds();
    const auto begin = ServeClock::now();
    const RoundLoopState& loop = state().loop;
    if (server_.has_model() && loop.best_model.defined() && loop.best_round != loop.round) {
      server_.save_model(folder_.path() / "model_best", loop.best_model, loop.best_variant);
    }
    if (server_.has_model()) server_.save_model(folder_.model(), loop.model, state().variant);
    const double saving = seconds_since(begin);
    checkpoints_->wait(journal_->tracker());
    RunReport report{folder_.path(), journal_->finish(state(), end, saving)};
    clients_->finish();
    room_.update([](ServerStatus& status) { status.state = "finished"; });
    std::error_code ignored;
    fs::remove(folder_.path() / "server.json", ignored);
    fs::remove(unfinished_path(request_.fleet), ignored);
    return report;
  }

  [[noreturn]] void interrupted() {
    if (began_) checkpoints_->wait(journal_->tracker());
    throw Interrupted(fmt::format("stopped after round {} of {}; the same command continues it",
                                  checkpoints_->newest_round(), rounds_));
  }

  const ServerHalf& server_;
  const ExperimentConfig config_;
  const std::string data_;
  const ServeRequest& request_;
  RunFolder folder_;
  ClientNames names_;
  ControlRoom room_;
  const std::int64_t rounds_;
  const std::size_t combined_;  // updates that the aggregation needs at least
  std::unique_ptr<ServerTransport> transport_;
  std::unique_ptr<ServedClients> clients_;
  std::optional<Admission> admission_;
  std::optional<RunCheckpoints> checkpoints_;
  std::optional<RunJournal> journal_;
  bool began_ = false;  // the journal
  ServeClock::time_point round_begin_ = ServeClock::now(), shown_ = {};
  std::size_t there_ = 0;  // clients that could be asked
  std::string written_;    // to server.json
};

}  // namespace

RunReport serve_experiment(const ExperimentConfig& config, const ServeRequest& request) {
  const auto begun = ServeClock::now();
  check_servable(config);
  const FleetEnd end = FleetOffices::make("x509")->server_end(request.fleet);  // a mistake in the folder is told first
  if (connect_unix(control_socket(request.fleet)).get() >= 0) {
    throw WorldError(fmt::format("a server is already running for the fleet {}; `chorus status` shows what it does",
                                 request.fleet.string()));
  }
  const Dataset data = open_server_data(config.data);
  const TaskModel model(config, TaskFacts::of(data));
  const std::optional<PublicData> shared = own_public_data(config, config.data, data);
  std::optional<ServerPublic> of_server;
  if (shared) {
    of_server.emplace(
        ServerPublic{shared->query_data(), shared->queries_for(model, nullptr), shared->set_for(model, nullptr)});
  }
  const ServerHalf server(model, own_test_set(model, data), of_server);
  auto transport = listen_at(config.serving, end);  // before there is a run folder
  return ServedRun(server, data.fingerprint().hex(), open_run(config, request), request, std::move(transport))
      .run(begun);
}

}  // namespace chorus::inline serving
