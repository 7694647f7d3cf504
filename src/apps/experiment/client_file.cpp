#include "apps/experiment/client_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "application/data/partition/dataset_population.h"
#include "core/files/files.h"

namespace chorus::inline experiment {

std::string client_file_json(const Partition& partition, const Dataset& data, std::size_t most) {
  using Json = nlohmann::ordered_json;
  constexpr std::size_t kMostLabels = 200;
  const DatasetPopulation population(data, 0);
  const Factor labels = population.view().labels;
  const bool labelled = !labels.empty() && labels.names.size() <= kMostLabels;
  Json json = {{"format", 1},
               {"method", partition.info.method.empty() ? partition.info.group : partition.info.method},
               {"labels", Json::array()},
               {"total", partition.clients()},
               {"clients", Json::array()}};
  if (labelled) json["labels"] = std::vector<std::string>(labels.names.begin(), labels.names.end());
  const std::size_t shown = std::min(partition.clients(), most);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t c = i * partition.clients() / shown;
    Json client = {
        {"name", c < partition.client_names.size() ? partition.client_names[c] : fmt::format("client {}", c)},
        {"train", partition.train.size_of(c)},
        {"test", c < partition.test.clients() ? partition.test.size_of(c) : 0}};
    if (labelled) {
      std::vector<std::size_t> counts(labels.names.size());
      for (const ExampleId id : partition.train[c]) {
        if (const std::int32_t label = labels.ids[id]; label != Factor::kNoValue)
          ++counts[static_cast<std::size_t>(label)];
      }
      client["labels"] = counts;
    }
    json["clients"].push_back(std::move(client));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

void write_client_file(const std::filesystem::path& run, const Partition& partition, const Dataset& data) {
  write_file(run / "clients.json", client_file_json(partition, data));
}

}  // namespace chorus::inline experiment
