#include "infrastructure/checkpoint/client_state_store.h"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"

namespace chorus::inline checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors";
constexpr const char* kManifest = "clients";  // the tensor's name in a checkpoint
constexpr std::int64_t kColumns = 5;

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
  for (const auto& [name, tensor] : state) {
    copy[name] = tensor.detach().to(tensor.options(), false, true, at::MemoryFormat::Contiguous);
  }
  return copy;
}

HeldBytes bytes_of(const ClientState& state) {
  HeldBytes bytes{.host = 256};  // what the map and the tensors' own records take
  for (const auto& [name, tensor] : state) {
    bytes.host += name.size() + 512;
    (tensor.is_cuda() ? bytes.gpu : bytes.host) += tensor.nbytes();
  }
  return bytes;
}

std::size_t threads_for(std::size_t files) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(files / 64, 1, std::min<std::size_t>(cores, 8));
}

// Size first: it needs no reading and is more informative than a checksum.
void verify_file(const fs::path& path, const ClientStateFile& expected) {
  const auto damaged = [&](const std::string& what) {
    return DataError(fmt::format("{}: the state of client {} after round {} {}", path.string(), expected.client,
                                 expected.round, what));
  };
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) throw damaged("is missing");
  if (error) throw damaged("cannot be read: " + error.message());
  if (size != static_cast<std::uintmax_t>(expected.bytes))
    throw damaged(fmt::format("is damaged: it has {} bytes instead of {}", size, expected.bytes));
  if (fingerprint(MappedFile(path).text()) != expected.checksum) throw damaged("is damaged: its checksum differs");
}

ClientState read_state(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  ClientState state;
  for (const TensorEntry& entry : file.entries()) state[entry.name] = file.read(entry);
  return state;
}

}  // namespace

at::Tensor to_tensor(const ClientStateManifest& manifest) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(manifest.size()), kColumns}, at::kLong);
  auto* row = tensor.data_ptr<std::int64_t>();
  for (const ClientStateFile& file : manifest) {
    for (const std::int64_t value : {file.client, file.round, file.bytes, static_cast<std::int64_t>(file.checksum.high),
                                     static_cast<std::int64_t>(file.checksum.low)})
      *row++ = value;
  }
  return tensor;
}

ClientStateManifest to_manifest(const at::Tensor& tensor) {
  const auto wrong = [] { return DataError("the checkpoint's list of the clients' states is damaged"); };
  if (tensor.scalar_type() != at::kLong || tensor.dim() != 2 || tensor.size(1) != kColumns) throw wrong();
  const at::Tensor rows = tensor.cpu().contiguous();
  const auto* row = rows.data_ptr<std::int64_t>();
  ClientStateManifest manifest;
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += kColumns) {
    const std::int64_t before = manifest.empty() ? -1 : manifest.back().client;
    if (row[0] <= before || row[1] < 0 || row[2] < 0) throw wrong();
    manifest.push_back(
        {row[0], row[1], row[2], {static_cast<std::uint64_t>(row[3]), static_cast<std::uint64_t>(row[4])}});
  }
  return manifest;
}

ClientStateStore::ClientStateStore(fs::path folder) : ClientStateStore(std::move(folder), Options()) {}

ClientStateStore::ClientStateStore(fs::path folder, Options options) : folder_(std::move(folder)), options_(options) {
  make_folders(folder_);
}

fs::path ClientStateStore::path_of(std::int64_t client, std::int64_t round) const {
  return folder_ / std::to_string(client / 1'000'000) / std::to_string(client / 1000 % 1000) /
         fmt::format("{}@{}{}", client, round, kEnding);
}

// Client and round of each file; removes partial files of a killed process.
ClientStateManifest ClientStateStore::files_on_disk() const {
  ClientStateManifest files;
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
    files.push_back({.client = client, .round = round});
  }
  for (const fs::path& path : left) remove_file(path);
  return files;
}

