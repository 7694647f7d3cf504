#include "apps/experiment/public_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "application/data/readers/open_dataset.h"
#include "application/tasks/encode_split.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline experiment {
namespace {

// Labels must be those of the training data: they define the order of a model's outputs.
std::shared_ptr<const Dataset> read_more(const std::vector<std::string>& files, DataConfig reading, const Dataset& data,
                                         const char* key) {
  reading.train = files;
  reading.validation.clear();
  reading.test.clear();
  reading.formulation = name_of(data.formulation());
  reading.client_files = false;
  // Generated training data says nothing about the format of files.
  const bool generated = files.at(0).find('=') != std::string::npos && !std::filesystem::exists(files.at(0));
  if (reading.format == "synthetic" && !generated) reading.format = DataConfig().format;
  const StringTable& names = data.formulation() == Formulation::kSequenceTagging ? data.tags() : data.labels();
  reading.labels.clear();
  for (std::size_t i = 0; i < names.size(); ++i) reading.labels.emplace_back(names.at(static_cast<std::int32_t>(i)));
  auto read = std::make_shared<const Dataset>(open_dataset(reading));
  if (read->split(Split::kTrain).empty()) throw DataError(fmt::format("public.{}: the files have no examples", key));
  return read;
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

PublicData::PublicData(const PublicConfig& config, const DataConfig& reading, const Dataset& data, std::uint64_t seed)
    : data_(data), words_(config.words) {
  if (config.unlabelled.empty()) {
    const auto train = data.split(Split::kTrain);
    std::vector<std::uint32_t> all(train.begin(), train.end());
    pool_.examples = take(all, config.share, seed, "public");
    if (pool_.examples.empty() || all.empty()) {
      throw ConfigError(
          fmt::format("public.share: {:g} of {} training examples leaves {} nothing; choose another share",
                      config.share, train.size(), all.empty() ? "the clients" : "the public set"));
    }
  } else {
    pool_.own = read_more(config.unlabelled, reading, data, "unlabelled");
    const auto read = pool_.own->split(Split::kTrain);
    pool_.examples.assign(read.begin(), read.end());
  }
  if (config.query.empty()) {
    query_.own = pool_.own;
    query_.examples = take(pool_.examples, config.query_share, seed, "query");
  } else {
    query_.own = read_more(config.query, reading, data, "query");
    const auto read = query_.own->split(Split::kTrain);
    query_.examples.assign(read.begin(), read.end());
  }
  if (pool_.examples.empty()) throw ConfigError("public: no unlabelled examples are left; lower public.query_share");
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
