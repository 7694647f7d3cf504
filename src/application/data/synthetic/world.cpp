#include "application/data/synthetic/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace chorus::inline synthetic {
namespace {

constexpr std::int64_t kYearBegin = 1672531200;  // 2023-01-01 00:00:00 UTC
constexpr std::int64_t kDay = 86400;
constexpr std::array<int, 13> kMonthBegins{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};

std::size_t draw_cumulative(const std::vector<double>& cumulative, RandomStream& stream) {
  const double at = stream.uniform() * cumulative.back();
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), at);
  return std::min(static_cast<std::size_t>(found - cumulative.begin()), cumulative.size() - 1);
}

double unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53; }

}  // namespace

World::World(const SyntheticConfig& config, std::uint64_t kinds) : config_(config), kinds_(kinds) {
  const std::size_t used = std::min(config.sources, config.clients);
  activity_.resize(used);
  for (std::uint64_t client = 0; client < config.clients; ++client) {
    RandomStream stream({.seed = config.seed, .purpose = "synthetic activity", .client = client});
    std::vector<double>& cumulative = activity_[client % used];
    cumulative.push_back((cumulative.empty() ? 0 : cumulative.back()) + std::exp(config.activity * stream.normal()));
  }
  for (const auto& cumulative : activity_) {
    source_activity_.push_back((source_activity_.empty() ? 0 : source_activity_.back()) + std::sqrt(cumulative.back()));
  }
  for (std::uint64_t kind = 0; kind < kinds; ++kind) {
    std::vector<double> cumulative;
    for (std::size_t source = 0; source < used; ++source) {
      const double liking = std::pow(unit(mix(mix(config.seed, source + 1), kind + 7001)), 3 * config.skew);
      const double before = cumulative.empty() ? 0 : cumulative.back();
      cumulative.push_back(before + std::sqrt(activity_[source].back()) * (0.03 + liking));
    }
    kind_source_.push_back(std::move(cumulative));
  }
}

double World::preference(std::uint64_t client, std::uint64_t what, std::uint64_t which) const {
  return std::pow(unit(mix(mix(config_.seed + what * 0x51ED2701, client), which)), 4 * config_.skew);
}

Author World::place(std::size_t source, RandomStream& stream) const {
  const std::size_t within = draw_cumulative(activity_[source], stream);
  return {.client = within * activity_.size() + source, .source = source};
}

void World::sign(Author& author, RandomStream& stream, Record& record) const {
  const auto second = static_cast<std::int64_t>(stream.below(365 * kDay));
  const auto day = static_cast<int>(second / kDay);
  author.month =
      static_cast<int>(std::upper_bound(kMonthBegins.begin(), kMonthBegins.end(), day) - kMonthBegins.begin()) - 1;
  record.time = kYearBegin + second;
  fmt::format_to(std::back_inserter(record.client), "u{:04}", author.client);
  record.source = sources()[author.source].name;
}

Author World::author(std::uint64_t kind, RandomStream& stream, Record& record) const {
  const std::size_t source = draw_cumulative(kind_source_[kind], stream);
  Author author = place(source, stream);
  // Rejection sampling: propose by activity, accept by preference. Close to their product without a table of all pairs.
  for (int tries = 0; tries < 12 && stream.uniform() > preference(author.client, 1, kind); ++tries) {
    author = place(source, stream);
  }
  sign(author, stream, record);
  return author;
}

Author World::author(RandomStream& stream, Record& record) const {
  Author author = place(draw_cumulative(source_activity_, stream), stream);
  sign(author, stream, record);
  return author;
}

std::string_view World::pick(const Words& words, const Author& author, RandomStream& stream) const {
  if (stream.uniform() >= config_.skew) return words[stream.below(words.size())];
  const std::size_t part = std::max<std::size_t>(words.size() / 3, 1);
  const std::size_t begin = mix(author.source + 1, words.size()) % words.size();
  return words[(begin + stream.below(part)) % words.size()];
}

}  // namespace chorus::inline synthetic