ClientState ClientStateStore::load(std::int64_t client) {
  ClientStateFile file;
  {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(client);
    if (found == entries_.end()) return {};
    Entry& entry = found->second;
    if (entry.held) {
      recent_.splice(recent_.end(), recent_, entry.recent);
      return copy_of(*entry.held);
    }
    if (!entry.newest) return {};
    file = *entry.newest;
  }
  // Without the lock: the newest file of a client is never removed or replaced while one thread has the client.
  const fs::path path = path_of(client, file.round);
  try {
    verify_file(path, file);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}; `chorus resume` continues from the newest undamaged checkpoint", error.what()));
  }
  ClientState state = read_state(path);
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[client];
  if (!entry.held) hold(client, entry, file.round, copy_of(state));
  shrink();
  return state;
}

void ClientStateStore::store(std::int64_t client, std::int64_t round, const ClientState& state) {
  check(client >= 0 && round >= 0, "a client or round is negative");
  ClientState copy = copy_of(state);
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[client];
  check(
      round > frozen_ && (!entry.held || entry.held_round <= round) && (!entry.newest || entry.newest->round <= round),
      "a client's state is stored for a round that is over");
  if (frozen(entry)) replaced_ += entry.bytes;
  release(entry);
  hold(client, entry, round, std::move(copy));
  entry.dirty = true;
  shrink();
}

ClientStateSnapshot ClientStateStore::freeze(std::int64_t round) {
  const std::lock_guard lock(mutex_);
  ClientStateSnapshot snapshot{.round = round};
  for (const auto& [client, entry] : entries_) {
    if (!entry.dirty) {
      snapshot.written.push_back(entry.newest.value());
      continue;
    }
    check(entry.held_round <= round, "a client's state is newer than the checkpoint it is written for");
    snapshot.unwritten.push_back({client, entry.held_round, *entry.held});
  }
  frozen_ = std::max(frozen_, round);
  return snapshot;
}

ClientStateManifest ClientStateStore::commit(const ClientStateSnapshot& snapshot) {
  ClientStateManifest manifest = snapshot.written;
  for (const auto& [client, round, state] : snapshot.unwritten) {
    const ClientStateFile file = write(client, round, state);  // without the lock: clients train meanwhile
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_.at(client);
    add_file(entry, file);
    if (entry.held_round == round) entry.dirty = false;
    manifest.push_back(file);
  }
  bool unsynced = false;
  {
    const std::lock_guard lock(mutex_);
    unsynced = std::exchange(unsynced_, false);
    replaced_ = {};
  }
  if (unsynced) sync();
  std::sort(manifest.begin(), manifest.end(), [](const auto& a, const auto& b) { return a.client < b.client; });
  return manifest;
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
    Entry& entry = entries_.at(client);
    std::vector<std::int64_t>& older = entry.older;
    const auto after = [&](std::size_t i) { return i + 1 < older.size() ? older[i + 1] : entry.newest->round; };
    std::size_t gone = 0;
    for (; gone < older.size() && after(gone) <= oldest_checkpoint; ++gone) remove_file(path_of(client, older[gone]));
    older.erase(older.begin(), older.begin() + static_cast<std::ptrdiff_t>(gone));
    if (!older.empty()) again.push_back(client);
  }
  with_old_ = std::move(again);
}

