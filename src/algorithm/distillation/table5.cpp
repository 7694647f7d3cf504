#include "algorithm/distillation/table5.h"

namespace chorus::inline distillation {

void note_traffic(const RoundInput& input, const Table5& elements, RoundResult& result) {
  constexpr double kBytes = 4;
  const auto clients = static_cast<double>(input.cohort.size());
  result.numbers["table5_bytes"] = kBytes * (clients * elements.up + elements.down);
  result.numbers["payload_bytes"] = kBytes * (elements.sent + elements.received);
}

double used_clients(const RoundInput& input, const RoundResult& result) {
  return static_cast<double>(input.cohort.size()) - static_cast<double>(result.failed.size());
}

}  // namespace chorus::inline distillation
