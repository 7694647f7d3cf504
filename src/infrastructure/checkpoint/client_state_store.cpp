#include "infrastructure/checkpoint/client_state_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/files/safetensors.h"

namespace chorus {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors";

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw WorldError(fmt::format("{}: cannot be written: {}", path.string(), error.message()));
}

void make_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path, error);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) fail(path, error);
}

bool parse_whole(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

ClientState copy_of(const ClientState& state) {
  ClientState copy;
  for (const auto& [name, tensor] : state)
    copy[name] = tensor.detach().to(tensor.options().device(at::kCPU), false, true, at::MemoryFormat::Contiguous);
  return copy;
}

std::size_t bytes_of(const ClientState& state) {
  std::size_t bytes = 256;  // what the map and the tensors' own records take
  for (const auto& [name, tensor] : state) bytes += name.size() + 512 + tensor.nbytes();
  return bytes;
}

ClientState read_state(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  ClientState state;
  for (const TensorEntry& entry : file.entries()) state[entry.name] = file.read(entry);
  return state;
}

}  // namespace

ClientStateStore::ClientStateStore(fs::path folder) : ClientStateStore(std::move(folder), Options()) {}

ClientStateStore::ClientStateStore(fs::path folder, Options options) : folder_(std::move(folder)), options_(options) {
  make_folders(folder_);
  scan();
}

fs::path ClientStateStore::path_of(std::int64_t client, std::int64_t round) const {
  return folder_ / std::to_string(client / 1'000'000) / std::to_string(client / 1000 % 1000) /
         fmt::format("{}@{}{}", client, round, kEnding);
}

void ClientStateStore::scan() {
  std::vector<fs::path> left;
  for (const auto& item : fs::recursive_directory_iterator(folder_)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with(".") && name.ends_with(".tmp")) left.push_back(item.path());
    if (!name.ends_with(kEnding) || name.starts_with(".")) continue;
    const std::string_view stem(name.data(), name.size() - kEnding.size());
    const std::size_t at = stem.find('@');
    std::int64_t client = 0, round = 0;
    if (at == std::string_view::npos || !parse_whole(stem.substr(0, at), client) ||
        !parse_whole(stem.substr(at + 1), round) || path_of(client, round) != item.path())
      continue;
    Entry& entry = entries_[client];
    entry.files.push_back(round);
    if (entry.files.size() == 2) with_old_.push_back(client);
  }
  for (auto& [client, entry] : entries_) std::sort(entry.files.begin(), entry.files.end());
  for (const fs::path& path : left) remove_file(path);
}

ClientState ClientStateStore::load(std::int64_t client) {
  std::int64_t round = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(client);
    if (found == entries_.end()) return {};
    Entry& entry = found->second;
    if (entry.held) {
      recent_.splice(recent_.end(), recent_, entry.recent);
      return copy_of(*entry.held);
    }
    if (entry.files.empty()) return {};
    round = entry.files.back();
  }
  // Without the lock: the newest file of a client is never removed or replaced while one thread has the client.
  ClientState state = read_state(path_of(client, round));
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[client];
  if (!entry.held) hold(client, entry, round, copy_of(state));
  shrink();
  return state;
}

void ClientStateStore::store(std::int64_t client, std::int64_t round, const ClientState& state) {
  check(client >= 0 && round >= 0, "a client or round is negative");
  ClientState copy = copy_of(state);
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[client];
  check(round > committed_ && (!entry.held || entry.held_round <= round) &&
            (entry.files.empty() || entry.files.back() <= round),
        "a client's state is stored for a round that is over");
  release(entry);
  hold(client, entry, round, std::move(copy));
  entry.dirty = true;
  shrink();
}

void ClientStateStore::commit(std::int64_t round) {
  const std::lock_guard lock(mutex_);
  for (const std::int64_t client : recent_) {
    Entry& entry = entries_.at(client);
    if (!entry.dirty) continue;
    check(entry.held_round <= round, "a client's state is newer than the checkpoint it is written for");
    write(client, entry);
  }
  if (std::exchange(unsynced_, false)) sync();
  committed_ = std::max(committed_, round);
}

void ClientStateStore::sync() const {
  const int descriptor = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder_, std::error_code(errno, std::generic_category()));
  const int error = ::syncfs(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0) fail(folder_, std::error_code(error, std::generic_category()));
}

void ClientStateStore::prune(std::int64_t oldest_checkpoint) {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> again;
  for (const std::int64_t client : with_old_) {
    std::vector<std::int64_t>& files = entries_.at(client).files;
    while (files.size() > 1 && files[1] <= oldest_checkpoint) {
      remove_file(path_of(client, files.front()));
      files.erase(files.begin());
    }
    if (files.size() > 1) again.push_back(client);
  }
  with_old_ = std::move(again);
}

void ClientStateStore::rollback(std::int64_t round) {
  const std::lock_guard lock(mutex_);
  committed_ = round;
  with_old_.clear();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    auto& [client, state] = *entry;
    if (state.held && (state.held_round > round || state.dirty)) release(state);
    while (!state.files.empty() && state.files.back() > round) {
      remove_file(path_of(client, state.files.back()));
      state.files.pop_back();
    }
    if (state.files.size() > 1) with_old_.push_back(client);
    if (state.files.empty()) {
      release(state);
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
}

void ClientStateStore::hold(std::int64_t client, Entry& entry, std::int64_t round, ClientState state) {
  entry.held_bytes = bytes_of(state);
  entry.held = std::move(state);
  entry.held_round = round;
  entry.dirty = false;
  entry.recent = recent_.insert(recent_.end(), client);
  bytes_ += entry.held_bytes;
}

void ClientStateStore::release(Entry& entry) {
  if (!entry.held) return;
  recent_.erase(entry.recent);
  bytes_ -= entry.held_bytes;
  entry.held.reset();
  entry.dirty = false;
}

void ClientStateStore::write(std::int64_t client, Entry& entry) {
  const fs::path path = path_of(client, entry.held_round);
  make_folders(path.parent_path());
  const std::vector<NamedTensor> tensors(entry.held->begin(), entry.held->end());
  write_safetensors(path, tensors, {}, Durability::kUnsynced);
  unsynced_ = true;
  if (entry.files.empty() || entry.files.back() != entry.held_round) entry.files.push_back(entry.held_round);
  if (entry.files.size() == 2) with_old_.push_back(client);
  entry.dirty = false;
}

void ClientStateStore::shrink() {
  while (bytes_ > options_.memory_bytes && !recent_.empty()) {
    const std::int64_t client = recent_.front();
    Entry& entry = entries_.at(client);
    if (entry.dirty) write(client, entry);
    release(entry);
  }
}

std::size_t ClientStateStore::clients() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t ClientStateStore::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void save_federation(CheckpointStore& checkpoints, ClientStateStore& clients, const Checkpoint& checkpoint) {
  clients.commit(checkpoint.round);
  checkpoints.save(checkpoint);
  clients.prune(checkpoints.rounds().front());
}

std::optional<Checkpoint> load_federation(CheckpointStore& checkpoints, ClientStateStore& clients) {
  std::optional<Checkpoint> checkpoint = checkpoints.latest();
  const std::int64_t round = checkpoint ? checkpoint->round : 0;
  if (checkpoint) checkpoints.discard_after(round);
  clients.rollback(round);
  // Whoever was killed after a checkpoint had not come to this; many kills in a row would pile old states up.
  if (checkpoint) clients.prune(checkpoints.rounds().front());
  return checkpoint;
}

}  // namespace chorus