void ClientStateStore::verify(const ClientStateManifest& manifest) const {
  const std::size_t count = threads_for(manifest.size());
  std::vector<std::exception_ptr> errors(count);
  const auto check_every = [&](std::size_t begin) {
    try {
      for (std::size_t i = begin; i < manifest.size(); i += count) {
        verify_file(path_of(manifest[i].client, manifest[i].round), manifest[i]);
      }
    } catch (...) {
      errors[begin] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(check_every, i);
  check_every(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void ClientStateStore::restore(std::int64_t round, const ClientStateManifest& manifest) {
  const std::lock_guard lock(mutex_);
  frozen_ = round;
  entries_.clear();
  recent_.clear();
  with_old_.clear();
  held_ = replaced_ = {};
  for (const ClientStateFile& file : manifest) entries_[file.client].newest = file;
  for (const ClientStateFile& file : files_on_disk()) {
    const auto found = entries_.find(file.client);
    const std::int64_t needed = found == entries_.end() ? -1 : found->second.newest->round;
    if (file.round > needed) remove_file(path_of(file.client, file.round));
    if (file.round < needed) found->second.older.push_back(file.round);
  }
  for (auto& [client, entry] : entries_) {
    std::sort(entry.older.begin(), entry.older.end());
    if (!entry.older.empty()) with_old_.push_back(client);
  }
}

void ClientStateStore::hold(std::int64_t client, Entry& entry, std::int64_t round, ClientState state) {
  entry.bytes = bytes_of(state);
  entry.held = std::move(state);
  entry.held_round = round;
  entry.dirty = false;
  entry.recent = recent_.insert(recent_.end(), client);
  held_ += entry.bytes;
}

void ClientStateStore::release(Entry& entry) {
  if (!entry.held) return;
  recent_.erase(entry.recent);
  held_ -= entry.bytes;
  entry.held.reset();
  entry.dirty = false;
}

ClientStateFile ClientStateStore::write(std::int64_t client, std::int64_t round, const ClientState& state) const {
  const fs::path path = path_of(client, round);
  make_folders(path.parent_path());
  const std::vector<NamedTensor> tensors(state.begin(), state.end());
  write_safetensors(path, tensors, {}, Durability::kUnsynced);
  const MappedFile written(path);
  return {client, round, static_cast<std::int64_t>(written.size()), fingerprint(written.text())};
}

void ClientStateStore::add_file(Entry& entry, const ClientStateFile& file) {
  unsynced_ = true;
  if (!entry.newest || entry.newest->round == file.round) {
    entry.newest = file;
    return;
  }
  // A later state may have been spilled while this one was on its way.
  std::int64_t old = file.round;
  if (entry.newest->round < file.round) old = std::exchange(*entry.newest, file).round;
  entry.older.insert(std::upper_bound(entry.older.begin(), entry.older.end(), old), old);
  if (entry.older.size() == 1) with_old_.push_back(file.client);
}

// A frozen state is not evicted: the snapshot holds its memory and writes it anyway.
void ClientStateStore::shrink() {
  const auto full = [&] {
    return held_.host + replaced_.host > options_.memory_bytes || held_.gpu + replaced_.gpu > options_.gpu_bytes;
  };
  for (auto next = recent_.begin(); next != recent_.end() && full();) {
    const std::int64_t client = *next++;
    Entry& entry = entries_.at(client);
    if (frozen(entry)) continue;
    if (entry.dirty) add_file(entry, write(client, entry.held_round, *entry.held));
    release(entry);
  }
}

std::size_t ClientStateStore::clients() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::size_t ClientStateStore::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_.host + replaced_.host;
}

void save_federation(CheckpointStore& checkpoints, ClientStateStore& clients, Checkpoint checkpoint,
                     const ClientStateSnapshot& snapshot) {
  check(checkpoint.round == snapshot.round, "a checkpoint and its clients' states are of different rounds");
  const bool added = checkpoint.tensors.emplace(kManifest, to_tensor(clients.commit(snapshot))).second;
  check(added, "a checkpoint has a tensor with the manifest's name");
  checkpoints.save(checkpoint);
  clients.prune(checkpoints.rounds().front());
}

std::optional<Checkpoint> load_federation(CheckpointStore& checkpoints, ClientStateStore& clients) {
  ClientStateManifest manifest;
  std::optional<Checkpoint> checkpoint = checkpoints.latest([&](const Checkpoint& found) {
    const auto tensor = found.tensors.find(kManifest);
    if (tensor == found.tensors.end()) throw DataError("the checkpoint has no list of the clients' states");
    manifest = to_manifest(tensor->second);
    clients.verify(manifest);
  });
  if (!checkpoint) {
    clients.restore(0, {});
    return std::nullopt;
  }
  checkpoint->tensors.erase(kManifest);
  checkpoints.discard_after(checkpoint->round);
  clients.restore(checkpoint->round, manifest);
  // A process that was killed after its checkpoint did not prune; without this, repeated kills accumulate old states.
  clients.prune(checkpoints.rounds().front());
  return checkpoint;
}

}  // namespace chorus::inline checkpoint
