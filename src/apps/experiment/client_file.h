#pragma once

#include <filesystem>
#include <string>

#include "application/data/dataset.h"
#include "application/data/partition/partition.h"

namespace chorus::inline experiment {

/// Who holds what, for pictures (docs/reference/formats.md, "Run folders"): examples of each client, and how many of
/// each label where the data has at most 200. Of more than `most` clients, that many evenly drawn from the list.
std::string client_file_json(const Partition& partition, const Dataset& data, std::size_t most = 1000);

/// Writes clients.json into a run folder.
void write_client_file(const std::filesystem::path& run, const Partition& partition, const Dataset& data);

}  // namespace chorus::inline experiment
