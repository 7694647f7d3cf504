#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithm/secure_mean/sum_plan.h"

namespace chorus::inline secure_mean {

/// What one client sends, receives and computes in a secure sum that everybody stays in, without framing.
struct SumCost {
  double bytes_up = 0, bytes_down = 0;
  double mask_elements = 0;  ///< elements of key stream it adds, or multiplications of LightSecAgg's code

  SumCost& operator+=(const SumCost& other);
};
SumCost cost_of(const SumPlan& plan, const SumParameters& parameters);

/// Seconds per element of a mask on a client's device: AES-CTR and an addition on a phone's core.
inline constexpr double kMaskSeconds = 2e-9;

/// Adds a sum's cost to that of a plain reply: bytes at the speed of the plain ones, masks as computing.
void add_cost(Cost& plain, const SumCost& sum, double plain_bytes_up);

/// Whether a sum succeeds when `alive(client, step)` says who replies to which of the four asks. The graph is drawn
/// from `key`, as the protocol draws it from the session. Returns what makes it fail, or "".
std::string modelled_failure(const SumPlan& plan, const SumParameters& parameters, const std::vector<ClientId>& cohort,
                             const std::function<bool(ClientId, std::size_t)>& alive, std::uint64_t key);

}  // namespace chorus::inline secure_mean
