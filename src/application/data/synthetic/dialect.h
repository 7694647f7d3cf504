#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/rng.h"

namespace chorus::inline synthetic {

/// Concepts with several wordings. Each user has a favourite wording of each.
enum class Concept : std::uint8_t {
  kHello,
  kBye,
  kVery,
  kGood,
  kBad,
  kFriend,
  kLaugh,
  kGoing,
  kWant,
  kYes,
  kMaybe,
  kThink,
  kThanks,
  kMuch,
  kKnow,
  kNow,
  kCount
};

/// How one person writes: favourite words, capitals, punctuation and typing errors. A pure function of (seed, client),
/// so it is not stored.
class Dialect {
 public:
  /// `strength` in [0, 1]: at 0 everybody writes alike.
  Dialect(std::uint64_t seed, std::uint64_t client, double strength);

  /// This user's word for the concept in the given month (0 .. 11). Each concept has one form that nobody uses in
  /// January and that spreads over the year, at a different time for each user.
  std::string_view say(Concept concept_, int month, RandomStream& stream) const;

  /// Applies the user's style (capital, final mark, typing errors) to a lower-case sentence and appends it to `out`.
  /// `noise` scales the typing errors.
  void finish(std::string& sentence, std::string& out, double noise, RandomStream& stream) const;

  double talkativeness() const { return talkativeness_; }  ///< in [0, 1]: how many sentences a message has
  bool greets() const { return greets_; }

 private:
  std::array<std::uint8_t, static_cast<std::size_t>(Concept::kCount)> favourite_{};
  double loyalty_ = 0;   // probability of the favourite
  int adopts_from_ = 0;  // month in which this user starts to use new words
  double typo_rate_ = 0;
  double talkativeness_ = 0;
  std::uint8_t mark_ = 0;
  bool lower_ = false;
  bool greets_ = false;
};

/// Adds one typing error (a swapped, dropped or doubled letter) inside text[from, ..); words under four letters and
/// non-ASCII text are unchanged.
void add_typo(std::string& text, std::size_t from, RandomStream& stream);

}  // namespace chorus::inline synthetic
