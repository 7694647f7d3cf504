#include "apps/experiment/compatibility.h"

#include <fmt/format.h>

#include <numeric>

#include "algorithm/local_budget/local_charges.h"
#include "apps/experiment/in_the_clear.h"

namespace chorus::inline experiment {
namespace {

bool has_momentum(Choice<Optimizers> optimizer) {
  ConfigVisitor visitor;
  optimizer.describe(visitor);
  const ConfigField* field = visitor.find("momentum");
  return field == nullptr || std::get<double>(field->get().front().second) > 0;
}

// A setting of what was chosen; 0 where it has no such setting.
template <typename Names>
std::int64_t integer_of(Choice<Names> choice, const char* name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  return field == nullptr ? 0 : std::get<std::int64_t>(field->get().front().second);
}

// The updates that make a step of an asynchronous algorithm.
std::int64_t buffer_of(const Choice<Algorithms>& algorithm) { return integer_of(algorithm, "buffer"); }

bool plain_sgd(const TrainerConfig& trainer) {
  return trainer.optimizer.name() == "sgd" && !has_momentum(trainer.optimizer) && trainer.weight_decay <= 0 &&
         trainer.clip <= 0;
}

bool is_secret(Choice<Selectors> selection) {
  ConfigVisitor visitor;
  selection.describe(visitor);
  const ConfigField* field = visitor.find("secret");
  return field != nullptr && std::get<bool>(field->get().front().second);
}

// The same of numbers.
template <typename Names>
double number_of(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  const ConfigField* field = visitor.find(name);
  if (field == nullptr || field->get().empty()) return 0;
  const ConfigScalar value = field->get().front().second;
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
}

// A setting of a secure sum, also of one within groups; nothing where it has no such setting.
std::optional<ConfigScalar> sum_setting(Choice<Aggregations> aggregation, std::string_view name) {
  ConfigVisitor visitor, within;
  aggregation.describe(visitor);
  const ConfigField* field = visitor.find(name);
  if (const ConfigField* sum = visitor.find("sum"); field == nullptr && sum != nullptr) {
    sum->describe(0, within);
    field = within.find(name);
  }
  if (field == nullptr || field->get().empty()) return std::nullopt;
  return field->get().front().second;
}

double separation_of(Choice<Selectors> selection) {
  ConfigVisitor visitor;
  selection.describe(visitor);
  const ConfigField* field = visitor.find("separation");
  return field == nullptr ? 0 : static_cast<double>(std::get<std::int64_t>(field->get().front().second));
}

bool draws_twice(Choice<Selectors> selection) {
  ConfigVisitor visitor;
  selection.describe(visitor);
  const ConfigField* field = visitor.find("replacement");
  return field != nullptr && std::get<bool>(field->get().front().second);
}

// What would change masked updates on their way, or needs single ones of them.
std::string unmasked(const ExperimentConfig& config) {
  const std::string& name = config.aggregation.name();
  if (!config.compression.up.empty()) {
    return fmt::format(
        "compression.up: filters of their own scale or support (top-k, QSGD) make sums of masked updates impossible; "
        "leave them out, aggregation: {} quantises at a common scale itself (aggregation.bits)",
        name);
  }
  if (!config.compression.down.empty()) {
    return fmt::format(
        "compression.down: under aggregation: {} all clients prove that they were given the same model, which filters "
        "change; leave them out",
        name);
  }
  if (config.algorithm.traits().distills && !config.algorithm.traits().one_sum) {
    return fmt::format(
        "aggregation: {} hides what single clients send, but algorithm: {} looks at each client's predictions; use "
        "ds_fl, mhat, fedkd, fedmd, cronus or feded, which need only their mean",
        name, config.algorithm.name());
  }
  if (draws_twice(config.selection)) {
    return fmt::format("selection: under aggregation: {} a client counts once; set selection.replacement: false", name);
  }
  if (config.algorithm.traits().asynchronous &&
      sum_setting(config.aggregation, "server") == ConfigScalar(std::string("active"))) {
    return fmt::format(
        "aggregation: {} with server: active: algorithm: {} hands out models before there is a sum, so clients cannot "
        "prove that they were given the same one; set server: semi_honest, or choose a synchronous algorithm",
        name, config.algorithm.name());
  }
  if (config.trainer.weight_decay > 0 &&
      sum_setting(config.aggregation, "rare_rows").value_or(ConfigScalar(std::int64_t{0})) !=
          ConfigScalar(std::int64_t{0})) {
    return "aggregation.rare_rows: trainer.weight_decay changes every row of a word table in every step, so each "
           "client would seem to have all words; set trainer.weight_decay: 0, or leave rare_rows out";
  }
  if (config.attacks && config.aggregation.make()->masks()) {
    return fmt::format(
        "attacks: the simulation changes updates on their way to the server, which the masks of aggregation: {} hide; "
        "use its mode: cost, which gives the same sums",
        name);
  }
  return "";
}

std::string split_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  if (!algorithm.splits) return "";
  const TrainerConfig& trainer = config.trainer;
  const auto refuse = [&](const char* key, const char* why) {
    return fmt::format("{}: with algorithm: {} {}", key, config.algorithm.name(), why);
  };
  if (trainer.clip > 0) return refuse("trainer.clip", "no side knows the norm of the whole gradient; set it to 0");
  if (trainer.accumulate > 1) return refuse("trainer.accumulate", "every batch makes a step; set it to 1");
  if (trainer.precision == TrainerConfig::Precision::kBFloat16) {
    return refuse("trainer.precision", "both sides compute in float32; leave bfloat16 out");
  }
  if (trainer.privacy) return refuse("trainer.privacy", "activations would leave without noise; leave it out");
  if (trainer.cache.mode != ActivationCache::Mode::kOff) {
    return refuse("trainer.cache", "no layers can be cached; leave it out");
  }
  if (config.attacks) return refuse("attacks", "there are no updates of the whole network; leave them out");
  if (config.emulation && config.emulation->over_selection > 1) {
    return refuse("emulation.over_selection", "a server waits for every client of a session; leave it out");
  }
  return "";
}

// Filters for predictions in a direction in which none travel.
std::string filter_mistake(const FilterList& filters, const char* direction, bool predictions,
                           const std::string& algorithm) {
  for (const Choice<Filters>& filter : filters) {
    if (predictions || filter.make()->answer_size() == 0) continue;
    return fmt::format(
        "compression.{}: {} is for predictions, and algorithm: {} sends none in this direction; leave it out",
        direction, filter.name(), algorithm);
  }
  return "";
}

// Whether a choice has a setting of this name.
template <typename Names>
bool has_setting(Choice<Names> choice, std::string_view name) {
  ConfigVisitor visitor;
  choice.describe(visitor);
  return visitor.find(name) != nullptr;
}

// Error feedback adds what was lost of the last predictions, which were of other texts or of an older model.
std::string feedback_mistake(const FilterList& filters, const char* direction, const std::string& algorithm) {
  for (const Choice<Filters>& filter : filters) {
    if (!filter.make()->feedback()) continue;
    return fmt::format(
        "compression.{}: {} with error feedback would add what it left out of older predictions to those of algorithm: "
        "{}; {}use fp16, uniform or top_answers",
        direction, filter.name(), algorithm,
        has_setting(filter, "error_feedback") ? "set its error_feedback: false, or " : "");
  }
  return "";
}

// Attacks that a method without updates does not feel.
std::string attack_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.pooled || (algorithm.personal && !algorithm.distills)) {
    return fmt::format("attacks: algorithm: {} aggregates no updates that could be attacked; leave them out", name);
  }
  const Choice<Attacks>& attack = config.attacks->attack;
  const bool poisons = attack.make()->poison().has_value();
  if (poisons && !config.clients.models.empty()) {
    return fmt::format("attacks: {} changes training data as the server's network reads it; leave out clients.models",
                       attack.name());
  }
  if (algorithm.predictions_up && !algorithm.one_sum && !(poisons && number_of(attack, "factor") == 1)) {
    return fmt::format(
        "attacks: predictions of algorithm: {} do not pass through the aggregation, so an attack can only change "
        "training data; use label_flip or backdoor with factor: 1, or one of ds_fl, mhat, fedkd, fedmd, cronus and "
        "feded",
        name);
  }
  if (!config.compression.up.empty()) {
    return "attacks: what attackers send does not pass through compression.up; leave one of them out";
  }
  return "";
}

