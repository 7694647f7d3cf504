#include "algorithm/distillation/table5.h"

namespace chorus::inline distillation {

void note_traffic(const RoundInput& input, const Table5& elements, RoundResult& result) {
  constexpr double kBytes = 4;
  const auto clients = static_cast<double>(input.cohort.size());
  result.numbers["table5_bytes"] = kBytes * (clients * (elements.up + elements.counted) + elements.down);
  result.numbers["payload_bytes"] = kBytes * clients * (elements.up + elements.down);
}

}  // namespace chorus::inline distillation
