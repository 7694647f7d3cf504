#include "apps/experiment/canaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "application/data/dataset_builder.h"
#include "application/data/record_of.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline experiment {
namespace {

// The most frequent words of four letters or more, ties by the alphabet.
std::vector<std::string> frequent_words(const Dataset& data, std::size_t alphabet) {
  std::map<std::string, std::size_t> counts;
  const auto train = data.split(Split::kTrain);
  for (const std::uint32_t i : train.first(std::min<std::size_t>(train.size(), 20'000))) {
    std::string word;
    const auto close = [&] {
      if (word.size() >= 4 && word.size() <= 20) ++counts[word];
      word.clear();
    };
    for (const char c : data.text(i)) {
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
        word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else {
        close();
      }
    }
    close();
  }
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> words;
  for (const auto& entry : sorted) {
    if (words.size() == alphabet) break;
    words.push_back(entry.first);
  }
  if (words.size() < alphabet) {
    throw ConfigError(
        fmt::format("audit: canaries are made of {} words of the data, which has only {} of four letters "
                    "or more; use data with more words, or a smaller audit.alphabet",
                    alphabet, words.size()));
  }
  return words;
}

}  // namespace

void CanariesConfig::describe(ConfigVisitor& v) {
  v.field("count", count, "canaries, of which each is planted with probability 1/2").at_least(8).at_most(1'000'000);
  v.field("references", references, "made alike and never planted; exposure can reach log2(references + 1) bits")
      .at_least(1)
      .at_most(10'000'000);
  v.field("length", length, "words of a canary").at_least(2).at_most(200);
  v.field("alphabet", alphabet, "different words that canaries are made of: the most frequent ones of the data")
      .at_least(2)
      .at_most(1'000'000);
  v.field(
      "alone", alone,
      "a canary is all that its client has, or would have: planting it adds a client, as user-level privacy counts");
  v.field("repeats", repeats, "copies of each planted canary, all with one client").at_least(1).at_most(10'000);
  v.field("seed", seed, "of which canaries are planted, and where; other seeds make shadow runs").at_least(0);
  v.field("every", every, "rounds between measurements of exposure during the run; 0: none").at_least(0);
}

PlantedData plant_canaries(const Dataset& data, const ClientLists& train, const CanariesConfig& config,
                           const CanarySeeds& seeds) {
  const Formulation kind = data.formulation();
  const bool labelled = kind == Formulation::kTextClassification || kind == Formulation::kPairClassification;
  if (!labelled && kind != Formulation::kLanguageModel) {
    throw ConfigError(
        fmt::format("audit: canaries are for language models and classification, not for {}", name_of(kind)));
  }
  const std::vector<std::string> words = frequent_words(data, static_cast<std::size_t>(config.alphabet));
  const std::vector<std::string> labels = label_names(data);
  DatasetBuilder builder({.formulation = kind, .label_vocabulary = labels, .empty = EmptyText::kKeep});
  for (std::uint32_t i = 0; i < data.size(); ++i) {
    const Record record = record_of(data, i);
    builder.add(record, *record.split);
  }
  auto next = static_cast<std::uint32_t>(data.size());
  const auto add = [&](std::uint64_t number, const char* purpose, std::int64_t copies) {
    RandomStream stream({.seed = seeds.words, .purpose = purpose, .client = number});
    Record record;
    for (std::int64_t i = 0; i < config.length; ++i) {
      const std::string& word = words[stream.below(words.size())];
      record.text += (i > 0 ? " " : "") + word;
      if (kind == Formulation::kPairClassification) {
        record.second += (i > 0 ? " " : "") + words[stream.below(words.size())];
      }
    }
    if (labelled) record.label = labels[stream.below(labels.size())];
    record.split = Split::kTrain;
    std::vector<std::uint32_t> added;
    for (std::int64_t i = 0; i < copies; ++i) {
      builder.add(record, Split::kTrain);
      added.push_back(next++);
    }
    return added;
  };

  std::vector<ClientId> hosts;
  for (std::size_t c = 0; c < train.clients(); ++c) {
    if (train.size_of(c) > 0) hosts.push_back(static_cast<ClientId>(c));
  }
  if (config.alone) {
    if (static_cast<std::size_t>(config.count) > hosts.size()) {
      throw ConfigError(fmt::format("audit.alone: {} canaries need as many clients, and only {} have data",
                                    config.count, hosts.size()));
    }
    RandomStream order({.seed = seeds.coins, .purpose = "canary hosts"});
    order.shuffle(std::span(hosts));
  }
  std::vector<std::vector<ExampleId>> planted(train.clients());
  std::vector<bool> emptied(train.clients(), false);
  PlantedData result;
  for (std::int64_t i = 0; i < config.count; ++i) {
    const auto number = static_cast<std::uint64_t>(i);
    RandomStream coin({.seed = seeds.coins, .purpose = "canary coin", .client = number});
    Canary canary;
    canary.planted = coin.uniform() < 0.5;
    canary.client = config.alone ? hosts[number] : hosts[coin.below(hosts.size())];
    if (config.alone) emptied[canary.client] = true;
    canary.examples = add(number, "canary", canary.planted ? config.repeats : 1);
    if (canary.planted) {
      auto& list = planted[canary.client];
      list.insert(list.end(), canary.examples.begin(), canary.examples.end());
    }
    result.canaries.push_back(std::move(canary));
  }
  for (std::int64_t i = 0; i < config.references; ++i) {
    result.references.push_back(add(static_cast<std::uint64_t>(i), "canary reference", 1).front());
  }
  for (std::size_t c = 0; c < train.clients(); ++c) {
    std::vector<ExampleId> list;
    if (!emptied[c]) list.assign(train[c].begin(), train[c].end());
    list.insert(list.end(), planted[c].begin(), planted[c].end());
    result.train.append(list);
  }
  result.data = std::move(builder).finish();
  check(result.data.size() == next, "every canary is in the data");
  return result;
}

}  // namespace chorus::inline experiment