// Settings for models that an algorithm does not have.
std::string model_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (config.checkpoint.client_models && !algorithm.own_models) {
    return fmt::format("checkpoint.client_models: algorithm: {} gives clients no models of their own; leave it out",
                       name);
  }
  if (config.checkpoint.client_models && !algorithm.any_network) {
    return fmt::format(
        "checkpoint.client_models: algorithm: {} does not keep clients' models as a whole; leave it out, and write "
        "single ones with `chorus model personal`",
        name);
  }
  if (algorithm.distills && algorithm.personal && number_of(config.algorithm, "server_rate") > 0) {
    return fmt::format("algorithm.server_rate: with algorithm: {} the server has no model that learns; leave it out",
                       name);
  }
  return "";
}

std::string distillation_mistake(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.distills && !config.publics) {
    return fmt::format(
        "algorithm: {} learns from predictions on a public set; give `public` (`public: {{}}` splits it "
        "off the training data)",
        name);
  }
  if (algorithm.distills && config.trainer.privacy) {
    return fmt::format(
        "trainer.privacy: DP-SGD protects steps on a client's own examples only, and algorithm: {} also learns from "
        "predictions, which would leave without noise; leave it out and use noise on the predictions: aggregation: "
        "private_mean, or compression: {{up: [local_gaussian]}}, with ds_fl, mhat, fedkd, fedmd, cronus or feded",
        name);
  }
  if (algorithm.any_network && config.selection.name() == "power_of_choice") {
    return fmt::format(
        "selection: power_of_choice sends the server's weights to every candidate, but clients of algorithm: {} have "
        "models of their own; use selection: uniform",
        name);
  }
  for (const auto& [filters, direction, predictions] :
       {std::tuple(&config.compression.up, "up", algorithm.predictions_up),
        std::tuple(&config.compression.down, "down", algorithm.predictions_down)}) {
    if (const std::string mistake = filter_mistake(*filters, direction, predictions, name); !mistake.empty()) {
      return mistake;
    }
    if (!predictions) continue;
    if (const std::string mistake = feedback_mistake(*filters, direction, name); !mistake.empty()) return mistake;
  }
  if (!config.clients.models.empty() && !algorithm.any_network) {
    return fmt::format(
        "clients.models: algorithm: {} exchanges weights, so all clients have the server's network; use "
        "fedid, calibrated, ds_fl, mhat, fedkd, fedmd or cronus",
        name);
  }
  if (!config.clients.models.empty() && config.trainer.cache.mode != ActivationCache::Mode::kOff) {
    return "trainer.cache: networks of `clients.models` cannot share one cache of activations; leave it out";
  }
  if (!config.publics) return "";
  if (config.algorithm.make()->queries() && config.publics->query.empty() && config.publics->query_share <= 0) {
    return fmt::format(
        "public.query_share: algorithm: {} needs labelled examples at the server; set it above 0, or "
        "give public.query",
        name);
  }
  if (integer_of(config.algorithm, "transfer_epochs") > 0 && !config.publics->labelled) {
    return "algorithm.transfer_epochs: clients learn the labels of the public set first, which has none; set "
           "public.labelled: true, or transfer_epochs: 0";
  }
  if (config.trainer.cache.mode != ActivationCache::Mode::kOff &&
      !(config.publics->unlabelled.empty() && config.publics->query.empty())) {
    return "trainer.cache: it is keyed by example of the training data, so a public set from other files cannot use "
           "it; "
           "leave one of them out";
  }
  if (config.continual) return "public: segments of time share no public set; leave out `continual`";
  return "";
}

