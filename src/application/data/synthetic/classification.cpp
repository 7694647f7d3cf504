#include <array>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"

namespace chorus::inline synthetic {
namespace {

// Slots: agent, thing, verb, adj, place come from the topic (or, as `overlap` says, from elsewhere); x and xagent from
// a topic that the sentence turns away from; the rest are topic-free.
constexpr std::array<std::string_view, 36> kTopicFrames{
    "the {agent} {verb} the {thing} {place}",
    "the {thing} was {verb} by a {agent}",
    "i have never {verb} such a {adj} {thing}",
    "we talked about the {thing} with the {cagent} {time}",
    "what a {adj} {thing}!",
    "the {agent} says that the {thing} is {very} {adj}",
    "has anyone here {verb} the {adj} {thing}?",
    "it was not about the {x} but about the {thing}",
    "{time} a {agent} {verb} the {cthing}",
    "the {cagent} was {feeling} because of the {adj} {thing}",
    "nobody {cverb} the {thing} {place}",
    "forget the {x}, the {thing} was {cadj}",
    "my {cagent} {verb} the {thing} and {cverb} the {thing}",
    "the {agent} and the {agent} {cverb} the {cthing} {cplace}",
    "there was a {adj} {thing} {place}",
    "{time} everything was {cadj} {place}",
    "the {thing} is {cadj}, but the {thing} is {very} {adj}",
    "i am {feeling} about the {thing}",
    "instead of the {x} we {verb} the {thing}",
    "the {cagent} {cverb} the {thing} of the {agent}",
    "a {agent} should have {verb} it",
    "why was the {thing} {verb} {place}?",
    "some say a {xagent} did it, but it was the {agent}",
    "the {cthing} was {cadj} and the {cagent} {cverb} it",
    "after the {thing} the {agent} was {feeling}",
    "without the {agent} the {thing} would be {adj}",
    "i {cverb} the {cthing} {time}",
    "they {verb} every {thing} {place} {time}",
    "the {cagent} asked for a {adj} {thing}",
    "it looks like a {x}, but it is only a {thing}",
    "a {cadj} {thing} for a {adj} {agent}",
    "the {agent} {cverb} it {place}",
    "you can see the {thing} {place}",
    "the {thing} of the {agent} was {verb} {time}",
    "no {agent} has ever {verb} a {cadj} {thing}",
    "if only the {agent} had {verb} the {thing}!",
};

struct Voice {
  const World& world;
  const Author& author;
  std::size_t about;  // the topic of this sentence
  std::size_t sibling;
  RandomStream& stream;

  const Topic& any() const { return topics()[stream.below(world.config().labels)]; }
  const Topic& topic() const {
    const double draw = stream.uniform();
    if (draw >= 0.3 * world.config().overlap) return topics()[about];
    return draw < 0.2 * world.config().overlap ? topics()[sibling] : any();
  }

  std::string_view operator()(std::string_view slot) const {
    const Common& c = common();
    const bool plain = stream.uniform() < 0.35 * world.config().overlap;  // a topical slot may be neutral
    if (slot == "agent") return plain ? world.pick(c.agents, author, stream) : pick_zipf(stream, topic().agents);
    if (slot == "thing") return plain ? world.pick(c.things, author, stream) : pick_zipf(stream, topic().things);
    if (slot == "verb") return plain ? world.pick(c.verbs, author, stream) : pick_zipf(stream, topic().verbs);
    if (slot == "adj") return plain ? world.pick(c.adjectives, author, stream) : pick_zipf(stream, topic().adjectives);
    if (slot == "place") return plain ? world.pick(c.places, author, stream) : pick(stream, topic().places);
    if (slot == "x") return pick_zipf(stream, any().things);
    if (slot == "xagent") return pick_zipf(stream, any().agents);
    if (slot == "cagent") return world.pick(c.agents, author, stream);
    if (slot == "cthing") return world.pick(c.things, author, stream);
    if (slot == "cverb") return world.pick(c.verbs, author, stream);
    if (slot == "cadj") return world.pick(c.adjectives, author, stream);
    if (slot == "cplace") return world.pick(c.places, author, stream);
    if (slot == "time") return world.pick(c.times, author, stream);
    if (slot == "feeling") return world.pick(c.feelings, author, stream);
    return pick(stream, c.intensifiers);
  }
};

/// A topic of the same group if there is one among the classes, else any other.
std::size_t sibling_of(std::size_t own, std::uint64_t labels, RandomStream& stream) {
  std::array<std::size_t, 32> candidates{};
  std::size_t count = 0;
  for (std::size_t other = 0; other < labels; ++other) {
    if (other != own && topics()[other].group == topics()[own].group) candidates[count++] = other;
  }
  if (count > 0) return candidates[stream.below(count)];
  return (own + 1 + stream.below(labels - 1)) % labels;
}

}  // namespace

void make_classification(const World& world, RandomStream& stream, Record& record) {
  const SyntheticConfig& config = world.config();
  const auto own = static_cast<std::size_t>(stream.below(config.labels));
  const Author author = world.author(own, stream, record);
  const Dialect dialect = world.dialect(author);
  const std::size_t sibling = sibling_of(own, config.labels, stream);
  Voice voice{world, author, own, sibling, stream};
  const Source& source = world.source(author);

  const std::uint64_t sentences =
      1 + (stream.below(4) > 0 ? 1U : 0U) + (stream.uniform() < dialect.talkativeness() ? 1U : 0U);
  std::string sentence;
  const std::uint64_t certain = stream.below(sentences);  // one sentence is about the topic, the others may digress
  for (std::uint64_t i = 0; i < sentences; ++i) {
    sentence.clear();
    const bool wanders = i != certain && stream.uniform() < 0.45 * config.overlap;
    voice.about = !wanders                 ? own
                  : stream.uniform() < 0.5 ? sibling
                                           : static_cast<std::size_t>(stream.below(config.labels));
    if (i == 0 && stream.uniform() < 0.45 * config.skew) {
      sentence += pick(stream, source.openers);
      sentence += sentence.back() == 't' && sentence.ends_with("that") ? " " : ", ";
    }
    // Each topic prefers a third of the frames: its style.
    const std::size_t third = kTopicFrames.size() / 3;
    const std::size_t frame = stream.uniform() < 0.35 ? (own * 5 + stream.below(third)) % kTopicFrames.size()
                                                      : static_cast<std::size_t>(stream.below(kTopicFrames.size()));
    expand(kTopicFrames[frame], sentence, voice);
    dialect.finish(sentence, record.text, config.typos, stream);
  }
  if (stream.uniform() < 0.35 * config.skew) {
    sentence = pick(stream, source.closers);
    dialect.finish(sentence, record.text, config.typos, stream);
  }

  std::size_t label = own;
  if (stream.uniform() < config.label_noise) label = (own + 1 + stream.below(config.labels - 1)) % config.labels;
  record.label = topics()[label].name;
}

}  // namespace chorus::inline synthetic
