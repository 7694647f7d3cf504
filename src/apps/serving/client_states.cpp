#include "apps/serving/client_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "core/base/error.h"
#include "core/files/safetensors.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kEmptyBytes = 32;  // at most, of a safetensors file without a tensor

std::string state_name(std::uint64_t order, std::uint64_t number) {
  return fmt::format("{}-{:016x}.safetensors", order, number);
}

}  // namespace

ClientStates::ClientStates(fs::path folder, std::size_t keep) : folder_(std::move(folder)), keep_(keep) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw DataError(fmt::format("{} cannot be created: {}", folder_.string(), error.message()));
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename().string();
    std::uint64_t order = 0, number = 0;
    if (std::sscanf(name.c_str(), "%" SCNu64 "-%16" SCNx64, &order, &number) != 2) continue;
    if (name == state_name(order, number)) stored_[order] = stored(number, entry.path());
  }
}

ClientStates::Stored ClientStates::stored(std::uint64_t number, const fs::path& path) {
  std::error_code unknown;
  const auto bytes = fs::file_size(path, unknown);
  return {number, path, !unknown && bytes <= kEmptyBytes};
}

bool ClientStates::begin(std::uint64_t number, std::uint64_t kept) {
  number_ = number;
  current_ = 0;
  if (kept == 0) return true;
  const auto found =
      std::find_if(stored_.begin(), stored_.end(), [&](const auto& entry) { return entry.second.number == kept; });
  if (found == stored_.end()) return false;
  current_ = found->first;
  return true;
}

StateShelf ClientStates::shelf() {
  return {[this](ClientId) { return load(); },
          [this](ClientId, std::uint64_t, const ClientState& state) { store(state); }};
}

ClientState ClientStates::load() const {
  ClientState state;
  if (current_ == 0) return state;
  const auto file = SafetensorsFile::open(stored_.at(current_).path);
  for (const TensorEntry& entry : file.entries()) state[entry.name] = file.read(entry);
  return state;
}

void ClientStates::store(const ClientState& state) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, tensor] : state) tensors.push_back({name, tensor.detach().cpu().contiguous()});
  const std::uint64_t order = stored_.empty() ? 1 : stored_.rbegin()->first + 1;
  const fs::path path = folder_ / state_name(order, number_);
  write_safetensors(path, tensors);
  stored_[order] = stored(number_, path);
  prune();
}

// Of states up to the current one those that a restarted server may go back to; of later ones the newest, which may
// still be accepted.
void ClientStates::prune() {
  const auto after = stored_.upper_bound(current_);
  const auto drop = [&](auto begin, auto end) {
    auto surplus = std::count_if(begin, end, [](const auto& entry) { return !entry.second.empty; }) -
                   static_cast<std::ptrdiff_t>(keep_);
    while (surplus > 0) {
      if (begin->second.empty) {
        ++begin;
        continue;
      }
      std::error_code ignored;
      fs::remove(begin->second.path, ignored);
      begin = stored_.erase(begin);
      --surplus;
    }
  };
  drop(after, stored_.end());
  drop(stored_.begin(), stored_.upper_bound(current_));
}

}  // namespace chorus::inline serving
