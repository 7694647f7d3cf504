#include "core/ports/message.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace chorus::inline ports {
namespace {

template <typename Map>
const typename Map::mapped_type& field(const Map& map, std::string_view name, const char* kind) {
  const auto found = map.find(name);
  if (found == map.end()) throw DataError(fmt::format("a message has no {} called \"{}\"", kind, name));
  return found->second;
}

}  // namespace

double Message::number(std::string_view name) const { return field(numbers, name, "number"); }

double Message::number(std::string_view name, double fallback) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? fallback : found->second;
}

const std::string& Message::text(std::string_view name) const { return field(texts, name, "text"); }

const at::Tensor& Message::tensor(std::string_view name) const { return field(tensors, name, "tensor"); }

const at::Tensor& Message::vector(std::string_view name, std::int64_t size) const {
  const at::Tensor& found = tensor(name);
  if (found.scalar_type() != at::kFloat || found.dim() != 1 || found.size(0) != size) {
    throw DataError(
        fmt::format("the tensor \"{}\" of a message should be {} float32 numbers, but has {} of {} "
                    "dimensions",
                    name, size, found.numel(), found.dim()));
  }
  return found;
}

std::uint64_t Message::bytes() const {
  std::uint64_t total = 0;
  for (const auto& [name, value] : tensors) total += name.size() + value.nbytes();
  for (const auto& entry : numbers) total += entry.first.size() + sizeof(double);
  for (const auto& [name, value] : texts) total += name.size() + value.size();
  return total;
}

}  // namespace chorus::inline ports
