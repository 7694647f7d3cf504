#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/rng.h"

namespace chorus::inline synthetic {

/// A list of words or phrases, split from one comma-separated literal.
using Words = std::vector<std::string_view>;
Words cut(std::string_view table, char separator = ',');

/// Uniform choice.
std::string_view pick(RandomStream& stream, const Words& words);
/// Favours the front of the list: rank r has a weight of about 1 / (r + 1), as in natural text.
std::string_view pick_zipf(RandomStream& stream, const Words& words);

/// The vocabulary of one topic. Verbs are transitive and their past tense equals their participle ("the pilot checked
/// the engine", "the engine was checked"), so that one list serves active and passive frames.
struct Topic {
  std::string_view name;
  int group = 0;     ///< topics of a group share words and are easily confused
  Words agents;      ///< who: "captain"
  Words things;      ///< what: "sail"
  Words verbs;       ///< did: "mended"
  Words adjectives;  ///< how the thing was: "torn"
  Words places;      ///< where, with its preposition: "on the deck"
};

/// All topics, in an order whose prefixes mix the groups.
const std::vector<Topic>& topics();

/// A silo of a federation. Each has its own openings and closings, people and spellings of common things, so that texts
/// of two sources differ even on one topic.
struct Source {
  std::string_view name;
  Words openers;   ///< "between two shifts,"
  Words closers;   ///< whole sentences: "back to the ward now."
  Words subjects;  ///< who speaks of "we": "our nurses"
  bool formal = false;
};

const std::vector<Source>& sources();

/// Names of people, places, firms and things for the grammars of tagging, question answering and headlines.
struct Names {
  Words men, women, surnames, towns, countries, streets, either;  // `either`: a surname, a town or a firm, by context
  Words firm_heads, firm_tails, public_bodies, product_adjectives, product_nouns, product_kinds, objects,
      object_adjectives;
  Words months, weekdays, titles, jobs;
};

const Names& names();

/// Topic-free words, common to all texts.
struct Common {
  Words agents, things, verbs, adjectives, places, times, later, intensifiers, feelings;
};

const Common& common();

}  // namespace chorus::inline synthetic
