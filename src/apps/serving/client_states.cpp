#include "apps/serving/client_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>

#include "core/base/error.h"
#include "core/files/safetensors.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kEmptyBytes = 32;  // at most, of a safetensors file without a tensor
// A secure sum asks up to eight times, and counts a client by any of its replies.
constexpr std::size_t kMostAfterCurrent = 12;

std::string state_name(std::uint64_t order, std::uint64_t number, std::uint64_t round) {
  return fmt::format("{}-{:016x}-{}.safetensors", order, number, round);
}

}  // namespace

ClientStates::ClientStates(fs::path folder, std::size_t rounds) : folder_(std::move(folder)), rounds_(rounds) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("{} cannot be created: {}", folder_.string(), error.message()));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t order = 0, number = 0, round = 0;
    if (std::sscanf(name.c_str(), "%" SCNu64 "-%16" SCNx64 "-%" SCNu64, &order, &number, &round) != 3) continue;
    if (name == state_name(order, number, round)) stored_[order] = stored(number, round, entry.path());
  }
}

ClientStates::Stored ClientStates::stored(std::uint64_t number, std::uint64_t round, const fs::path& path) {
  std::error_code unknown;
  const auto bytes = fs::file_size(path, unknown);
  return {number, round, path, !unknown && bytes <= kEmptyBytes};
}

bool ClientStates::begin(std::uint64_t number, std::uint64_t kept) {
  number_ = number;
  current_ = 0;
  if (kept == 0) return true;
  const auto found =
      std::find_if(stored_.begin(), stored_.end(), [&](const auto& entry) { return entry.second.number == kept; });
  if (found == stored_.end()) return false;
  current_ = found->first;
  found->second.passed_over = false;
  return true;
}

StateShelf ClientStates::shelf() {
  return {[this](ClientId) { return load(); },
          [this](ClientId, std::uint64_t round, const ClientState& state) { store(round, state); }};
}

ClientState ClientStates::load() const {
  ClientState state;
  if (current_ == 0) return state;
  const auto file = SafetensorsFile::open(stored_.at(current_).path);
  for (const TensorEntry& entry : file.entries()) state[entry.name] = file.read(entry);
  return state;
}

void ClientStates::store(std::uint64_t round, const ClientState& state) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : state) tensors.push_back({name, tensor.detach().cpu().contiguous()});
  const std::uint64_t order = stored_.empty() ? 1 : stored_.rbegin()->first + 1;
  const fs::path path = folder_ / state_name(order, number_, round);
  write_safetensors(path, tensors);
  stored_[order] = stored(number_, round, path);
  stored_[order].passed_over = true;
  prune();
}

// A server goes back to a state that it once counted, and every one of those, but for the last, a later request has
// built on. So of states before the current one, those that were passed over go, and then those of rounds that no
// checkpoint is old enough for; a round may have several, as a secure sum after an introduction has. Any of the later
// ones may still be counted.
void ClientStates::prune() {
  std::set<std::uint64_t> rounds;
  std::size_t after = 0;
  for (auto entry = stored_.end(); entry != stored_.begin();) {
    --entry;
    const auto& [order, state] = *entry;
    if (state.empty) continue;
    bool goes = false;
    if (order > current_) {
      goes = ++after > kMostAfterCurrent;
    } else {
      goes = state.passed_over || (rounds.size() >= rounds_ && !rounds.contains(state.round));
      if (!goes) rounds.insert(state.round);
    }
    if (!goes) continue;
    std::error_code ignored;
    fs::remove(state.path, ignored);
    entry = stored_.erase(entry);
  }
}

}  // namespace chorus::inline serving
