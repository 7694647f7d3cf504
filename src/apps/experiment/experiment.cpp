#include "apps/experiment/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "application/data/partition/dataset_population.h"
#include "application/data/partition/partition_file.h"
#include "application/data/readers/open_dataset.h"
#include "application/trainer/public_rows.h"
#include "apps/experiment/gpu_start.h"
#include "apps/experiment/machine.h"
#include "apps/experiment/poisoned_data.h"
#include "apps/experiment/replay.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline experiment {
namespace {

ClientLists pooled(const ClientLists& lists) {
  ClientLists result;
  std::vector<ExampleId> all(lists.ids().begin(), lists.ids().end());
  std::sort(all.begin(), all.end());
  result.append(all);
  return result;
}

// What a partition file gives to a client and is public now belongs to nobody.
ClientLists without_public(const ClientLists& lists, const PublicData& shared) {
  const std::vector<std::uint32_t> left = shared.left_for_clients();
  ClientLists result;
  for (std::size_t c = 0; c < lists.clients(); ++c) {
    std::vector<ExampleId> mine(lists[c].begin(), lists[c].end());
    std::erase_if(mine, [&](ExampleId id) { return !std::binary_search(left.begin(), left.end(), id); });
    result.append(mine);
  }
  return result;
}

// Predictions must be few numbers per answer, and answers the same for every tokenizer.
void check_predictions(const Task& task, const std::shared_ptr<const EncodedDataset>& train) {
  if (task.client_data(train, {}).data != train) {
    throw ConfigError(
        "task.block_length: a row mixes several public texts, so words cannot be found in it; set it to 0 (a row is a "
        "text)");
  }
  for (const Head head : {Head::kSequenceClassification, Head::kTokenClassification, Head::kQuestionAnswering,
                          Head::kCausalLm, Head::kMaskedLm}) {
    if (task.head() == head) return;
  }
  throw ConfigError(fmt::format(
      "public: the task {} has no predictions that clients could exchange: a generated text depends on its own earlier "
      "tokens; use a classification, regression, tagging, question answering or language modelling task",
      task.name()));
}

// The words of the public contexts, as their first characters. Of a context in several windows each tokenizer would
// answer for other words. `whose`: the network whose tokenizer this is.
std::vector<std::uint32_t> public_words(const PublicSet& set, const std::string& whose) {
  std::vector<std::uint32_t> begins;
  for (const std::uint32_t example : set.examples) {
    const auto [first, behind] = set.encoded->rows_of(example);
    if (behind != first + 1) {
      throw ConfigError(fmt::format(
          "task.max_length: the context of public example {} needs {} windows with the tokenizer of {}, but answers "
          "are exchanged for whole contexts; raise it, or choose shorter public texts",
          example, behind - first, whose));
    }
    for (const ContextWord& word : context_words(*set.encoded, first)) begins.push_back(word.begin);
    begins.push_back(std::numeric_limits<std::uint32_t>::max());
  }
  return begins;
}

// Texts in which a language model predicts no word are not used (SharedWords::keep_predicted).
void warn_of_wordless(const std::vector<std::int64_t>& predicted, const PublicData& shared) {
  const auto none = static_cast<std::size_t>(std::count(predicted.begin(), predicted.end(), 0));
  if (none == 0) return;
  const auto first = static_cast<std::size_t>(std::find(predicted.begin(), predicted.end(), 0) - predicted.begin());
  const std::string what = fmt::format(
      "{}: {} of {} have no word to predict (a single word, or the others are cut off by task.max_length); "
      "the first is \"{}\", example {}",
      shared.where(), none, counted(predicted.size(), "text"), shared.text(first), first);
  if (none == predicted.size()) throw DataError(what + "; give longer texts");
  Log("public").warning("{}; they are left out", what);
}

// How many words of each public text a network predicts; none for tasks that do not predict words.
std::vector<std::int64_t> predicted_words(const TaskModel& model, const PublicSet& set) {
  const Head head = model.task().head();
  const bool tags = head == Head::kTokenClassification;
  if (!tags && head != Head::kCausalLm && head != Head::kMaskedLm) return {};
  const ClientData rows = model.task().client_data(set.encoded, set.examples);
  if (tags) return answer_counts(model.model(), {rows});
  return SharedWords({model.task(), *set.texts, rows, set.words}).counts();
}

}  // namespace

