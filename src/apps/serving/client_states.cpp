#include "apps/serving/client_states.h"

#include <fmt/format.h>

#include <charconv>

#include "core/base/error.h"
#include "core/files/safetensors.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;
constexpr const char* kStateSuffix = ".safetensors";

}  // namespace

ClientStates::ClientStates(fs::path folder, std::size_t keep) : folder_(std::move(folder)), keep_(keep) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("{} cannot be created: {}", folder_.string(), error.message()));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string stem = entry.path().stem().string();
    std::int64_t round = 0;
    const auto [end, wrong] = std::from_chars(stem.data(), stem.data() + stem.size(), round);
    if (entry.path().extension() != kStateSuffix || wrong != std::errc() || end != stem.data() + stem.size()) continue;
    rounds_[round] = entry.path();
  }
}

fs::path ClientStates::path_of(std::int64_t round) const { return folder_ / fmt::format("{}{}", round, kStateSuffix); }

void ClientStates::rewind(std::int64_t round) {
  for (auto entry = rounds_.upper_bound(round); entry != rounds_.end(); entry = rounds_.erase(entry)) {
    std::error_code ignored;
    fs::remove(entry->second, ignored);
  }
}

StateShelf ClientStates::shelf() {
  return {[this](ClientId) { return load(); },
          [this](ClientId, std::uint64_t round, ClientState state) { store(static_cast<std::int64_t>(round), state); }};
}

ClientState ClientStates::load() const {
  ClientState state;
  if (rounds_.empty()) return state;
  const auto file = SafetensorsFile::open(rounds_.rbegin()->second);
  for (const TensorEntry& entry : file.entries()) state[entry.name] = file.read(entry);
  return state;
}

void ClientStates::store(std::int64_t round, const ClientState& state) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : state) tensors.push_back({name, tensor.detach().cpu().contiguous()});
  const fs::path path = path_of(round);
  write_safetensors(path, tensors);
  rounds_[round] = path;
  while (rounds_.size() > keep_) {
    std::error_code ignored;
    fs::remove(rounds_.begin()->second, ignored);
    rounds_.erase(rounds_.begin());
  }
}

}  // namespace chorus::inline serving
