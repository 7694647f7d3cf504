#include "algorithm/secure_mean/sum_cost.h"

#include <fmt/format.h>

#include <algorithm>

#include "algorithm/secure/coded_mask.h"
#include "algorithm/secure/light_client.h"
#include "algorithm/secure/messages.h"

namespace chorus::inline secure_mean {
namespace {

constexpr double kHead = kHeadBytes;
constexpr double kTail = kTailBytes;
constexpr double kKeys = 4 + 32 + 32 + 32 + 64;  // one client's
constexpr double kIdentity = 32 + 32;            // without a credential

}  // namespace

SumCost& SumCost::operator+=(const SumCost& other) {
  bytes_up += other.bytes_up;
  bytes_down += other.bytes_down;
  mask_elements += other.mask_elements;
  return *this;
}

SumCost cost_of(const SumPlan& plan, const SumParameters& parameters) {
  const auto n = static_cast<double>(plan.scale.clients);
  const double word = parameters.ring_bits / 8;
  const auto length = static_cast<double>(parameters.length);
  SumCost cost;
  double shares = 0;  // the same up and, but for the end, down
  if (plan.protocol == SumProtocol::kLightSecAgg) {
    const MaskCode code = code_of(parameters);
    const auto piece = static_cast<double>(code.piece());
    shares = kHead + (n - 1) * (4 + piece * word + kSealOverhead);
    cost.bytes_up = (kHead + 1 + (length + 1) * word) + (kHead + 1 + piece * word);
    cost.mask_elements = n * static_cast<double>(code.enough) * piece;
  } else {
    const double k = std::min(static_cast<double>(parameters.neighbours), n - 1);
    shares = kHead + k * (4 + kSealedBytes);
    cost.bytes_up = (kHead + 1 + length * word) + (kHead + k * (5 + Share::size()));
    cost.mask_elements = (k + 1) * length;
  }
  cost.bytes_up += (kHead + kKeys) + shares;
  cost.bytes_down = (kHead + n * kKeys + kTail) + (shares + kTail) + (kHead + 4 * n + kTail);
  if (plan.trust == Trust::kActive) {
    const double k = std::min(static_cast<double>(parameters.neighbours), n - 1);
    cost.bytes_up += kIdentity + (kHead + 64);
    cost.bytes_down += (4 + kIdentity) * n + (kHead + k * 68 + kTail);
  }
  return cost;
}

void add_cost(Cost& plain, const SumCost& sum, double plain_bytes_up) {
  const double bytes = plain.bytes_down + plain.bytes_up;
  if (bytes <= 0) return;  // nothing is emulated
  const double more = std::max(0.0, sum.bytes_up - plain_bytes_up) + sum.bytes_down;
  const double network = plain.network_seconds * more / bytes, compute = kMaskSeconds * sum.mask_elements;
  const double watts = plain.compute_seconds + plain.network_seconds > 0
                           ? plain.joules / (plain.compute_seconds + plain.network_seconds)
                           : 0;
  plain.seconds += network + compute;
  plain.network_seconds += network;
  plain.compute_seconds += compute;
  plain.joules += watts * (network + compute);
  plain.bytes_up += std::max(0.0, sum.bytes_up - plain_bytes_up);
  plain.bytes_down += sum.bytes_down;
}

std::string modelled_failure(const SumPlan& plan, const SumParameters& parameters, const std::vector<ClientId>& cohort,
                             const std::function<bool(ClientId, std::size_t)>& alive, std::uint64_t key) {
  const auto staying = [&](std::size_t step) {
    std::vector<ClientId> clients;
    for (const ClientId client : cohort) {
      if (alive(client, step)) clients.push_back(client);
    }
    return clients;
  };
  const std::vector<ClientId> keys = staying(0), sharing = staying(1), inputs = staying(2),
                              last = staying(plan.trust == Trust::kActive ? 4 : 3);
  const bool light = plan.protocol == SumProtocol::kLightSecAgg;
  const std::size_t least = std::max(parameters.least_cohort, parameters.threshold + (light ? 0 : 1));
  if (keys.size() < least) return fmt::format("only {} clients sent keys", keys.size());
  if (sharing.size() < least) return fmt::format("only {} clients shared keys", sharing.size());
  if (inputs.size() < (light ? least : parameters.least_cohort)) {
    return fmt::format("only {} inputs arrived", inputs.size());
  }
  if (light) return last.size() < parameters.threshold ? fmt::format("only {} clients stayed", last.size()) : "";
  const NeighbourGraph graph = graph_of(Hash("modelled").add(key).digest(), keys.size(), parameters.neighbours);
  const auto contains = [](const std::vector<ClientId>& list, ClientId client) {
    return std::binary_search(list.begin(), list.end(), client);
  };
  for (std::uint32_t place = 0; place < keys.size(); ++place) {
    if (!contains(sharing, keys[place])) continue;
    std::size_t near = 0, masked = 0;
    for (const std::uint32_t other : graph.neighbours(place)) {
      near += contains(last, keys[other]) ? 1 : 0;
      masked += contains(inputs, keys[other]) ? 1 : 0;
    }
    if (near < parameters.threshold && (masked > 0 || contains(inputs, keys[place]))) {
      return "too few neighbours of a client replied";
    }
  }
  return "";
}

}  // namespace chorus::inline secure_mean
