#include "apps/experiment/public_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "application/data/dataset_builder.h"
#include "application/data/readers/open_dataset.h"
#include "application/tasks/encode_split.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/console/log.h"

namespace chorus::inline experiment {
namespace {

namespace fs = std::filesystem;

constexpr double kPublicShare = 0.5;

// Whether two paths name the same file, or one names the folder of the other.
bool overlap(const std::string& one, const std::string& other) {
  std::error_code missing;
  const fs::path a = fs::canonical(one, missing);
  if (missing) return false;
  const fs::path b = fs::canonical(other, missing);
  if (missing) return false;
  const auto [end_of_a, end_of_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return end_of_a == a.end() || end_of_b == b.end();
}

// Texts that others shall not know, or that decide how good a model is.
void check_files(const std::vector<std::string>& files, const DataConfig& reading, const char* key) {
  for (const std::string& file : files) {
    for (const std::string& test : reading.test) {
      if (!overlap(file, test)) continue;
      throw ConfigError(
          fmt::format("public.{}: {} is test data (data.test: {}), so models would learn from what they "
                      "are tested on; give other files",
                      key, file, test));
    }
    for (const std::string& train : reading.train) {
      if (!overlap(file, train)) continue;
      Log("public").warning("public.{}: {} is training data of the clients, too (data.train: {})", key, file, train);
    }
  }
}

// Not an error: the configuration of an older run has the defaults of shares beside its files.
void warn_of_unused(const PublicConfig& config) {
  const auto warn = [](const std::optional<double>& share, const char* key, const std::vector<std::string>& files,
                       const char* instead) {
    if (share.value_or(0) <= 0 || files.empty()) return;
    Log("public").warning("public.{}: {:g} is not used, because public.{} names files; leave one of them out", key,
                          *share, instead);
  };
  warn(config.share, "share", config.unlabelled, "unlabelled");
  warn(config.query_share, "query_share", config.query, "query");
}

// Labels of texts that everybody knows would say less than they seem to.
void check_apart(const PublicConfig& config) {
  for (const std::string& query : config.query) {
    for (const std::string& shared : config.unlabelled) {
      if (!overlap(query, shared)) continue;
      throw ConfigError(
          fmt::format("public.query: {} is in the public set, too (public.unlabelled: {}), so the server would be "
                      "measured on what it learns; give other files, or query_share, which draws examples out",
                      query, shared));
    }
  }
}

// The texts without what they should be answered with.
Dataset without_targets(const Dataset& data) {
  DatasetBuilder builder({.formulation = data.formulation(), .empty = EmptyText::kKeep});
  for (std::size_t i = 0; i < data.size(); ++i) {
    const Example example = data.at(i);
    Record record;
    record.id = example.id;
    record.text = example.text;
    record.second = example.second;
    for (std::size_t w = 0; w < example.words.size(); ++w) record.words.emplace_back(example.words[w]);
    builder.add(record, example.split);
  }
  return std::move(builder).finish();
}

// With targets, labels must be those of the training data: they define the order of a model's outputs.
std::shared_ptr<const Dataset> read_more(const std::vector<std::string>& files, const PublicData::Input& input,
                                         const char* key, bool targets) {
  check_files(files, input.reading, key);
  const Dataset& data = input.data;
  DataConfig reading = input.reading;
  reading.train = files;
  reading.validation.clear();
  reading.test.clear();
  reading.formulation = name_of(data.formulation());
  reading.client_files = false;
  // Generated training data says nothing about the format of files.
  const bool generated = files.at(0).find('=') != std::string::npos && !fs::exists(files.at(0));
  if (reading.format == "synthetic" && !generated) reading.format = DataConfig().format;
  reading.labels.clear();
  reading.allow_new_labels = reading.allow_new_labels || !targets;
  if (targets) {
    const StringTable& names = data.formulation() == Formulation::kSequenceTagging ? data.tags() : data.labels();
    for (std::size_t i = 0; i < names.size(); ++i) reading.labels.emplace_back(names.at(static_cast<std::int32_t>(i)));
  }
  Dataset read = open_dataset(reading);
  if (read.split(Split::kTrain).empty()) throw DataError(fmt::format("public.{}: the files have no examples", key));
  return std::make_shared<const Dataset>(targets ? std::move(read) : without_targets(read));
}

// Whether an example has what a model should answer. Questions may have no answer, but not all of them.
bool has_target(const Dataset& data, std::uint32_t index) {
  const Example example = data.at(index);
  switch (data.formulation()) {
    case Formulation::kTextClassification:
    case Formulation::kPairClassification:
      return example.label >= 0;
    case Formulation::kPairRegression:
      return !std::isnan(example.score);
    case Formulation::kSequenceTagging:
      return !example.tags.empty();
    case Formulation::kSpanExtraction:
      return !example.answers.empty();
    case Formulation::kSeq2Seq:
    case Formulation::kLanguageModel:
      break;
  }
  return true;
}

// `where` names the setting and the files.
void check_targets(const Dataset& data, std::span<const std::uint32_t> examples, const std::string& where) {
  std::size_t without = 0;
  for (const std::uint32_t index : examples) without += has_target(data, index) ? 0 : 1;
  if (without == 0 || (data.formulation() == Formulation::kSpanExtraction && without < examples.size())) return;
  throw DataError(
      fmt::format("{}: {} of {} examples have no label, but their labels are needed; give labelled files, name the "
                  "column of the labels (data.columns), or leave the setting out",
                  where, without, examples.size()));
}

std::string place_of(const char* setting, const std::vector<std::string>& files) {
  return files.empty() ? fmt::format("public.{}", setting)
                       : fmt::format("public.{}: {}", setting, fmt::join(files, ", "));
}

// Takes floor(share * size) random examples out of a list, which stays ascending.
std::vector<std::uint32_t> take(std::vector<std::uint32_t>& from, double share, std::uint64_t seed,
                                const char* purpose) {
  std::vector<std::uint32_t> mixed = from;
  RandomStream({.seed = seed, .purpose = purpose}).shuffle(std::span(mixed));
  const auto count = static_cast<std::ptrdiff_t>(std::floor(share * static_cast<double>(mixed.size()) + 1e-9));
  std::vector<std::uint32_t> taken(mixed.begin(), mixed.begin() + count);
  from.assign(mixed.begin() + count, mixed.end());
  std::sort(taken.begin(), taken.end());
  std::sort(from.begin(), from.end());
  return taken;
}

}  // namespace

PublicData::PublicData(const Input& input)
    : data_(input.data),
      words_(input.config.words),
      where_(place_of(input.config.unlabelled.empty() ? "share" : "unlabelled", input.config.unlabelled)) {
  const PublicConfig& config = input.config;
  warn_of_unused(config);
  const bool draws = config.queries() > 0 && input.queries;  // labels of the public files
  if (config.unlabelled.empty()) {
    const auto train = data_.split(Split::kTrain);
    std::vector<std::uint32_t> all(train.begin(), train.end());
    const double share = config.share.value_or(kPublicShare);
    pool_.examples = take(all, share, input.seed, "public");
    if (pool_.examples.empty() || all.empty()) {
      throw ConfigError(
          fmt::format("public.share: {:g} of {} training examples leaves {} nothing; choose another share", share,
                      train.size(), all.empty() ? "the clients" : "the public set"));
    }
  } else {
    pool_.own = read_more(config.unlabelled, input, "unlabelled", config.labelled || draws);
    const auto read = pool_.own->split(Split::kTrain);
    pool_.examples.assign(read.begin(), read.end());
  }
  if (config.query.empty()) {
    query_.own = pool_.own;
    query_.examples = take(pool_.examples, config.queries(), input.seed, "query");
    if (draws) check_targets(query_data(), query_.examples, place_of("query_share", config.unlabelled));
  } else {
    check_apart(config);
    query_.own = read_more(config.query, input, "query", true);
    const auto read = query_.own->split(Split::kTrain);
    query_.examples.assign(read.begin(), read.end());
    check_targets(query_data(), query_.examples, place_of("query", config.query));
  }
  if (pool_.examples.empty()) throw ConfigError("public: no unlabelled examples are left; lower public.query_share");
  if (config.labelled) {
    check_targets(pool_.own ? *pool_.own : data_, pool_.examples, place_of("labelled", config.unlabelled));
  }
}

std::vector<std::uint32_t> PublicData::left_for_clients() const {
  std::vector<std::uint32_t> taken;
  for (const Part* part : {&pool_, &query_}) {
    if (!part->own) taken.insert(taken.end(), part->examples.begin(), part->examples.end());
  }
  std::sort(taken.begin(), taken.end());
  const auto train = data_.split(Split::kTrain);
  std::vector<std::uint32_t> left;
  std::set_difference(train.begin(), train.end(), taken.begin(), taken.end(), std::back_inserter(left));
  return left;
}

PublicSet PublicData::encoded(const Part& part, const TaskModel& model,
                              const std::shared_ptr<const EncodedDataset>& train) const {
  const Dataset& texts = part.own ? *part.own : data_;
  return {part.own ? encode_split(model.task(), texts, Split::kTrain, model.config().encoding).data : train,
          part.examples, &texts, words_};
}

PublicSet PublicData::set_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const {
  return encoded(pool_, model, train);
}

PublicSet PublicData::queries_for(const TaskModel& model, const std::shared_ptr<const EncodedDataset>& train) const {
  return encoded(query_, model, train);
}

}  // namespace chorus::inline experiment
