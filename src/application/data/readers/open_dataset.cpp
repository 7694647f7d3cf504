#include "application/data/readers/open_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <utility>

#include "application/data/dataset_builder.h"
#include "application/data/readers/dataset_cache.h"
#include "application/data/readers/format.h"
#include "core/base/error.h"
#include "core/console/log.h"

namespace chorus::inline readers {
namespace {

namespace fs = std::filesystem;

std::optional<bool> yes_no(const std::string& value, const char* key) {
  if (value == "auto") return {};
  if (value == "yes" || value == "true") return true;
  if (value == "no" || value == "false") return false;
  throw ConfigError(fmt::format("{} is '{}'; it must be yes, no or auto", key, value));
}

ReaderOptions reader_options(const DataConfig& config) {
  ReaderOptions options;
  if (config.formulation != "auto") options.formulation = formulation_named(config.formulation);
  options.columns = config.columns;
  options.header = yes_no(config.header, "header");
  options.quotes = yes_no(config.quotes, "quotes");
  if (config.delimiter.size() > 1 && config.delimiter != "\\t") {
    throw ConfigError(fmt::format("delimiter is '{}'; it must be one character", config.delimiter));
  }
  if (!config.delimiter.empty()) options.delimiter = config.delimiter == "\\t" ? '\t' : config.delimiter.front();
  for (const std::int64_t column : {config.word_column, config.tag_column}) {
    if (column < -1000 || column > 1000) throw ConfigError(fmt::format("column {} is out of range", column));
  }
  options.word_column = static_cast<int>(config.word_column);
  options.tag_column = static_cast<int>(config.tag_column);
  options.glue_task = config.glue_task;
  options.paragraphs = config.paragraphs;
  options.misaligned = config.misaligned;
  return options;
}

bool no_data(const fs::path& path) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.starts_with('.') || name.starts_with("readme") || name.starts_with("licen") || name.ends_with(".md") ||
         name.ends_with("_partition.h5");
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!no_data(entry.path())) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

bool is_client_folder(const fs::path& folder) {
  const Format& clients = format_named("clients");
  return clients.likelihood({.path = folder, .text = {}, .folder = true}) > kNo;
}

/// The files behind a path.
std::vector<std::string> expand(const std::string& path, const std::string& format) {
  if (format == "parallel" || !fs::is_directory(path) || is_client_folder(path)) return {path};
  std::vector<std::string> files;
  for (const fs::path& entry : entries_of(path)) {
    if (fs::is_regular_file(entry)) files.push_back(entry.string());
  }
  if (files.empty()) throw DataError(fmt::format("{}: the folder has no data files", path));
  return files;
}

Dataset with_notes_logged(Dataset data) {
  const Log log("data");
  for (const std::string& note : data.report().notes) log.warning("{}", note);
  return data;
}

/// The split in a file name: the whole name ("train") or a part of it ("atis-2.train.w-intent", "TEST_FILE").
std::optional<Split> split_of(const fs::path& path, bool whole) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto is = [&, stem = name.substr(0, name.find('.'))](const char* word) {
    return whole ? stem == word : name.find(word) != std::string::npos;
  };
  if (is("train")) return Split::kTrain;
  if (is("dev") || is("val") || is("valid") || is("validation")) return Split::kValidation;
  if (is("test")) return Split::kTest;
  return {};
}

}  // namespace

Dataset open_dataset(const DataConfig& config) {
  ReaderOptions options = reader_options(config);
  std::vector<std::pair<Split, std::string>> files;
  const std::array<std::pair<Split, const std::vector<std::string>*>, kSplits> lists{
      {{Split::kTrain, &config.train}, {Split::kValidation, &config.validation}, {Split::kTest, &config.test}}};
  for (const auto& [split, paths] : lists) {
    for (const std::string& path : *paths) {
      for (std::string& file : expand(path, config.format)) files.emplace_back(split, std::move(file));
    }
  }
  if (files.empty()) throw ConfigError("data: no data; set train, validation or test");
  if (config.limit < 0) throw ConfigError("limit must not be negative");

  const DatasetCache cache(config, files);
  if (auto known = cache.find()) return with_notes_logged(std::move(*known));
  std::optional<DatasetBuilder> builder;
  std::string first_file;
  for (const auto& [split, file] : files) {
    if (builder && config.format != "fednlp" && builder->full(split)) continue;
    const auto reader = open_reader(file, config.format, options);
    const Formulation formulation =
        reader->formulation().value_or(options.formulation.value_or(Formulation::kTextClassification));
    if (options.formulation && formulation != *options.formulation) {
      const std::string other = builder ? first_file + " is" : "the configured formulation is";
      throw DataError(
          fmt::format("{} is {}, but {} {}", file, name_of(formulation), other, name_of(*options.formulation)));
    }
    if (!builder) {
      options.formulation = formulation;
      first_file = file;
      builder.emplace(BuildOptions{.formulation = formulation,
                                   .label_vocabulary = config.labels,
                                   .allow_new_labels = config.allow_new_labels,
                                   .empty = config.empty,
                                   .limit = static_cast<std::size_t>(config.limit)});
    }
    builder->read(*reader, split, config.client_files ? fs::path(file).stem().string() : "");
  }
  Dataset data = std::move(*builder).finish();
  if (data.size() == 0) {
    throw DataError(
        fmt::format("{} {} no examples", first_file, files.size() > 1 ? "and the other files have" : "has"));
  }
  cache.keep(data);
  return with_notes_logged(std::move(data));
}

DataConfig config_of_paths(const std::vector<std::string>& paths) {
  DataConfig config;
  const auto add = [&](Split split, const std::string& path) {
    (split == Split::kTrain ? config.train : split == Split::kTest ? config.test : config.validation).push_back(path);
  };
  for (const std::string& path : paths) {
    std::error_code code;
    if (!fs::is_directory(path, code) || is_client_folder(path)) {
      add(split_of(path, false).value_or(Split::kTrain), path);
      continue;
    }
    const std::vector<fs::path> entries = entries_of(path);
    std::array<std::vector<std::string>, kSplits> chosen;
    for (const bool whole : {true, false}) {
      std::array<std::vector<std::string>, kSplits> found;
      for (const fs::path& entry : entries) {
        if (const auto split = split_of(entry, whole)) {
          found[static_cast<std::size_t>(*split)].push_back(entry.string());
        }
      }
      for (std::size_t s = 0; s < kSplits; ++s) {
        if (chosen[s].empty()) chosen[s] = found[s];
      }
    }
    const bool named = std::any_of(chosen.begin(), chosen.end(), [](const auto& list) { return !list.empty(); });
    for (std::size_t s = 0; s < kSplits; ++s) {
      for (const std::string& file : chosen[s]) add(static_cast<Split>(s), file);
    }
    if (!named) add(Split::kTrain, path);
  }
  return config;
}

}  // namespace chorus::inline readers
