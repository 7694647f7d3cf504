#include "algorithm/compression/zstd/zstd_filter.h"

#include <fmt/format.h>
#include <zstd.h>

#include <cstring>

namespace chorus::inline compression_zstd {

void ZstdConfig::describe(ConfigVisitor& visitor) {
  visitor.field("level", level, "1 is fast, 19 is small").at_least(1).at_most(19);
}

Filter::Bytes ZstdFilter::squeeze(std::span<const std::byte> bytes) const {
  const std::uint64_t size = bytes.size();
  Bytes out(sizeof(size) + ZSTD_compressBound(bytes.size()));
  std::memcpy(out.data(), &size, sizeof(size));
  const std::size_t written = ZSTD_compress(out.data() + sizeof(size), out.size() - sizeof(size), bytes.data(),
                                            bytes.size(), static_cast<int>(config_.level));
  check(ZSTD_isError(written) == 0, "zstd cannot compress");
  out.resize(sizeof(size) + written);
  return out;
}

Filter::Bytes ZstdFilter::unsqueeze(std::span<const std::byte> bytes, std::size_t most) const {
  std::uint64_t size = 0;
  if (bytes.size() < sizeof(size)) throw DataError("bytes packed by the filter zstd end too early");
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size > most) {
    throw DataError(
        fmt::format("bytes packed by the filter zstd would become {}, more than the {} that fit", size, most));
  }
  bytes = bytes.subspan(sizeof(size));
  Bytes out(size);
  const std::size_t written = ZSTD_decompress(out.data(), out.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(written) != 0) {
    throw DataError(fmt::format("bytes packed by the filter zstd are damaged: {}", ZSTD_getErrorName(written)));
  }
  if (written != size) throw DataError("bytes packed by the filter zstd are fewer than they should be");
  return out;
}

namespace {

const Registration<Filters, ZstdConfig> kRegisteredZstd{
    "zstd", "entropy coding of what the other filters leave (Zstandard)",
    [](const ZstdConfig& config) { return std::make_unique<ZstdFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression_zstd
