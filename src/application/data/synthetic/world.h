#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "application/data/synthetic/dialect.h"
#include "application/data/synthetic/synthetic.h"
#include "application/data/synthetic/words.h"

namespace chorus::inline synthetic {

/// Who wrote an example, where and when.
struct Author {
  std::uint64_t client = 0;
  std::size_t source = 0;
  int month = 0;  ///< 0 .. 11
};

/// The clients behind a corpus: their activity, source and preferences. Built once from the configuration, in time and
/// memory linear in the number of clients.
class World {
 public:
  World(const SyntheticConfig& config, std::uint64_t kinds);

  const SyntheticConfig& config() const { return config_; }
  std::uint64_t kinds() const { return kinds_; }  ///< classes, or their equivalents (relations, events)

  /// Draws the author of an example of class `kind` (P(client | kind) is proportional to activity times preference),
  /// and sets client, source and time of the record.
  Author author(std::uint64_t kind, RandomStream& stream, Record& record) const;
  /// Draws an author by activity alone.
  Author author(RandomStream& stream, Record& record) const;

  Dialect dialect(const Author& author) const { return {config_.seed, author.client, 0.3 + 0.7 * config_.skew}; }
  const Source& source(const Author& author) const { return sources()[author.source]; }

  /// The preference of a client, in (0, 1]: a pure function of (seed, client, what, which).
  double preference(std::uint64_t client, std::uint64_t what, std::uint64_t which) const;

  /// With probability skew, picks from the part of the list that the source favours.
  std::string_view pick(const Words& words, const Author& author, RandomStream& stream) const;

 private:
  Author place(std::size_t source, RandomStream& stream) const;
  void sign(Author& author, RandomStream& stream, Record& record) const;

  SyntheticConfig config_;
  std::uint64_t kinds_;
  std::vector<std::vector<double>> activity_;     // per source: cumulative over its clients
  std::vector<std::vector<double>> kind_source_;  // per kind: cumulative over the sources
  std::vector<double> source_activity_;           // cumulative over the sources
};

/// One generator per formulation. `stream` is the example's own; the record is cleared and has its id.
void make_classification(const World& world, RandomStream& stream, Record& record);
void make_pair(const World& world, RandomStream& stream, Record& record);
void make_similarity(const World& world, RandomStream& stream, Record& record);
void make_tagging(const World& world, RandomStream& stream, Record& record);
void make_question(const World& world, RandomStream& stream, Record& record);
void make_headline(const World& world, RandomStream& stream, Record& record);
void make_message(const World& world, RandomStream& stream, Record& record);

/// The name of a pair label, of two or three.
std::string_view pair_label(std::uint64_t label, std::uint64_t labels);

/// The number of kinds of questions and headlines (for the skew between clients).
std::uint64_t question_kinds();
std::uint64_t headline_kinds();

}  // namespace chorus::inline synthetic
