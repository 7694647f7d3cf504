#include "infrastructure/checkpoint/checkpoint_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/base/utf8.h"
#include "core/console/log.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"

namespace chorus::inline checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;  // sorted keys: the checksum is over the dumped text

constexpr int kCheckpointFormat = 3;
constexpr std::uint64_t kMaxStateBytes = std::uint64_t{1} << 30;

/// Written by another version: must not be skipped like a damaged one.
class FormatError : public DataError {
 public:
  using DataError::DataError;
};

std::string checksum(std::string_view bytes) { return fingerprint(bytes).hex(); }

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_of(const Json& json, const std::string& where) {
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return std::nan("");
  if (json == "inf") return HUGE_VAL;
  if (json == "-inf") return -HUGE_VAL;
  throw DataError(fmt::format("{}: is damaged: a number is invalid", where));
}

[[noreturn]] void fail(const fs::path& path, int error) {
  throw WorldError(fmt::format("{}: cannot be written: {}", path.string(), std::generic_category().message(error)));
}

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  (void)::fsync(descriptor);  // some file systems cannot sync a folder
  ::close(descriptor);
}

void write_checkpoint(const fs::path& folder, const Checkpoint& checkpoint) {
  const std::vector<NamedTensor> tensors(checkpoint.tensors.begin(), checkpoint.tensors.end());
  const fs::path path = folder / "tensors.safetensors";
  write_safetensors(path, tensors);
  const MappedFile written(path);
  Json json = {{"format", kCheckpointFormat},
               {"round", checkpoint.round},
               {"phase", checkpoint.phase},
               {"texts", Json::object()},
               {"numbers", Json::object()},
               {"tensor_bytes", written.size()},
               {"tensor_fingerprint", checksum(written.text())}};
  for (const auto& [name, text] : checkpoint.texts) {
    check(utf8::valid(text) && utf8::valid(name), "a checkpoint's text is not UTF-8");
    json["texts"][name] = text;
  }
  for (const auto& [name, value] : checkpoint.numbers) json["numbers"][name] = number(value);
  json["fingerprint"] = checksum(json.dump());
  write_file(folder / "state.json", json.dump(1) + '\n');
}

Checkpoint parse_state(Json json, const fs::path& folder) {
  const std::string where = (folder / "state.json").string();
  const auto damaged = [&](std::string_view what) { return DataError(fmt::format("{}: is damaged: {}", where, what)); };
  if (!json.is_object() || !json.contains("format")) throw damaged("it is not the state of a checkpoint");
  if (json["format"] != kCheckpointFormat) {
    throw FormatError(
        fmt::format("{}: is a checkpoint of format {}, and this program knows format {}; use the version "
                    "of Chorus that wrote it",
                    folder.string(), json["format"].dump(), kCheckpointFormat));
  }
  const Json sum = json.contains("fingerprint") ? json["fingerprint"] : Json();
  json.erase("fingerprint");
  if (sum != checksum(json.dump())) throw damaged("its checksum differs");
  const fs::path path = folder / "tensors.safetensors";
  {
    const MappedFile file(path);
    if (json.at("tensor_bytes") != file.size() || json.at("tensor_fingerprint") != checksum(file.text()))
      throw DataError(fmt::format("{}: is damaged: its size or checksum differs", path.string()));
  }
  Checkpoint checkpoint;
  checkpoint.round = json.at("round").get<std::int64_t>();
  checkpoint.phase = json.at("phase").get<std::int64_t>();
  for (const auto& [name, text] : json.at("texts").items()) checkpoint.texts[name] = text.get<std::string>();
  for (const auto& [name, value] : json.at("numbers").items()) checkpoint.numbers[name] = number_of(value, where);
  const SafetensorsFile tensors = SafetensorsFile::open(path);
  for (const TensorEntry& entry : tensors.entries()) checkpoint.tensors[entry.name] = tensors.read(entry);
  return checkpoint;
}

Checkpoint load(const fs::path& folder, std::int64_t round) {
  const fs::path path = folder / "state.json";
  try {
    Checkpoint checkpoint = parse_state(Json::parse(read_file(path, kMaxStateBytes), nullptr, false), folder);
    if (checkpoint.round != round)
      throw DataError(fmt::format("{}: is damaged: it says round {}", path.string(), checkpoint.round));
    return checkpoint;
  } catch (const Json::exception&) {
    throw DataError(fmt::format("{}: is damaged: a value is missing or of the wrong kind", path.string()));
  }
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder, std::size_t keep)
    : folder_(std::move(folder)), keep_(std::max<std::size_t>(keep, 1)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, error.value());
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().filename().string().starts_with(".round_")) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

fs::path CheckpointStore::path_of(std::int64_t round) const { return folder_ / fmt::format("round_{:06}", round); }

std::vector<std::int64_t> CheckpointStore::rounds() const {
  std::vector<std::int64_t> rounds;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    std::int64_t round = 0;
    if (!name.starts_with("round_")) continue;
    const auto [end, error] = std::from_chars(name.data() + 6, name.data() + name.size(), round);
    if (error == std::errc() && end == name.data() + name.size() && path_of(round).filename() == name)
      rounds.push_back(round);
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

void CheckpointStore::save(const Checkpoint& checkpoint) {
  check(checkpoint.round >= 0, "a checkpoint's round is negative");
  const fs::path target = path_of(checkpoint.round);
  const fs::path draft = folder_ / fmt::format(".{}.{}.tmp", target.filename().string(), ::getpid());
  std::error_code error;
  fs::remove_all(draft, error);
  try {
    if (!fs::create_directory(draft, error)) fail(draft, error.value());
    write_checkpoint(draft, checkpoint);
    if (::rename(draft.c_str(), target.c_str()) != 0) {
      if (errno != ENOTEMPTY && errno != EEXIST) fail(target, errno);
      if (::renameat2(AT_FDCWD, draft.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) != 0) fail(target, errno);
      fs::remove_all(draft, error);
    }
  } catch (...) {
    fs::remove_all(draft, error);
    throw;
  }
  sync_folder(folder_);

  const std::vector<std::int64_t> all = rounds();
  for (std::size_t i = 0; i + keep_ < all.size(); ++i) {
    if (all[i] != checkpoint.round) fs::remove_all(path_of(all[i]), error);
  }
}

std::optional<Checkpoint> CheckpointStore::latest(const Verify& verify) const {
  const std::vector<std::int64_t> all = rounds();
  if (all.empty()) return std::nullopt;
  const Log log("checkpoint");
  std::string last;
  for (auto round = all.rbegin(); round != all.rend(); ++round) {
    try {
      Checkpoint checkpoint = load(path_of(*round), *round);
      if (verify) verify(checkpoint);
      return checkpoint;
    } catch (const FormatError&) {
      throw;
    } catch (const DataError& error) {
      last = error.what();
      log.warning("{}; trying the checkpoint before it", error.what());
    }
  }
  throw DataError(
      fmt::format("{}: no checkpoint can be read ({}); put that file back from a copy, or start the "
                  "run again",
                  folder_.string(), last));
}

void CheckpointStore::discard_after(std::int64_t round) {
  std::error_code error;
  for (const std::int64_t one : rounds()) {
    if (one <= round) continue;
    const fs::path aside = folder_ / fmt::format("damaged_{:06}", one);
    fs::remove_all(aside, error);
    fs::rename(path_of(one), aside, error);
    if (error) fail(path_of(one), error.value());
  }
}

}  // namespace chorus::inline checkpoint