// What would let one client change more than the noise was made for, or be known to have taken part.
std::string unprotected(const ExperimentConfig& config) {
  const std::string& name = config.aggregation.name();
  if (number_of(config.aggregation, "noise") <= 0 && number_of(config.aggregation, "epsilon") <= 0) {
    return fmt::format("aggregation: {}: give noise, or epsilon to compute it from; without noise nothing is private",
                       name);
  }
  if (config.weighting != Weighting::kEqual) {
    return fmt::format(
        "weighting: under aggregation: {} a weight that depends on a client's data has no bounded effect; set "
        "weighting: "
        "equal",
        name);
  }
  if (config.aggregation.traits().separated) {
    const double wanted = number_of(config.aggregation, "separation");
    if (config.selection.name() != "separated" || separation_of(config.selection) < wanted) {
      return fmt::format(
          "selection: aggregation: {} is accounted for with clients that wait {} rounds; set selection: {{name: "
          "separated, separation: {}}}",
          name, wanted, wanted);
    }
  } else if (!config.aggregation.traits().masked &&
             (config.selection.name() != "poisson" || !is_secret(config.selection))) {
    return fmt::format(
        "selection: aggregation: {} is accounted for with secret Poisson sampling; set selection: poisson (and leave "
        "out "
        "secret: false)",
        name);
  }
  if (config.aggregation.traits().masked && config.selection.name() == "poisson") {
    return fmt::format(
        "selection: aggregation: {} counts on the noise of a known number of clients, and gains nothing from sampling; "
        "set selection: uniform",
        name);
  }
  if (!config.algorithm.traits().one_sum) {
    return fmt::format(
        "algorithm: {} uses more of the clients than one sum per round, which aggregation: {} does not protect; use "
        "fedavg, fedprox, fedopt or fedsgd, or for predictions ds_fl, mhat, fedkd, fedmd, cronus or feded",
        config.algorithm.name(), name);
  }
  if (config.emulation && config.emulation->over_selection > 1) {
    return fmt::format(
        "emulation.over_selection: under aggregation: {} a client must not push another one out of a round; leave it "
        "out",
        name);
  }
  return "";
}