Experiment::Experiment(const ExperimentConfig& config) : config_(config) {
  warm_up_ = start_gpu(config_, device_named(config_.device));  // fails before anything is read
  data_ = open_dataset(config_.data);
  model_ = std::make_unique<const TaskModel>(config_, TaskFacts::of(data_));
  const auto seed = static_cast<std::uint64_t>(config_.clients.seed.value_or(config_.seed));
  if (config_.publics) {
    public_ = std::make_unique<const PublicData>(
        PublicData::Input{*config_.publics, config_.data, data_, seed, config_.algorithm.make()->queries()});
  }
  if (public_ && config_.algorithm.make()->queries() && public_->queries() == 0) {
    throw ConfigError(fmt::format(
        "public.query_share: {:g} of {} public examples is none, but algorithm: {} needs labelled examples at the "
        "server; raise it, or give public.query",
        config_.publics->queries(), public_->size(), config_.algorithm.name()));
  }
  make_partition();
  plant();
  leave_out();
  train_ = encode_split(task(), data_, Split::kTrain, config_.encoding).data;
  test_ = held_out_ ? train_ : encode_split(task(), data_, Split::kTest, config_.encoding).data;
  make_phases();
  for (const std::vector<std::uint32_t>& examples : segment_examples_)
    segment_tests_.push_back({data_, train_, examples});
  choose_test();
  make_networks();
  poison();
}

void Experiment::plant() {
  if (!config_.audit) return;
  if (config_.continual || config_.attacks) {
    throw ConfigError("audit: canaries cannot be planted in a run with `continual` or `attacks`; leave one out");
  }
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  const auto coins = static_cast<std::uint64_t>(config_.audit->seed.value_or(config_.seed));
  PlantedData planted = plant_canaries(data_, partition_.train, *config_.audit, {seed, coins});
  data_ = std::move(planted.data);
  partition_.train = std::move(planted.train);
  canaries_ = std::move(planted.canaries);
  canary_references_ = std::move(planted.references);
  const auto count = std::count_if(canaries_.begin(), canaries_.end(), [](const Canary& c) { return c.planted; });
  Log("audit").info("{} of {} canaries were planted, {} times each", count, canaries_.size(), config_.audit->repeats);
}

void Experiment::leave_out() {
  if (config_.clients.exclude.empty()) return;
  const ClientLists all = std::move(partition_.train);
  if (config_.continual) throw ConfigError("clients.exclude: not for a continual run, whose clients have segments");
  const std::set<std::int64_t> without(config_.clients.exclude.begin(), config_.clients.exclude.end());
  for (const std::int64_t client : without) {
    if (client < 0 || client >= static_cast<std::int64_t>(all.clients())) {
      throw ConfigError(
          fmt::format("clients.exclude: there is no client {}; they are 0 to {}", client, all.clients() - 1));
    }
  }
  partition_.train = ClientLists();
  for (std::size_t c = 0; c < all.clients(); ++c) {
    partition_.train.append(without.contains(static_cast<std::int64_t>(c)) ? std::span<const ExampleId>() : all[c]);
  }
}

void Experiment::make_networks() {
  const ClientsConfig& clients = config_.clients;
  std::vector<std::uint32_t> words;
  std::vector<std::int64_t> predicted;
  if (public_) {
    check_predictions(task(), train_);
    predicted = predicted_words(*model_, public_->set_for(*model_, train_));
    warn_of_wordless(predicted, *public_);
    if (task().head() == Head::kQuestionAnswering) {
      words = public_words(public_->set_for(*model_, train_), "the server's network");
    }
  }
  if (clients.models.empty()) return;
  std::vector<double> sizes;
  for (std::size_t c = 0; c < partition_.train.clients(); ++c) {
    sizes.push_back(static_cast<double>(partition_.train.size_of(c)));
  }
  network_of_ = assign_networks(clients, sizes, static_cast<std::uint64_t>(config_.seed));
  for (const ClientModelConfig& wanted : clients.models) {
    ClientNetwork network;
    network.key = wanted.name;
    try {
      network.model = std::make_unique<const TaskModel>(config_with(config_, wanted), TaskFacts::of(data_));
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format("clients.models: {}: {}", wanted.name, error.what()));
    } catch (const DataError& error) {
      throw DataError(fmt::format("clients.models: {}: {}", wanted.name, error.what()));
    }
    const Task& its_task = network.model->task();
    network.train = encode_split(its_task, data_, Split::kTrain, config_.encoding).data;
    network.test = held_out_ ? network.train : encode_split(its_task, data_, Split::kTest, config_.encoding).data;
    if (public_) network.public_set = public_->set_for(*network.model, network.train);
    if (public_ && predicted_words(*network.model, network.public_set) != predicted) {
      throw ConfigError(
          fmt::format("task.max_length: the tokenizer of {} (clients.models) cuts other words off the public texts "
                      "than the server's; raise it until no text is cut",
                      wanted.name));
    }
    if (!words.empty() && public_words(network.public_set, wanted.name + " (clients.models)") != words) {
      throw ConfigError(fmt::format(
          "clients.models: the tokenizer of {} splits the public contexts into other words than the server's, so their "
          "answers cannot be compared; use tokenizers that report characters without spaces",
          wanted.name));
    }
    networks_.push_back(std::move(network));
  }
}

