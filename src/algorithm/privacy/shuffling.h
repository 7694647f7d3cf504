#pragma once

#include <cstdint>

namespace chorus::inline privacy {

/// Amplification by shuffling: `users` local replies, each `local_epsilon`-private on its own, are (epsilon,
/// delta)-private for one round if nobody can tell who sent which (Feldman, McMillan and Talwar 2021, theorem 3.1):
///
///     epsilon = ln(1 + (e^e0 - 1) / (e^e0 + 1) (8 sqrt(e^e0 ln(4 / delta) / n) + 8 e^e0 / n))
///
/// proven for e0 <= ln(n / (16 ln(2 / delta))), and never more than e0. ConfigError beyond that.
double shuffled_epsilon(double local_epsilon, std::int64_t users, double delta);

}  // namespace chorus::inline privacy
