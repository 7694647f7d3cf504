#include "application/data/record_of.h"

namespace chorus::inline data {

Record record_of(const Dataset& data, std::uint32_t index) {
  const Example example = data.at(index);
  Record record;
  record.id = example.id;
  record.text = example.text;
  record.second = example.second;
  if (example.label >= 0) record.label = data.labels().at(example.label);
  if (example.client >= 0) record.client = data.clients().at(example.client);
  if (example.source >= 0) record.source = data.sources().at(example.source);
  record.time = example.time;
  record.split = example.split;
  return record;
}

std::vector<std::string> label_names(const Dataset& data) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < data.labels().size(); ++i) {
    names.emplace_back(data.labels().at(static_cast<std::int32_t>(i)));
  }
  return names;
}

}  // namespace chorus::inline data
