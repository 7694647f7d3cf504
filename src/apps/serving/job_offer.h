#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "apps/experiment/experiment_config.h"
#include "apps/serving/job.h"

namespace chorus::inline serving {

/// The part of a server's configuration that its clients get. The server's labelled query set stays with it.
std::string config_for_clients(ExperimentConfig config);

/// The files of the folders and of the public set that a configuration names, and where each is, by digest. DataError
/// for one over 2 GiB.
struct ModelFiles {
  std::vector<JobFile> files;
  std::map<std::string, std::filesystem::path> paths;
};
ModelFiles model_files(const ExperimentConfig& config);

/// DataError for a public file that is not text: the library that reads HDF5 is not made for files from strangers.
/// `format` as in the configuration of data.
void check_public_file(const std::filesystem::path& path, const std::string& format);

}  // namespace chorus::inline serving
