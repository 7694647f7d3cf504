#include "application/text/charsmap.h"

#include <cstring>
#include <stdexcept>

#include "core/base/utf8.h"

namespace chorus::inline text {

namespace {

bool has_leaf(std::uint32_t unit) { return ((unit >> 8) & 1) == 1; }
std::uint32_t value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t offset(std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes) {
  std::uint32_t size = 0;
  if (bytes.size() < 4) throw std::invalid_argument("the normalisation rules are cut off");
  std::memcpy(&size, bytes.data(), 4);
  if (size > bytes.size() - 4 || size % 4 != 0) {
    throw std::invalid_argument("the normalisation rules claim a trie larger than they are");
  }
  units_.resize(size / 4);
  if (size > 0) std::memcpy(units_.data(), bytes.data() + 4, size);
  pool_ = utf8::replace_invalid(bytes.substr(4 + size));
  if (pool_.size() != bytes.size() - 4 - size) throw std::invalid_argument("the normalisation rules are not UTF-8");
}

std::optional<std::string_view> Charsmap::replacement(std::string_view part) const {
  if (units_.empty()) return std::nullopt;
  std::uint32_t node = offset(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= units_.size()) return std::nullopt;
    const std::uint32_t unit = units_[node];
    if (label(unit) != byte) return std::nullopt;
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size()) return std::nullopt;
    const std::uint32_t at = value(units_[node]);
    if (at > pool_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(pool_).substr(at);
    const auto end = rest.find('\0');
    return end == std::string_view::npos ? rest : rest.substr(0, end);
  }
  return std::nullopt;
}

}  // namespace chorus::inline text
