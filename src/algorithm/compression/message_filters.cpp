#include "algorithm/compression/message_filters.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "algorithm/compression/owning_tensor.h"

namespace chorus::inline compression {
namespace {

constexpr std::string_view kPacked = ".packed";

void forget_other_variants(ClientState& memory, std::string_view procedure, const Variant& variant) {
  const std::string mine = memory_place(procedure, variant), whole = memory_place(procedure, {});
  const std::string others = whole.substr(0, whole.size() - 1) + "@";
  std::erase_if(memory, [&](const auto& entry) {
    return !entry.first.starts_with(mine) && (entry.first.starts_with(whole) || entry.first.starts_with(others));
  });
}

}  // namespace

std::string memory_place(std::string_view procedure, const Variant& variant) {
  return variant == Variant{} ? fmt::format("filters/{}/", procedure)
                              : fmt::format("filters/{}@{}x{}/", procedure, variant.depth, variant.width);
}

// What the tensor is a difference from; undefined: from nothing.
at::Tensor MessageFilters::reference_of(const Message& message, const std::string& name) const {
  if (name != "model" || !input_.reference.defined()) return {};
  const Variant variant = read_variant(message);
  if (variant == Variant{} || input_.variants == nullptr) return input_.reference;
  return input_.variants->take(variant, input_.reference);
}

StreamKey MessageFilters::key_of(const GateMoment& moment, const std::string& name) const {
  return {input_.seed, input_.purpose, moment.round, moment.client,
          mix(mix(hash_name(moment.procedure), hash_name(name)), moment.ask)};
}

GateTotals MessageFilters::pack(Message& message, const GateMoment& moment) const {
  GateTotals totals;
  if (chain_.empty()) return totals;
  std::vector<std::string> names;
  for (auto& [name, tensor] : message.tensors) {
    const FilterChain& chain = chain_of(name);
    if (tensor.scalar_type() != at::kFloat || chain.empty()) continue;
    if (tensor.numel() >= least_filtered(name)) {
      names.push_back(name);
    } else if (chain.transforms() && tensor.numel() > 0) {
      const at::Tensor here = tensor.detach().cpu().contiguous();
      FilterContext context;
      context.key = key_of(moment, name);
      const std::vector<std::int64_t> shape = here.sizes().vec();
      const std::span values(here.data_ptr<float>(), static_cast<std::size_t>(here.numel()));
      tensor = tensor_of(chain.transform(values, context), shape, at::kFloat).to(tensor.device());
    }
  }
  ClientState* memory = nullptr;
  if (!names.empty() && chain_.remembers() && moment.memory) {
    memory = &moment.memory();
    if (input_.one_variant) forget_other_variants(*memory, moment.procedure, moment.variant);
  }
  for (const std::string& name : names) {
    const FilterChain& chain = chain_of(name);
    at::Tensor tensor = message.tensors.at(name).detach();
    const at::Tensor reference = chain.lossless() ? at::Tensor{} : reference_of(message, name);
    const bool relative = reference.defined() && reference.numel() == tensor.numel();
    if (relative) tensor = tensor - reference.to(tensor.device()).view(tensor.sizes());
    tensor = tensor.cpu().contiguous();
    FilterChain::Input input{tensor.sizes().vec(), relative, {}};
    const std::vector<FilterBlock> blocks = input_.blocks ? input_.blocks(tensor.numel()) : std::vector<FilterBlock>{};
    input.context.blocks = blocks;
    input.context.key = key_of(moment, name);
    input.context.memory = memory;
    input.context.place = memory_place(moment.procedure, moment.variant) + name + "/";
    const std::span values(tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel()));
    Packed packed;
    try {
      packed = chain.encode(values, input);
    } catch (const DataError& error) {
      throw DataError(fmt::format("the tensor \"{}\" cannot be packed: {}", name, error.what()));
    }
    totals.raw += static_cast<double>(values.size_bytes());
    totals.packed += static_cast<double>(packed.bytes.size());
    totals.norm2 += packed.norm2;
    totals.error2 += packed.error2;
    const auto size = static_cast<std::int64_t>(packed.bytes.size());
    message.tensors.erase(name);
    message.tensors[name + std::string(kPacked)] = tensor_of(std::move(packed.bytes), {size}, at::kByte);
  }
  return totals;
}

GateTotals MessageFilters::unpack(Message& message, const GateMoment& moment, const Arrival& arrival) const {
  GateTotals totals;
  std::vector<std::string> names;
  for (const auto& entry : message.tensors) {
    if (entry.first.ends_with(kPacked)) names.push_back(entry.first);
  }
  for (const std::string& packed_name : names) {
    const std::string name = packed_name.substr(0, packed_name.size() - kPacked.size());
    const at::Tensor packed = message.tensors.at(packed_name).cpu().contiguous();
    try {
      if (packed.scalar_type() != at::kByte || packed.dim() != 1) throw DataError("these are no bytes");
      if (message.has_tensor(name)) throw DataError("it is there twice");
      const std::span bytes(static_cast<const std::byte*>(packed.data_ptr()), static_cast<std::size_t>(packed.numel()));
      FilterContext context;
      context.key = key_of(moment, name);
      Unpacked unpacked = chain_of(name).decode(bytes, arrival.most, context);
      const std::vector<std::int64_t> shape = unpacked.shape;
      totals.raw += static_cast<double>(unpacked.values.size() * sizeof(float));
      totals.packed += static_cast<double>(bytes.size());
      totals.norm2 += unpacked.norm2;
      totals.error2 += unpacked.error2;
      at::Tensor tensor = tensor_of(std::move(unpacked.values), shape, at::kFloat);
      if (unpacked.relative) {
        const at::Tensor reference = reference_of(message, name);
        if (!reference.defined() || reference.numel() != tensor.numel()) {
          throw DataError("it is a difference from numbers this side does not have");
        }
        tensor.add_(reference.cpu().view(tensor.sizes()));
      }
      message.tensors.erase(packed_name);
      message.tensors[name] = tensor.to(arrival.device);
    } catch (const DataError& error) {
      throw DataError(fmt::format("the tensor \"{}\" cannot be unpacked: {}", name, error.what()));
    }
  }
  return totals;
}

}  // namespace chorus::inline compression
