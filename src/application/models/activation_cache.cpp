#include "application/models/activation_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/config/config_visitor.h"
#include "core/console/log.h"

namespace chorus::inline models {
namespace {

constexpr std::size_t kLevels = 2;
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// `types` may be null.
Fingerprint key_of(const std::int64_t* ids, const std::int64_t* types, std::int64_t length) {
  const auto bytes = [&](const std::int64_t* numbers) {
    return std::string_view(reinterpret_cast<const char*>(numbers),
                            static_cast<std::size_t>(length) * sizeof(std::int64_t));
  };
  const Fingerprint key = fingerprint(bytes(ids));
  return types != nullptr ? fingerprint(bytes(types), key) : key;
}

}  // namespace

void ActivationCache::Config::describe(ConfigVisitor& visitor) {
  visitor.field("mode", mode, {{"off", Mode::kOff}, {"keep", Mode::kKeep}, {"recompute", Mode::kRecompute}},
                "keep what frozen bottom layers compute for reuse; recompute: the same numbers without keeping any");
  visitor.field("memory", memory, "MiB to keep it in").at_least(0);
  visitor.field("disk", disk, "MiB in the run folder when memory is full").at_least(0);
  visitor.field("store", store, {{"float32", Store::kFloat32}, {"float16", Store::kFloat16}},
                "how it is kept; float16 rounds");
}

int frozen_layers(const Model& model) {
  int lowest = std::numeric_limits<int>::max();
  for (const ParamSpec& spec : model.layout().specs()) {
    if (spec.trainable) lowest = std::min(lowest, spec.layer);
  }
  return std::clamp(lowest, 0, model.cuts());
}

ActivationCache::ActivationCache(const Config& config, std::filesystem::path folder)
    : config_(config), folder_(std::move(folder)) {}

ActivationCache::~ActivationCache() = default;

void ActivationCache::fill(const Model& model, const Params& params, Batch& batch) {
  const int layers = on() ? frozen_layers(model) : 0;
  if (layers == 0 || batch.packing->visible().defined()) return;
  const at::NoGradGuard no_grad;
  const Packing& packing = *batch.packing;
  // The packer's host copy; reading ids back from a GPU would wait for it.
  const at::Tensor ids = (batch.host_ids.defined() ? batch.host_ids : batch.ids.cpu()).contiguous();
  const at::Tensor types = !batch.types.defined()       ? at::Tensor()
                           : batch.host_types.defined() ? batch.host_types.contiguous()
                                                        : batch.types.cpu().contiguous();
  const auto* id = ids.data_ptr<std::int64_t>();
  const auto* type = types.defined() ? types.data_ptr<std::int64_t>() : nullptr;
  std::optional<Params> one;
  std::vector<at::Tensor> pieces;  // [L, H] per sequence, and the tail of each client
  at::Tensor tail;
  for (std::int64_t c = 0; c < packing.clients(); ++c) {
    std::int64_t begin = 0;
    for (const std::int64_t length : packing.lengths()[static_cast<std::size_t>(c)]) {
      const std::int64_t first = c * packing.tokens() + begin;
      const Fingerprint key = key_of(id + first, type != nullptr ? type + first : nullptr, length);
      at::Tensor value = find(layers, key, params.device());
      if (!value.defined()) {
        if (!one) one.emplace(params.client(0));
        Batch alone;
        alone.packing = std::make_shared<Packing>(std::vector<std::vector<std::int64_t>>{{length}}, params.device());
        alone.ids = batch.ids[c].narrow(0, begin, length).unsqueeze(0);
        if (types.defined()) alone.types = batch.types[c].narrow(0, begin, length).unsqueeze(0);
        Dropout off;
        value = model.bottom(*one, alone, layers, off)[0];
        if (config_.store == Store::kFloat16) value = value.to(at::kHalf);
        keep(layers, key, value);
      }
      pieces.push_back(value);
      begin += length;
    }
    if (begin < packing.tokens()) {
      if (!tail.defined() || tail.size(0) < packing.tokens() - begin) {
        tail = torch::zeros({packing.tokens() - begin, pieces[0].size(1)}, pieces[0].options());
      }
      pieces.push_back(tail.narrow(0, 0, packing.tokens() - begin));
    }
  }
  batch.bottom = torch::cat(pieces).view({packing.clients(), packing.tokens(), -1});
  if (batch.bottom.scalar_type() == at::kHalf) batch.bottom = batch.bottom.to(at::kFloat);
  batch.bottom_layers = layers;
}

// The mutex is held.
ActivationCache::Level& ActivationCache::level(int layers) {
  const auto [found, fresh] = levels_.try_emplace(layers);
  found->second.used = ++clock_;
  if (fresh && levels_.size() > kLevels) {
    const auto oldest = std::min_element(levels_.begin(), levels_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    stats_.memory_bytes -= oldest->second.memory;
    if (oldest->second.spill) stats_.disk_bytes -= oldest->second.spill->size();
    levels_.erase(oldest);
  }
  return levels_.at(layers);
}

at::Tensor ActivationCache::find(int layers, const Fingerprint& key, at::Device device) {
  const std::lock_guard lock(mutex_);
  Level& here = level(layers);
  const auto found = here.entries.find(key);
  if (found == here.entries.end()) {
    ++stats_.misses;
    return {};
  }
  if (found->second.kept.defined()) {
    ++stats_.hits;
    return found->second.kept;
  }
  const Entry& entry = found->second;
  const at::ScalarType type = config_.store == Store::kFloat16 ? at::kHalf : at::kFloat;
  const auto numbers = static_cast<std::int64_t>(entry.place.size / c10::elementSize(type));
  const at::Tensor value = torch::empty({entry.tokens, numbers / entry.tokens}, type);
  if (here.spill->read(entry.place, {static_cast<std::byte*>(value.data_ptr()), entry.place.size})) {
    ++stats_.hits;
    return value.to(device);
  }
  ++stats_.damaged;
  ++stats_.misses;
  if (!here.warned) Log("cache").warning("{}: what was kept there is damaged and is computed again", folder_.string());
  here.warned = true;
  here.entries.erase(found);
  return {};
}

void ActivationCache::keep(int layers, const Fingerprint& key, const at::Tensor& value) {
  if (config_.mode != Mode::kKeep) return;
  const std::lock_guard lock(mutex_);
  Level& here = level(layers);
  if (here.entries.contains(key)) return;
  auto bytes = static_cast<std::uint64_t>(value.numel()) * static_cast<std::uint64_t>(value.element_size());
  Entry entry;
  entry.tokens = value.size(0);
  if (stats_.memory_bytes + bytes <= static_cast<std::uint64_t>(config_.memory) * kMiB) {
    entry.kept = value.contiguous();
    here.memory += bytes;
    stats_.memory_bytes += bytes;
    here.entries.emplace(key, std::move(entry));
    return;
  }
  // A file holds float32 or float16; bfloat16 is stored as float32.
  const at::Tensor flat = (value.scalar_type() == at::kBFloat16 ? value.to(at::kFloat) : value).cpu().contiguous();
  bytes = static_cast<std::uint64_t>(flat.numel()) * static_cast<std::uint64_t>(flat.element_size());
  if (folder_.empty() || stats_.disk_bytes + bytes > static_cast<std::uint64_t>(config_.disk) * kMiB) return;
  if (!here.spill) here.spill = std::make_unique<SpillFile>(folder_ / fmt::format("layer_{}.bin", layers));
  const auto place = here.spill->append({static_cast<const std::byte*>(flat.data_ptr()), bytes});
  if (!place) {
    if (!here.warned) Log("cache").warning("{}; what does not fit is computed again each time", here.spill->trouble());
    here.warned = true;
    return;
  }
  entry.place = *place;
  stats_.disk_bytes += bytes;
  here.entries.emplace(key, std::move(entry));
}

ActivationCache::Stats ActivationCache::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace chorus::inline models
