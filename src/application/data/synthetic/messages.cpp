#include <array>
#include <cmath>
#include <numbers>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"

namespace chorus::inline synthetic {
namespace {

// Slots: the user's words for a concept (hello, very, good, ...); agent, thing, verb, adj, place of the message's
// topic; event: what everybody talks about this month; time, later: when it was or will be.
constexpr std::array<std::string_view, 48> kMessageFrames{
    "{hello} {friend}, have you seen the {thing}?",
    "i am {going} see the {event} tomorrow",
    "{think} the {thing} was {very} {good}",
    "{think} the {agent} is {very} {bad}",
    "{yes}, the {thing} is {place}",
    "i {want} a new {thing}",
    "the {agent} {verb} my {thing} {time}",
    "{know}, it is {very} {adj} {place}",
    "{thanks} for the {thing}, {friend}",
    "{maybe} we should see the {agent} {now}",
    "we {verb} the {thing} {place} {time}",
    "{now} i have {much} to do for the {event}",
    "did you hear about the {event}?",
    "the {event} was {very} {good}",
    "the {event} was {very} {bad}",
    "{laugh}, the {agent} {verb} the {thing} again",
    "my {agent} says the {thing} is {adj}",
    "{know}, i {want} {much} of that",
    "who {verb} the {thing} {time}?",
    "{yes} {yes}, i know",
    "it was {good} to see you {time}",
    "i cannot come {now}, i have to wait for the {agent}",
    "what a {good} {thing}",
    "what a {bad} day",
    "{think} you should ask the {agent}",
    "{maybe} the {adj} {thing} is still {place}",
    "are you {going} be there {later}?",
    "{friend}, {know}, i do not like the {agent}",
    "the {thing} {place} was {verb} by some {agent}",
    "i dreamed of a {adj} {thing} {time}",
    "everybody here talks about the {event}",
    "{thanks}, {friend}",
    "{laugh}, {very} {good}",
    "no, i have not {verb} the {thing}",
    "can you bring the {thing} {later}?",
    "i miss you {much}",
    "{now} the {agent} is {place}",
    "we are {going} have a {good} time",
    "{think} nobody {verb} it",
    "the {adj} {agent} was here {time}",
    "i feel {bad} {now}",
    "tell the {agent} i said {hello}",
    "{maybe} after the {event}",
    "it costs {much}, {know}",
    "the {thing} is mine, {friend}",
    "{time} i {verb} a {thing} for the {event}",
    "how is your {agent}?",
    "that {thing} is {very} {adj}",
};

constexpr std::array<std::string_view, 12> kEvents{
    "New Year party,snow,cold,winter sale",
    "carnival,ice,Valentine dinner,ball",
    "spring cleaning,march,storm,first flowers",
    "Easter holiday,rain,election,marathon",
    "may fair,wedding,garden party,strike",
    "exam,summer festival,heat,school play",
    "beach trip,fire,holiday,boat race",
    "village fair,camp,drought,film night",
    "new school year,harvest,apple day,court case",
    "Halloween night,fog,book fair,robbery",
    "bonfire,flood,first frost,opera evening",
    "Christmas market,concert,family visit,midnight mass",
};

Concept concept_of(std::string_view slot) {
  static constexpr std::array<std::string_view, static_cast<std::size_t>(Concept::kCount)> kSlots{
      "hello", "bye", "very",  "good",  "bad",    "friend", "laugh", "going",
      "want",  "yes", "maybe", "think", "thanks", "much",   "know",  "now"};
  for (std::size_t i = 0; i < kSlots.size(); ++i) {
    if (kSlots[i] == slot) return static_cast<Concept>(i);
  }
  return Concept::kCount;
}

/// The event of the month: one of four, the first most often.
std::string_view event_of(int month, RandomStream& stream) {
  static const std::array<Words, 12> events = [] {
    std::array<Words, 12> parsed;
    for (std::size_t i = 0; i < parsed.size(); ++i) parsed[i] = cut(kEvents[i]);
    return parsed;
  }();
  return pick_zipf(stream, events[static_cast<std::size_t>(month)]);
}

/// The topic of a message: the user's preference times the season's.
std::size_t draw_topic(const World& world, const Author& author, RandomStream& stream) {
  std::array<double, 32> weight{};
  const std::size_t count = topics().size();
  for (std::size_t topic = 0; topic < count; ++topic) {
    const double phase =
        2 * std::numbers::pi * (author.month / 12.0 - static_cast<double>(topic) / static_cast<double>(count));
    weight[topic] =
        (0.01 + world.preference(author.client, 2, topic)) * std::exp(2.0 * world.config().drift * std::cos(phase));
  }
  return stream.categorical(std::span(weight.data(), count));
}

/// The user's own ranking of a word list: everybody has different favourite words.
std::string_view favourite(const Words& words, const World& world, const Author& author, RandomStream& stream) {
  const std::size_t turn = stream.uniform() < world.config().skew ? author.client * 7 % words.size() : 0;
  std::uint64_t rank = stream.below(words.size());
  rank = std::min(rank, stream.below(words.size()));
  return words[(turn + rank) % words.size()];
}

}  // namespace

void make_message(const World& world, RandomStream& stream, Record& record) {
  const SyntheticConfig& config = world.config();
  const Author author = world.author(stream, record);
  const Dialect dialect = world.dialect(author);
  const Topic& topic = topics()[draw_topic(world, author, stream)];
  // Without drift every month is like every other.
  const int month = stream.uniform() < 2 * config.drift ? author.month : static_cast<int>(stream.below(12));
  const auto fill = [&](std::string_view slot) -> std::string_view {
    const Concept meant = concept_of(slot);
    if (meant != Concept::kCount) return dialect.say(meant, config.drift > 0 ? author.month : 0, stream);
    if (slot == "agent") return favourite(topic.agents, world, author, stream);
    if (slot == "thing") return favourite(topic.things, world, author, stream);
    if (slot == "verb") return favourite(topic.verbs, world, author, stream);
    if (slot == "adj") return favourite(topic.adjectives, world, author, stream);
    if (slot == "place") return favourite(topic.places, world, author, stream);
    if (slot == "event") return event_of(month, stream);
    return world.pick(slot == "later" ? common().later : common().times, author, stream);
  };

  std::uint64_t sentences = 1;
  while (sentences < 4 && stream.uniform() < 0.7 * dialect.talkativeness()) ++sentences;
  std::string sentence;
  if (dialect.greets() && stream.uniform() < 0.4) {
    expand("{hello} {friend}", sentence, fill);
    dialect.finish(sentence, record.text, config.typos, stream);
  }
  for (std::uint64_t i = 0; i < sentences; ++i) {
    sentence.clear();
    // A user also has favourite phrases.
    const std::size_t habit = author.client * 11 % kMessageFrames.size();
    const std::size_t frame = stream.uniform() < 0.5 * config.skew
                                  ? (habit + stream.below(8)) % kMessageFrames.size()
                                  : static_cast<std::size_t>(stream.below(kMessageFrames.size()));
    expand(kMessageFrames[frame], sentence, fill);
    dialect.finish(sentence, record.text, config.typos, stream);
  }
  if (dialect.greets() && stream.uniform() < 0.2) {
    sentence.clear();
    expand("{bye}", sentence, fill);
    dialect.finish(sentence, record.text, config.typos, stream);
  }
}

}  // namespace chorus::inline synthetic