void Experiment::poison() {
  if (!config_.attacks) return;
  const std::optional<Poison> wish = config_.attacks->attack.make()->poison();
  if (!wish) return;
  const auto seed = static_cast<std::uint64_t>(config_.seed);
  std::vector<ClientId> clients(partition_.train.clients());
  std::iota(clients.begin(), clients.end(), 0U);
  std::vector<std::uint32_t> examples;
  for (const ClientId attacker : draw_attackers(clients, *config_.attacks, seed)) {
    const auto own = partition_.train[attacker];
    examples.insert(examples.end(), own.begin(), own.end());
  }
  const PoisonedData training = poisoned(data_, examples, *wish, seed);
  train_ = encode_split(task(), training.data, Split::kTrain, config_.encoding).data;
  Poison everywhere = *wish;
  everywhere.share = 1;
  PoisonedData test = poisoned(data_, shared_test_, everywhere, seed);
  if (test.changed.empty()) throw ConfigError("attacks: no test example is one that the attackers want changed");
  attacked_data_ = std::make_unique<const Dataset>(std::move(test.data));
  auto encoded = encode_split(task(), *attacked_data_, held_out_ ? Split::kTrain : Split::kTest, config_.encoding).data;
  attacked_test_ = std::make_unique<const TestSet>(TestSet{*attacked_data_, std::move(encoded), test.changed});
  Log("run").info("attackers changed {} of {} training examples", training.changed.size(), partition_.train.total());
}

void Experiment::make_partition() {
  const ClientsConfig& clients = config_.clients;
  const auto seed = static_cast<std::uint64_t>(clients.seed.value_or(config_.seed));
  if (!clients.file.empty()) {
    partition_ = read_partition(clients.file, clients.group);
    check_against_data(partition_, data_.size(), clients.file + ", " + partition_.info.group);
  } else {
    const DatasetPopulation population(data_, seed);
    const PartitionRequest request{static_cast<std::size_t>(clients.count), seed, clients.test_mix};
    Population view = population.view();
    const std::vector<std::uint32_t> left = public_ ? public_->left_for_clients() : std::vector<std::uint32_t>{};
    if (public_) view.train = left;
    try {
      partition_ = clients.partition.make()->make(view, request);
    } catch (const ConfigError& error) {
      const std::size_t all = data_.split(Split::kTrain).size();
      if (!public_ || left.size() == all) throw;
      throw ConfigError(fmt::format("{} (`public` leaves the clients {} of {})", error.what(), left.size(),
                                    counted(all, "training example")));
    }
  }
  if (public_ && !clients.file.empty()) partition_.train = without_public(partition_.train, *public_);
  if (config_.continual) {
    make_segments();
  } else if (data_.split(Split::kTest).empty() && partition_.test.total() == 0) {
    if (clients.test_latest && data_.times().empty()) {
      throw ConfigError("clients.test_latest: the data says nothing about time");
    }
    hold_out(partition_, clients.test_share, clients.test_latest ? data_.times() : std::span<const std::int64_t>{},
             seed);
  }
  // A partition may also have been written with its test examples taken from the training split.
  const auto splits = data_.splits();
  const auto in_train = [&](ExampleId id) { return splits[id] == Split::kTrain; };
  const auto ids = partition_.test.ids();
  held_out_ = !ids.empty() && std::all_of(ids.begin(), ids.end(), in_train);
  if (!held_out_ && std::any_of(ids.begin(), ids.end(), in_train)) {
    throw DataError("clients: the partition tests on examples of both the training and the test split");
  }
  const auto training = partition_.train.ids();
  if (!std::all_of(training.begin(), training.end(), in_train)) {
    throw DataError(
        "clients: the partition trains on examples that are not in the training split; is it of other data?");
  }
  if (training.empty()) throw DataError("clients: the partition has no training examples");
  if (const std::string warning = empty_clients_warning(partition_); !warning.empty()) {
    Log("clients").warning("{}", warning);
  }
}