// What would release more about single examples than noisy gradients.
std::string unprotected_examples(const ExperimentConfig& config) {
  const ExamplePrivacyConfig& privacy = *config.trainer.privacy;
  if (privacy.noise <= 0 && privacy.epsilon <= 0) {
    return "trainer.privacy: give noise, or epsilon to compute it from; without noise nothing is private";
  }
  if (config.selection.name() == "power_of_choice") {
    return "selection: power_of_choice asks clients for their losses, which trainer.privacy does not protect; use "
           "selection: uniform";
  }
  if (config.algorithm.name() == "fedsgd") {
    return "algorithm: fedsgd asks clients for one gradient without noise, which trainer.privacy does not protect; use "
           "fedavg with trainer.steps: 1";
  }
  return "";
}

// Where labels would leave as they are, or several times.
std::string unprotected_labels(const ExperimentConfig& config) {
  if (config.trainer.label_epsilon <= 0) return "";
  const auto refuse = [](const char* key, const char* why) {
    return fmt::format("{}: with trainer.label_epsilon {}; leave one of them out", key, why);
  };
  if (config.continual) return refuse("continual", "every segment would give labels out again");
  if (!config.clients.models.empty()) return refuse("clients.models", "all clients have the server's network");
  if (config.attacks) return refuse("attacks", "attackers would not change the labels that are trained on");
  if (config.algorithm.traits().pooled) return refuse("algorithm", "no client gives labels out");
  return "";
}

// What would let local noise be taken back, or releases more than one tensor per round.
std::string unprotected_replies(const ExperimentConfig& config) {
  if (!release_of(config.compression.up)) return "";
  for (const Choice<Filters>& filter : config.compression.up) {
    if (!filter.make()->feedback()) continue;
    return fmt::format(
        "compression.up: {} remembers what was lost, the noise included, and would take it back; leave one of them out",
        filter.name());
  }
  if (!config.algorithm.traits().one_sum) {
    return fmt::format(
        "algorithm: {} sends more than one tensor per round, which local noise is not accounted for; use fedavg, "
        "fedprox, fedopt or fedsgd, or for predictions ds_fl, mhat, fedkd, fedmd, cronus or feded",
        config.algorithm.name());
  }
  return "";
}

}  // namespace

std::int64_t updates_per_step(const ExperimentConfig& config) {
  return config.algorithm.traits().asynchronous ? buffer_of(config.algorithm) : config.clients_per_round;
}

