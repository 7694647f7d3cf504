#include "algorithm/selection/fednlp_choice.h"

#include <bit>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline selection {

std::vector<std::uint32_t> numpy_permutation(std::uint32_t seed, std::size_t n) {
  check(n <= std::numeric_limits<std::uint32_t>::max(), "too many clients for numpy's permutation");
  std::vector<std::uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 generator(seed);  // the standard fixes its output and seeding, which equal NumPy's
  for (std::size_t i = n; i-- > 1;) {
    const auto most = static_cast<std::uint32_t>(i);
    const std::uint32_t mask = std::numeric_limits<std::uint32_t>::max() >> std::countl_zero(most);
    std::uint32_t j = 0;
    do {
      j = static_cast<std::uint32_t>(generator()) & mask;
    } while (j > most);
    std::swap(order[i], order[j]);
  }
  return order;
}

std::vector<ClientId> FednlpChoice::select(const SelectionContext& context) const {
  std::vector<ClientId> clients = eligible_clients(context);
  check_count(context, clients.size(), "reachable clients with data");
  if (context.count == clients.size()) return clients;
  if (context.round > std::numeric_limits<std::uint32_t>::max()) {
    throw ConfigError(
        "selection: fednlp uses the round as NumPy's seed, which is at most 4294967295; choose another selector");
  }
  const std::vector<std::uint32_t> order = numpy_permutation(static_cast<std::uint32_t>(context.round), clients.size());
  std::vector<ClientId> cohort(context.count);
  for (std::size_t i = 0; i < cohort.size(); ++i) cohort[i] = clients[order[i]];
  return cohort;
}

namespace {

const Registration<Selectors> kRegisteredFednlp{"fednlp", "exactly FedNLP's selection (NumPy seeded with the round)",
                                                [] { return std::make_unique<FednlpChoice>(); }};

}  // namespace
}  // namespace chorus::inline selection
