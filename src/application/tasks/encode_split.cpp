#include "application/tasks/encode_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include "application/tasks/encoded_file.h"
#include "core/base/error.h"
#include "core/console/log.h"
#include "core/files/cache_folder.h"

namespace chorus::inline tasks {
namespace {

const Log kLog("tasks");

// Examples per thread at a time.
constexpr std::size_t kChunk = 1024;

EncodedPart encode_all(const Task& task, const Dataset& data, Split split, std::int64_t threads) {
  const auto examples = data.split(split);
  const std::size_t chunks = (examples.size() + kChunk - 1) / kChunk;
  std::vector<EncodedPart> parts(std::max<std::size_t>(chunks, 1));
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed_at = chunks;
  const auto work = [&] {
    for (std::size_t c = next++; c < chunks; c = next++) {
      try {
        const std::size_t begin = c * kChunk;
        task.encode(data, examples.subspan(begin, std::min(kChunk, examples.size() - begin)), parts[c]);
      } catch (...) {
        // Report the first wrong example, whichever thread found it.
        const std::lock_guard lock(mutex);
        if (c < failed_at) {
          failed_at = c;
          failure = std::current_exception();
        }
        next = chunks;
      }
    }
  };
  const auto cores = static_cast<std::size_t>(std::max(1U, std::thread::hardware_concurrency()));
  const std::size_t wanted = std::min(threads > 0 ? static_cast<std::size_t>(threads) : cores, chunks);
  std::vector<std::thread> helpers;
  for (std::size_t t = 1; t < wanted; ++t) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
  return join(std::move(parts));
}

}  // namespace

void EncodeConfig::describe(ConfigVisitor& visitor) {
  visitor
      .field("cache", cache,
             "folder for tokenized data and compiled GPU kernels; auto: ~/.cache/chorus; none: keep it in memory")
      .not_empty();
  visitor.field("threads", threads, "threads that tokenize; 0: one per core").at_least(0).at_most(1024);
}

Fingerprint encoding_fingerprint(const Task& task, const Dataset& data, Split split) {
  std::string key =
      fmt::format("{}|{}|{}|{:016x}|{}|{}", data.fingerprint().hex(), name_of(split), task.name(),
                  task.tokenizer().fingerprint(), task.tokenizer().vocabulary_size(), task.encoding_key());
  for (const std::string& label : task.labels()) key += fmt::format("|{}:{}", label.size(), label);
  return fingerprint(key);
}

EncodedSplit encode_split(const Task& task, const Dataset& data, Split split, const EncodeConfig& config) {
  if (!task.reads(data.formulation())) {
    throw ConfigError(
        fmt::format("the task {} cannot read {} data; choose the task that belongs to the data (chorus "
                    "list task)",
                    task.name(), name_of(data.formulation())));
  }
  const std::filesystem::path folder = cache_folder(config.cache);
  const Fingerprint key = encoding_fingerprint(task, data, split);
  const std::filesystem::path file =
      folder.empty() ? folder : folder / "encoded" / fmt::format("{}-{}.encoded", task.name(), key.hex());
  std::error_code ignored;
  if (!file.empty() && std::filesystem::exists(file, ignored)) {
    try {
      auto found = open_encoded(file, key, task.limits());
      const auto stored = found->examples(), expected = data.split(split);
      if (std::equal(stored.begin(), stored.end(), expected.begin(), expected.end())) return {found, true, file};
      throw DataError(fmt::format("{}: it holds other examples than the data", file.string()));
    } catch (const Error& error) {
      kLog.warning("{}; it is made again", error.what());
    }
  }
  auto encoded = std::make_shared<const EncodedDataset>(encode_all(task, data, split, config.threads), task.limits());
  if (file.empty()) return {encoded, false, {}};
  try {
    std::filesystem::create_directories(file.parent_path());
    write_encoded(file, key, encoded->columns());
    return {open_encoded(file, key, task.limits()), false, file};
  } catch (const std::exception& error) {
    kLog.warning("tokenized data is not kept for the next time: {}", error.what());
    return {encoded, false, {}};
  }
}

}  // namespace chorus::inline tasks
