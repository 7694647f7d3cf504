#pragma once

#include <span>
#include <vector>

#include "algorithm/privacy/mechanism.h"

namespace chorus::inline privacy {

/// The orders at which Rényi divergences are accounted for: 1.1, 1.2, ... 10.9, 11 ... 63, 128, 256, 512, 1024 (the
/// grid of dp_accounting).
const std::vector<double>& rdp_orders();

/// Rényi divergence of order `order` between N-sampled Gaussians (Mironov, Talwar and Zhang 2019):
///
///     D = ln(A) / (order - 1),  A = E_{z ~ N(0, s^2)} [((1-q) + q exp((2z-1) / (2 s^2)))^order]
///
/// Exact up to rounding at every order above 1. A - 1 is computed directly, so D keeps its relative accuracy where A is
/// nearly 1 (q = 1e-5, s = 100): at integers it is a finite sum of positive terms, otherwise an integral by the
/// trapezoidal rule, which converges exponentially here.
double sampled_gaussian_rdp(double sampling_rate, double noise, double order);

/// The divergence of one step of a mechanism. ConfigError where none is proven (sampled Laplace, for example; the PLD
/// accountant covers it).
double step_rdp(const Mechanism& mechanism, Adjacency adjacency, double order);

/// The smallest epsilon that the divergences imply for delta (Canonne, Kamath and Steinke 2020, proposition 12):
/// epsilon = D + ln(1 - 1/order) - (ln(delta) + ln(order)) / (order - 1). Infinite for delta = 0.
double epsilon_of_rdp(std::span<const double> orders, std::span<const double> divergences, double delta);

/// Epsilon of mechanisms composed sequentially on the same records.
double rdp_epsilon(std::span<const Mechanism> mechanisms, Adjacency adjacency, double delta);

}  // namespace chorus::inline privacy
