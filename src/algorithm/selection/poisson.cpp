#include "algorithm/selection/poisson.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline selection {
namespace {

std::vector<std::uint64_t> secret_words(std::size_t count) {
  std::vector<std::uint64_t> words(count);
  auto* bytes = reinterpret_cast<char*>(words.data());
  for (std::size_t done = 0; done < 8 * count;) {
    const ssize_t got = getrandom(bytes + done, std::min<std::size_t>(8 * count - done, 256), 0);
    if (got < 0 && errno != EINTR) throw WorldError("the operating system gives no random bytes; check /dev/urandom");
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return words;
}

}  // namespace

void PoissonConfig::describe(ConfigVisitor& v) {
  v.field("secret", secret, "draw from the operating system, not from the seed; differential privacy needs it");
}

std::vector<ClientId> PoissonSelector::select(const SelectionContext& context) const {
  const auto clients = static_cast<std::size_t>(
      std::count_if(context.sizes.begin(), context.sizes.end(), [](double size) { return size > 0; }));
  check_count(context, clients, "clients with data");
  const std::vector<ClientId> eligible = eligible_clients(context);
  std::vector<std::uint64_t> words;
  if (config_.secret) {
    words = secret_words(eligible.size());
  } else {
    RandomStream stream({.seed = context.seed, .purpose = "selection.poisson", .round = context.round});
    for (std::size_t i = 0; i < eligible.size(); ++i) words.push_back(stream.next_u64());
  }
  // count * 2^64 / clients, rounded down: a client must not be sampled more often than accounted for.
  const auto rate = (static_cast<unsigned __int128>(context.count) << 64) / std::max(clients, context.population);
  std::vector<ClientId> cohort;
  for (std::size_t i = 0; i < eligible.size(); ++i) {
    if (words[i] < rate) cohort.push_back(eligible[i]);
  }
  return cohort;
}

namespace {

const Registration<Selectors, PoissonConfig> kRegisteredPoisson{
    "poisson", "every client independently with the same probability, in secret (for differential privacy)",
    [](const PoissonConfig& config) { return std::make_unique<PoissonSelector>(config); }};

}  // namespace
}  // namespace chorus::inline selection
