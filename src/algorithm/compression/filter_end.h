#pragma once

#include <functional>
#include <vector>

#include "algorithm/compression/compression_config.h"
#include "algorithm/compression/message_filters.h"
#include "core/ports/gate.h"

namespace chorus::inline compression {

/// What both ends of a filtered channel know.
struct FilterEndInput {
  CompressionConfig config = {};
  std::uint64_t seed = 0;
  std::function<std::vector<FilterBlock>(std::int64_t elements)> blocks = {};  ///< see MessageFiltersInput
  const Variants* variants = nullptr;                                          ///< see MessageFiltersInput
  at::Tensor reference = {};                         ///< see MessageFiltersInput; kept on the CPU
  at::Device device = at::kCPU;                      ///< where restored tensors go
  std::size_t most_elements = std::size_t{1} << 24;  ///< largest tensor accepted
};

/// The gate of either side: a server sends through the `down` filters and receives through `up`, a client the other way
/// round.
///
///     const FilterEnd server(input, FilterEnd::Side::kServer), client(input, FilterEnd::Side::kClient);
///     client.send(reply, moment);       // packs; the client's state remembers what was lost
///     server.receive(reply, moment);    // unpacks
class FilterEnd : public Gate {
 public:
  enum class Side { kServer, kClient };
  FilterEnd(const FilterEndInput& input, Side side);

  GateTotals send(Message& message, const GateMoment& moment) const override { return out_.pack(message, moment); }
  GateTotals receive(Message& message, const GateMoment& moment) const override {
    return in_.unpack(message, moment, {most_, device_});
  }
  const FilterChain& sends() const { return out_.chain(); }
  const FilterChain& receives() const { return in_.chain(); }

 private:
  MessageFilters out_, in_;
  at::Device device_;
  std::size_t most_;
};

}  // namespace chorus::inline compression
