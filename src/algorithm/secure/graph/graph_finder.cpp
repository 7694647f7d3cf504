#include "algorithm/secure/graph/graph_finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/base/error.h"

namespace chorus::inline secure_graph {
namespace {

constexpr std::int64_t kMostClients = 1'000'000;
// Rounding must not reduce a share of clients below the requested one.
constexpr double kRounding = 1e-12;
constexpr double kInfeasible = 0.9;
// Beyond it the tails are below what a double holds.
constexpr double kMostBits = 200;

std::int64_t count_of(double share, std::int64_t clients) {
  return static_cast<std::int64_t>(std::floor((share + kRounding) * static_cast<double>(clients)));
}

double log_choose(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return -std::numeric_limits<double>::infinity();
  const auto x = static_cast<double>(n), y = static_cast<double>(k);
  return std::lgamma(x + 1) - std::lgamma(y + 1) - std::lgamma(x - y + 1);
}

/// k draws without replacement from a population with some marked members.
struct Draws {
  std::int64_t population, marked, draws;

  double probability(std::int64_t hits) const {
    return std::exp(log_choose(marked, hits) + log_choose(population - marked, draws - hits) -
                    log_choose(population, draws));
  }

  /// The smallest t with P[hits > t] <= bound.
  std::int64_t upper(double bound) const {
    double tail = 0;
    std::int64_t t = std::min(draws, marked);
    while (t > 0 && tail + probability(t) <= bound) tail += probability(t--);
    return t;
  }

  /// The largest t with P[hits < t] <= bound.
  std::int64_t lower(double bound) const {
    double tail = 0;
    std::int64_t t = std::max<std::int64_t>(0, draws + marked - population);
    while (t < draws && tail + probability(t) <= bound) tail += probability(t++);
    return t;
  }
};

double log_disconnected(const GraphRequest& request, std::int64_t k) {
  const std::int64_t n = request.clients;
  const std::int64_t bad = count_of(request.corrupt, n) + count_of(request.dropout, n);
  if (k > bad) return -std::numeric_limits<double>::infinity();
  const double pairs = std::log(static_cast<double>(n)) + std::log(static_cast<double>(n - k - 1)) - std::log(2.0);
  return pairs + log_choose(n - k, bad - k) - log_choose(n, bad);
}

std::optional<GraphChoice> try_degree(const GraphRequest& request, std::int64_t k) {
  const std::int64_t n = request.clients;
  const double security = -(request.security_bits + 1);
  if (log_disconnected(request, k) >= security * std::log(2.0)) return std::nullopt;
  const std::int64_t surviving = n - count_of(request.dropout, n);
  const std::int64_t t1 = Draws{n, count_of(request.corrupt, n), k}.upper(std::exp2(security) / static_cast<double>(n));
  const std::int64_t t2 = Draws{n, surviving, k}.lower(std::exp2(-request.correctness_bits) / static_cast<double>(n));
  std::int64_t threshold = std::max<std::int64_t>(t1 + 1, 2);
  if (request.server == ServerKind::kSemiMalicious) threshold = std::max(threshold, (k + t1) / 2 + 1);
  if (threshold > t2) return std::nullopt;
  return GraphChoice{k, threshold, t1};
}

void check_request(const GraphRequest& request) {
  if (request.clients < 4 || request.clients > kMostClients) {
    throw ConfigError(
        fmt::format("{} clients: a graph of neighbours needs 4 to {} clients", request.clients, kMostClients));
  }
  const auto is_share = [](double share) { return share >= 0 && share < 1; };
  if (!is_share(request.corrupt) || !is_share(request.dropout)) {
    throw ConfigError(fmt::format("corrupt {} and dropout {} must be shares of the clients, from 0 to below 1",
                                  request.corrupt, request.dropout));
  }
  const auto is_possible = [](double bits) { return bits > 0 && bits <= kMostBits; };
  if (!is_possible(request.security_bits) || !is_possible(request.correctness_bits)) {
    throw ConfigError(fmt::format("{} bits of security and {} of correctness: both must be above 0 and at most {}",
                                  request.security_bits, request.correctness_bits, kMostBits));
  }
  const bool active = request.server == ServerKind::kSemiMalicious;
  if (request.corrupt + (active ? 2 : 1) * request.dropout > kInfeasible) {
    throw ConfigError(
        fmt::format("corrupt {} and dropout {} are too many: {} must not exceed {}", request.corrupt, request.dropout,
                    active ? "corrupt + 2 dropout (semi-malicious server)" : "corrupt + dropout", kInfeasible));
  }
}

}  // namespace

GraphRequest GraphRequest::in_whole_clients() const {
  const auto n = static_cast<double>(clients);
  const auto whole = [n](double share) { return n > 0 ? std::ceil(share * n - 1e-9) / n : share; };
  GraphRequest request = *this;
  request.corrupt = whole(corrupt);
  request.dropout = whole(dropout);
  return request;
}

GraphChoice find_graph(const GraphRequest& request) {
  check_request(request);
  for (std::int64_t k = 2; k < request.clients - 1; k += 2) {
    if (const auto choice = try_degree(request, k)) return *choice;
  }
  throw ConfigError(fmt::format(
      "no graph with fewer than {} neighbours is safe for {} clients with corrupt {} and dropout {}; use the complete "
      "graph",
      request.clients - 1, request.clients, request.corrupt, request.dropout));
}

}  // namespace chorus::inline secure_graph