void Experiment::make_segments() {
  TimeSegments segments = time_segments(partition_, data_.times(), config_.continual->segments);
  const auto seed = static_cast<std::uint64_t>(config_.clients.seed.value_or(config_.seed));
  for (std::size_t s = 0; config_.continual->segment_test > 0 && s < segments.train.size(); ++s) {
    Partition segment;
    segment.train = segments.train[s];
    hold_out(segment, config_.continual->segment_test, {}, mix(seed, s));
    if (segment.test.total() == 0) {
      throw ConfigError(
          fmt::format("continual.segment_test: {} of each client's examples of segment {} is less than one; raise it",
                      config_.continual->segment_test, s + 1));
    }
    segments.train[s] = segment.train;
    segment_examples_.emplace_back(segment.test.ids().begin(), segment.test.ids().end());
  }
  partition_.train = segments.united();
  partition_.test = segments.test;
  if (config_.continual->one_shot) {
    const auto count = static_cast<std::int64_t>(segments.train.size());
    phases_.push_back({"all segments at once", partition_.train, count * config_.rounds});
    return;
  }
  add_replay(segments.train, config_.continual->replay, seed);
  for (std::size_t i = 0; i < segments.train.size(); ++i) {
    const auto [first, behind] = segments.bounds[i];
    phases_.push_back(
        {fmt::format("{} to {}", time_text(first), time_text(behind)), std::move(segments.train[i]), config_.rounds});
  }
}

void Experiment::make_phases() {
  if (phases_.empty()) phases_.push_back({"", partition_.train, config_.rounds});
  client_tests_ = partition_.test;
  if (config_.algorithm.traits().pooled) {
    for (Phase& phase : phases_) phase.train = pooled(phase.train);
    client_tests_ = pooled(client_tests_);
  }
}

void Experiment::choose_test() {
  // The whole test split, also when the partition deals out only a part of it; else what was held out.
  const auto held = partition_.test.ids();
  const auto split = data_.split(Split::kTest);
  if (held_out_ || config_.continual) {
    shared_test_.assign(held.begin(), held.end());
  } else {
    shared_test_.assign(split.begin(), split.end());
  }
  draw_test_subset(config_, shared_test_);
  if (shared_test_.empty()) {
    throw ConfigError("there is nothing to test on: give data.test, or clients.test_share to hold examples out");
  }
}

const TaskModel& Experiment::model_of(ClientId client) const {
  const int network = network_of_.empty() ? -1 : network_of_.at(client);
  return network < 0 ? *model_ : *networks_[static_cast<std::size_t>(network)].model;
}

std::string Experiment::description() const {
  const Layout& layout = model().layout();
  std::string shared;
  if (public_)
    shared = fmt::format(", {} public and {}", public_->size(), counted(public_->queries(), "query example"));
  for (std::size_t m = 0; m < networks_.size(); ++m) {
    const auto have = static_cast<std::size_t>(std::count(network_of_.begin(), network_of_.end(), static_cast<int>(m)));
    shared += fmt::format("; {} {} {}", counted(have, "client"), have == 1 ? "has" : "have", networks_[m].key);
  }
  return fmt::format("{} with {}, {}{}; {} with {:.2f} M of {:.2f} M parameters trained",
                     counted(phases_.front().train.clients(), "client"),
                     counted(partition_.train.total(), "training example"),
                     counted(shared_test_.size(), "test example"), shared, model().config().model_type(),
                     static_cast<double>(layout.trainable_size()) / 1e6, static_cast<double>(layout.size()) / 1e6);
}

}  // namespace chorus::inline experiment
