#include "apps/serving/hosted_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/serving/job_offer.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/config/config.h"
#include "core/console/log.h"
#include "core/ports/state_supplement.h"

namespace chorus::inline serving {
namespace {

constexpr std::uint64_t kReplyOverhead = 4096;  // bytes besides the update

/// Everything a server tells a client about its work, without what differs between clients and over time.
std::string digest_of(const Job& job) {
  std::string text = job.config + '\n' + job.facts + '\n';
  for (const JobFile& file : job.files) text += file.place + '/' + file.name + '/' + file.digest + '\n';
  return sha256_hex(text);
}

/// States with what belongs to this client's certificate, which is not stored.
StateShelf supplemented(StateShelf states, const FleetEnd& end, const Job& job) {
  auto more = std::make_shared<ClientState>();
  const SupplementInput input{end, digest_of(job)};
  for (const std::string& name : StateSupplements::names()) more->merge(StateSupplements::make(name)->tensors(input));
  return {[load = std::move(states.load), more](ClientId client) {
            ClientState state = load(client);
            for (const auto& [name, tensor] : *more) state[name] = tensor;
            return state;
          },
          [store = std::move(states.store), more](ClientId client, std::uint64_t round, ClientState state) {
            for (const auto& entry : *more) state.erase(entry.first);
            store(client, round, std::move(state));
          }};
}

/// The server's configuration, which names no file of this machine.
ExperimentConfig config_of(const Job& job) {
  return ConfigDocument::parse(job.config, "the server's configuration").ignore_paths().load<ExperimentConfig>();
}

/// How the server reads the public files, which it sends as they are.
DataConfig reading_of(const Job& job, const ExperimentConfig& here) {
  auto config = config_of(job);
  config.data.allow_new_labels = true;  // their labels are not used
  for (const std::string& file : here.publics ? here.publics->unlabelled : std::vector<std::string>{}) {
    check_public_file(file, config.data.format);
  }
  return config.data;
}

// A server that is killed goes back to its last checkpoint, or to the one before it if that was still being written. A
// client's part of a FedBuff step may span two rounds.
std::size_t rounds_to_keep(const ExperimentConfig& config) {
  return 2 * (static_cast<std::size_t>(config.checkpoint.every) + 2);
}

}  // namespace

std::filesystem::path job_folder(const std::filesystem::path& identity, const Job& job) {
  Fingerprint all{};
  for (const JobFile& file : job.files) all = fingerprint(file.place + "/" + file.name + "/" + file.digest, all);
  return identity / "models" / all.hex();
}

std::string hex_of(std::uint64_t run) { return fmt::format("{:016x}", run); }

ExperimentConfig HostedClient::config_for(const HostedClientInput& input) {
  auto config = config_of(input.job);
  const auto folder = job_folder(input.folder, input.job);
  if (!config.model.from.empty()) config.model.from = (folder / "model").string();
  if (!config.model.tokenizer.empty()) config.model.tokenizer = (folder / "tokenizer").string();
  if (config.publics) {  // only files that the server has sent, whatever its configuration names
    *config.publics = {
        .unlabelled = {}, .query_share = 0, .labelled = config.publics->labelled, .words = config.publics->words};
    for (const JobFile& file : input.job.files) {
      if (file.place == "public") config.publics->unlabelled.push_back((folder / file.place / file.name).string());
    }
    if (config.publics->unlabelled.empty()) throw DataError("the server has a public set and has sent no file of it");
  }
  config.emulation.reset();
  config.device = input.device;
  config.data.train = input.data;
  config.data.test = input.test;
  ConfigDocument::parse("", "--data-set", input.data_settings).fill([&](ConfigVisitor& visitor) {
    config.data.describe(visitor);
  });
  // The server has no say in where this machine writes, and how much of it is used.
  config.data.cache = "none";
  config.encoding.cache = "none";
  if (config.trainer.privacy) config.trainer.privacy->copy = "auto";
  config.federation.cohort_batch = "1";
  config.federation.workers = 1;
  config.federation.threads = input.policy.threads;
  return config;
}

HostedClient::HostedClient(HostedClientInput input)
    : input_(std::move(input)),
      config_(config_for(input_)),
      sums_only_(promised_sum(config_.aggregation, {}).has_value()),
      model_(config_, parse_task_facts(input_.job.facts)),
      data_(open_client_data(config_.data, model_.facts())),
      public_(own_public_data(config_, reading_of(input_.job, config_), data_)),
      states_(input_.folder / "runs" / hex_of(input_.job.run), rounds_to_keep(config_)),
      cache_(config_.trainer.cache, input_.folder / "activations") {
  ClientExamples examples = own_examples(model_, data_, input_.job.client);
  if (public_) examples.public_set = public_->set_for(model_, nullptr);
  const std::string run = hex_of(input_.job.run);
  half_ = std::make_unique<ClientHalf>(ClientHalfInput{.model = model_,
                                                       .examples = std::move(examples),
                                                       .rounds = static_cast<std::uint64_t>(input_.job.rounds),
                                                       .states = supplemented(states_.shelf(), input_.end, input_.job),
                                                       .cache = &cache_,
                                                       .stop = input_.stop,
                                                       .folder = input_.folder / "runs" / run,
                                                       .ledgers = input_.egress.ledgers_of(run)});
}

std::string HostedClient::breach(const Request& request) const {
  const AlgorithmTraits& algorithm = config_.algorithm.traits();
  const bool predictions = algorithm.distills && algorithm.predictions_up && algorithm.one_sum;
  AggregationSetting run{
      .folder = {}, .clients_per_round = static_cast<double>(config_.clients_per_round), .rounds = input_.job.rounds};
  if (const auto sum = stated_sum(request)) {
    const Layout& layout = model_.model().layout();
    // How many predictions there are, the request says; what is done with it checks that it is true.
    run.size = predictions ? sum->size : layout.trainable_size();
    run.layout = predictions ? nullptr : &layout;
  }
  try {
    return breach_of(*promised_sum(config_.aggregation, run), request);
  } catch (const ConfigError& error) {
    return fmt::format("what its job promises is not known: {}", error.what());
  }
}

std::string HostedClient::refusal(const Request& request) const {
  if (request.run != input_.job.run) return "it takes part in another run";
  if (lost_) {
    return "what it kept of earlier rounds is no longer on its disk; put back the newest version of its identity "
           "folder, or "
           "take it out of this run";
  }
  if (std::string why = sums_only_ ? breach(request) : ""; !why.empty()) return why;
  PolicyMoment moment;
  moment.task = config_.task.name();
  moment.procedure = request.procedure;
  const bool measures = request.procedure == "evaluate" || request.procedure.ends_with("/evaluate");
  moment.files = measures && !config_.data.test.empty() ? config_.data.test : config_.data.train;
  moment.sum = stated_sum(request);
  moment.now = std::time(nullptr);
  moment.bytes_today = input_.egress.bytes_on_day_of(moment.now);
  const auto elements = static_cast<std::uint64_t>(model_.model().layout().trainable_size());
  moment.bytes_next = elements * sizeof(float) + kReplyOverhead;
  return refusal_of_request(input_.policy, moment);
}

std::string HostedClient::withheld(std::size_t bytes) const {
  const std::string why = refusal_of_bytes(input_.policy, input_.egress.bytes_on_day_of(std::time(nullptr)), bytes);
  return why.empty() ? "" : std::string(kRefuses) + why;
}

void HostedClient::expect(std::uint64_t number, std::uint64_t kept) { lost_ = !states_.begin(number, kept); }

// A reply leaves only after the state that goes with it is on the disk: whether it was accepted is told by the next
// request, even if this process dies before. `witnessed`: the server shall know of a reply without a new state, too, so
// that it notices when this folder, and the privacy ledgers in it, are older than what it has. `silent`: it shall know
// of nothing else.
Replies HostedClient::prepared(Replies replies, bool witnessed, bool silent) {
  const auto inner = std::make_shared<Replies>(std::move(replies));
  const auto next = [this, inner, witnessed, silent] {
    std::optional<Reply> reply = inner->next();
    if (reply && silent) reply->body = {};
    if (reply && reply->ok() && witnessed && !reply->on_accept) {
      reply->on_accept = [shelf = states_.shelf(), client = reply->client, round = round_] {
        shelf.store(client, round, shelf.load(client));
      };
    }
    if (reply && reply->on_accept) {
      reply->on_accept();
      reply->on_accept = [] {};
    }
    return reply;
  };
  return Replies(next, [inner] { return inner->ready(); });
}

Replies HostedClient::ask(std::span<const ClientId> cohort, Request request) {
  round_ = request.round;
  const std::string why = refusal(request);
  if (why.empty()) {
    const bool witnessed = request.session == 0 && !half_->ledgers().empty();
    const bool silent = sums_only_ && !is_secure_procedure(request.procedure);
    return prepared(half_->clients().ask(cohort, std::move(request)), witnessed, silent);
  }
  Log("client").warning("refuses {} of round {}: {}", request.procedure, request.round, why);
  std::vector<ClientId> clients(cohort.begin(), cohort.end());
  return Replies([clients, why, slot = std::size_t{0}]() mutable -> std::optional<Reply> {
    if (slot == clients.size()) return std::nullopt;
    Reply reply;
    reply.client = clients[slot];
    reply.slot = slot++;
    reply.failure = std::string(kRefuses) + why;
    return reply;
  });
}

}  // namespace chorus::inline serving