std::string incompatibility(const ExperimentConfig& config) {
  const AlgorithmTraits& algorithm = config.algorithm.traits();
  const Aggregation::Traits& aggregation = config.aggregation.traits();
  const std::string& name = config.algorithm.name();
  if (algorithm.individual_updates && !aggregation.shows_updates) {
    return fmt::format(
        "algorithm: {} looks at each client's update, but aggregation: {} reveals only their sum; choose "
        "another algorithm, or aggregation: mean",
        name, config.aggregation.name());
  }
  // The updates that an asynchronous algorithm buffers can be summed securely.
  const bool buffered = algorithm.asynchronous && aggregation.masked;
  if (algorithm.own_mean && config.aggregation.name() != "mean" && !buffered) {
    return fmt::format("algorithm: {} averages in its own way, so aggregation: {} would have no effect; leave it out",
                       name, config.aggregation.name());
  }
  if (const std::string mistake = distillation_mistake(config); !mistake.empty()) return mistake;
  if (const std::string mistake = model_mistake(config); !mistake.empty()) return mistake;
  if (const std::string mistake = split_mistake(config); !mistake.empty()) return mistake;
  if ((algorithm.pooled || (algorithm.personal && !algorithm.distills)) && config.aggregation.name() != "mean") {
    return fmt::format("algorithm: {} has nothing to aggregate; leave out aggregation: {}", name,
                       config.aggregation.name());
  }
  // Of how many updates a sum is made.
  const std::int64_t together = updates_per_step(config);
  if (const std::size_t least = config.aggregation.make()->least_updates();
      least > static_cast<std::size_t>(together)) {
    return fmt::format(
        "aggregation: {} with these settings needs {} updates per round, but {} is {}; raise it, or let the "
        "aggregation need fewer",
        config.aggregation.name(), least, buffered ? "algorithm.buffer" : "clients_per_round", together);
  }
  const ClientsConfig& clients = config.clients;
  const bool counted = clients.count > 0 && clients.file.empty() && clients.partition.name() != "natural";
  if (const std::int64_t trusted = integer_of(config.aggregation, "trusted"); counted && trusted >= clients.count) {
    return fmt::format("aggregation.trusted: there is no client {}; clients.count is {}, so the last one is {}",
                       trusted, clients.count, clients.count - 1);
  }
  if (config.attacks && counted) {
    std::vector<ClientId> ids(static_cast<std::size_t>(clients.count));
    std::iota(ids.begin(), ids.end(), ClientId{0});
    if (const std::string mistake = attackers_mistake(ids, *config.attacks); !mistake.empty()) return mistake;
  }
  if (config.attacks && config.aggregation.name() == "fltrust" &&
      !config.attacks->spares(static_cast<ClientId>(integer_of(config.aggregation, "trusted")))) {
    return fmt::format(
        "aggregation.trusted: client {0} may be drawn as an attacker, whom the rule would trust; set attacks.spared: "
        "[{0}]",
        integer_of(config.aggregation, "trusted"));
  }
  if (config.attacks) {
    if (const std::string mistake = attack_mistake(config); !mistake.empty()) return mistake;
  }
  if (algorithm.plain_sgd && !plain_sgd(config.trainer)) {
    return fmt::format(
        "algorithm: {} needs plain gradient steps; set trainer.optimizer: sgd (momentum 0), trainer.clip: 0 and "
        "trainer.weight_decay: 0",
        name);
  }
  if (algorithm.variants && !config.tuning.make()->keeps_network()) {
    return fmt::format(
        "algorithm: {} asks clients about parts of what trains; set tuning to pfeiffer, houlsby, lora or prefix", name);
  }
  if (algorithm.sub_networks && (config.tuning.name() != "full" || !config.model.freeze.empty())) {
    return fmt::format(
        "algorithm: {} cuts the network into smaller ones, so all of it must train; leave out tuning and model.freeze, "
        "or use fedlora for unequal ranks",
        name);
  }
  if (algorithm.clock && !config.emulation) {
    return fmt::format(
        "algorithm: {} measures by the emulated clock; give `emulation` (docs/how-to/emulate_devices.md)", name);
  }
  if (algorithm.asynchronous && config.emulation && config.emulation->over_selection > 1) {
    return fmt::format("emulation.over_selection: {} does not wait for stragglers, so it has no use; leave it out",
                       name);
  }
  if (algorithm.asynchronous && buffer_of(config.algorithm) >= config.clients_per_round) {
    return fmt::format(
        "clients_per_round: {} has {} candidates in a round and waits for {} updates, so that nobody would be left at "
        "work (a synchronous method); set clients_per_round to algorithm.concurrency + algorithm.buffer, or a smaller "
        "buffer",
        name, config.clients_per_round, buffer_of(config.algorithm));
  }
  if (const std::string refusal =
          config.aggregation.make()->refusal(static_cast<std::size_t>(together), config.weighting);
      !refusal.empty()) {
    return fmt::format("aggregation: {} with {} clients per round: {}", config.aggregation.name(), together, refusal);
  }
  if (aggregation.masked) {
    if (const std::string mistake = unmasked(config); !mistake.empty()) return mistake;
    if (const std::string mistake = told_in_the_clear(config); !mistake.empty()) return mistake;
  }
  if (const std::string fault = unprotected_replies(config); !fault.empty()) return fault;
  if (const std::string fault = unprotected_labels(config); !fault.empty()) return fault;
  if (config.trainer.privacy) {
    if (const std::string fault = unprotected_examples(config); !fault.empty()) return fault;
  }
  return aggregation.noisy_sum ? unprotected(config) : "";
}

}  // namespace chorus::inline experiment
