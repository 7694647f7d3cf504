#include "application/data/partition/label_deal.h"

#include <algorithm>
#include <cmath>

#include "application/data/partition/dynamic_fill.h"
#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline partition {

LabelPiles make_piles(std::span<const std::int32_t> labels, std::size_t label_count, std::uint64_t seed,
                      std::uint64_t split) {
  LabelPiles piles;
  piles.begin.assign(label_count + 1, 0);
  for (const std::int32_t label : labels) ++piles.begin[static_cast<std::size_t>(label) + 1];
  for (std::size_t l = 0; l < label_count; ++l) piles.begin[l + 1] += piles.begin[l];
  piles.order.resize(labels.size());
  std::vector<std::size_t> cursor(piles.begin.begin(), piles.begin.end() - 1);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    piles.order[cursor[static_cast<std::size_t>(labels[i])]++] = static_cast<ExampleId>(i);
  }
  for (std::size_t l = 0; l < label_count; ++l) {
    RandomStream stream({.seed = seed, .purpose = "partition.pile", .round = l, .step = split});
    stream.shuffle(std::span(piles.order).subspan(piles.begin[l], piles.begin[l + 1] - piles.begin[l]));
  }
  return piles;
}

std::vector<ClientId> deal_label_mixes(const LabelDeal& deal) {
  check(!deal.sizes.empty(), "there must be at least one client");
  check(deal.alpha > 0, "alpha must be positive");
  const LabelPiles piles = make_piles(deal.labels, deal.label_count, deal.seed, deal.split);
  const std::size_t labels = deal.label_count;

  std::vector<double> concentration(labels);
  std::vector<std::size_t> remaining(labels);
  for (std::size_t l = 0; l < labels; ++l) {
    remaining[l] = piles.begin[l + 1] - piles.begin[l];
    concentration[l] = deal.alpha * static_cast<double>(remaining[l]) /
                       static_cast<double>(std::max<std::size_t>(1, piles.order.size()));
  }

  std::vector<ClientId> owners(deal.labels.size(), 0);
  const auto take = [&](std::size_t label, std::size_t count, std::size_t client) {
    const std::size_t start = piles.begin[label + 1] - remaining[label];
    for (std::size_t i = start; i < start + count; ++i) owners[piles.order[i]] = static_cast<ClientId>(client);
    remaining[label] -= count;
  };

  const std::size_t last = deal.sizes.size() - 1;
  for (std::size_t client = 0; client < last && !piles.order.empty(); ++client) {
    RandomStream stream({.seed = deal.seed, .purpose = "partition.mix", .client = client, .step = deal.split});
    const std::vector<double> mix = stream.dirichlet(concentration);
    std::size_t room = deal.sizes[client];
    for (std::size_t l = 0; l < labels && room > 0; ++l) {
      // nearbyint rounds halves to even, like NumPy and Python.
      const auto wanted = static_cast<std::size_t>(std::nearbyint(mix[l] * static_cast<double>(deal.sizes[client])));
      const std::size_t quota = l + 1 == labels ? room : std::min(wanted, room);
      room -= quota;
      const std::size_t own = std::min(quota, remaining[l]);
      take(l, own, client);
      if (own == quota) continue;
      const std::vector<std::size_t> given = dynamic_fill(remaining, quota - own, l);
      for (std::size_t k = 0; k < labels; ++k) {
        if (given[k] > 0) take(k, given[k], client);
      }
    }
  }
  for (std::size_t l = 0; l < labels; ++l) take(l, remaining[l], last);
  return owners;
}

}  // namespace chorus::inline partition
