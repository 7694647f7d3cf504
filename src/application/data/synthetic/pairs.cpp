#include <algorithm>
#include <array>
#include <cmath>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"

namespace chorus::inline synthetic {
namespace {

/// Two names for one person; a verb in two wordings, each as past / base form, and the verb that denies it.
struct Person {
  std::string_view name, other;
};
struct Deed {
  std::string_view past, base, other_past, other_base;
  std::size_t opposite;  // index into kDeeds, or its own index when there is none
};

constexpr std::array<Person, 24> kPeople{{
    {"doctor", "physician"}, {"policeman", "officer"}, {"teacher", "schoolmaster"},
    {"child", "kid"},        {"lawyer", "attorney"},   {"priest", "minister"},
    {"soldier", "fighter"},  {"sailor", "seaman"},     {"writer", "author"},
    {"thief", "robber"},     {"guest", "visitor"},     {"manager", "boss"},
    {"farmer", "grower"},    {"student", "pupil"},     {"cook", "chef"},
    {"painter", "artist"},   {"actor", "performer"},   {"king", "monarch"},
    {"nurse", "attendant"},  {"merchant", "trader"},   {"captain", "commander"},
    {"servant", "butler"},   {"poet", "bard"},         {"guard", "watchman"},
}};

constexpr std::array<Deed, 20> kDeeds{{
    {"praised", "praise", "complimented", "compliment", 1},
    {"blamed", "blame", "criticised", "criticise", 0},
    {"hired", "hire", "employed", "employ", 3},
    {"dismissed", "dismiss", "fired", "fire", 2},
    {"helped", "help", "assisted", "assist", 5},
    {"ignored", "ignore", "neglected", "neglect", 4},
    {"loved", "love", "adored", "adore", 7},
    {"hated", "hate", "despised", "despise", 6},
    {"trusted", "trust", "believed", "believe", 9},
    {"doubted", "doubt", "suspected", "suspect", 8},
    {"called", "call", "phoned", "phone", 10},
    {"followed", "follow", "pursued", "pursue", 11},
    {"rescued", "rescue", "saved", "save", 13},
    {"attacked", "attack", "assaulted", "assault", 12},
    {"invited", "invite", "welcomed", "welcome", 15},
    {"rejected", "reject", "refused", "refuse", 14},
    {"thanked", "thank", "rewarded", "reward", 16},
    {"noticed", "notice", "spotted", "spot", 17},
    {"visited", "visit", "called on", "call on", 18},
    {"warned", "warn", "alerted", "alert", 19},
}};

constexpr std::array<std::string_view, 14> kPlaces{
    "in the garden",  "in the kitchen",  "at the station",   "on the bridge", "in the church",
    "at the market",  "in the library",  "at the theatre",   "on the beach",  "in the street",
    "in the village", "at the hospital", "in the old house", "by the river"};
constexpr std::array<std::string_view, 12> kTimes{"on Monday",   "on Tuesday",     "on Wednesday",   "on Friday",
                                                  "on Sunday",   "in the morning", "in the evening", "at midnight",
                                                  "last summer", "last winter",    "before dinner",  "after the storm"};
constexpr std::array<std::string_view, 12> kManners{"quietly",  "politely", "suddenly", "slowly",
                                                    "secretly", "openly",   "gladly",   "bitterly",
                                                    "calmly",   "honestly", "quickly",  "kindly"};

enum Part : std::size_t { kAgent, kDeed, kPatient, kPlace, kTime, kManner, kPolarity, kParts };

/// An event. kNone means that a detail is not mentioned.
struct Event {
  static constexpr std::size_t kNone = 1000;
  std::array<std::size_t, kParts> part{};
  bool negative() const { return part[kPolarity] == 1; }
};

constexpr std::array<std::size_t, 3> kDetails{kPlace, kTime, kManner};

std::size_t values_of(std::size_t part) {
  switch (part) {
    case kAgent:
    case kPatient:
      return kPeople.size();
    case kDeed:
      return kDeeds.size();
    case kPlace:
      return kPlaces.size();
    case kTime:
      return kTimes.size();
    case kManner:
      return kManners.size();
    default:
      return 2;
  }
}

std::size_t other_value(std::size_t part, std::size_t value, RandomStream& stream) {
  const std::size_t count = values_of(part);
  if (value >= count) return stream.below(count);
  return (value + 1 + stream.below(count - 1)) % count;
}

Event draw_event(const World& world, const Author& author, RandomStream& stream) {
  Event event;
  // A source knows some people and deeds better than others.
  const auto draw = [&](std::size_t part) {
    const std::size_t count = values_of(part);
    if (stream.uniform() >= world.config().skew) return static_cast<std::size_t>(stream.below(count));
    return static_cast<std::size_t>((author.source * 5 + stream.below(count / 3)) % count);
  };
  event.part[kAgent] = draw(kAgent);
  do event.part[kPatient] = draw(kPatient);
  while (event.part[kPatient] == event.part[kAgent]);
  event.part[kDeed] = draw(kDeed);
  for (const std::size_t detail : kDetails) event.part[detail] = stream.uniform() < 0.5 ? draw(detail) : Event::kNone;
  event.part[kPolarity] = stream.uniform() < 0.25 ? 1 : 0;
  return event;
}

/// One wording of the event: voice, synonyms, order of the details.
void tell(const Event& event, RandomStream& stream, std::string& out) {
  const Deed& deed = kDeeds[event.part[kDeed]];
  const bool other = stream.uniform() < 0.4;
  const std::string_view past = other ? deed.other_past : deed.past;
  const std::string_view base = other ? deed.other_base : deed.base;
  const auto person = [&](Part part) {
    const Person& found = kPeople[event.part[part]];
    return stream.uniform() < 0.35 ? found.other : found.name;
  };
  const std::string_view agent = person(kAgent);
  const std::string_view patient = person(kPatient);
  const bool has_manner = event.part[kManner] != Event::kNone;
  const std::string_view manner = has_manner ? kManners[event.part[kManner]] : "";
  const auto slot = [&](std::string_view name) {
    if (name == "agent") return agent;
    if (name == "patient") return patient;
    if (name == "past") return past;
    if (name == "base") return base;
    return manner;
  };

  std::string sentence;
  const bool place = event.part[kPlace] != Event::kNone;
  const bool time = event.part[kTime] != Event::kNone;
  const bool time_first = time && stream.uniform() < 0.4;
  if (time_first) sentence.append(kTimes[event.part[kTime]]).append(" ");
  const bool passive = stream.uniform() < 0.4;
  const bool before = has_manner && stream.uniform() < 0.5;
  if (passive) {
    sentence += "the {patient} was ";
    if (event.negative()) sentence += stream.uniform() < 0.5 ? "not " : "never ";
    sentence += before ? "{manner} {past} by the {agent}" : "{past} by the {agent}";
  } else {
    sentence += "the {agent} ";
    const double how = stream.uniform();
    if (event.negative()) {
      sentence += how < 0.4 ? "did not " : how < 0.7 ? "never " : "failed to ";
      if (before) sentence += "{manner} ";
      sentence += how >= 0.4 && how < 0.7 ? "{past}" : "{base}";
    } else {
      sentence += how < 0.8 ? "" : "managed to ";
      if (before) sentence += "{manner} ";
      sentence += how < 0.8 ? "{past}" : "{base}";
    }
    sentence += " the {patient}";
  }
  if (has_manner && !before) sentence += " {manner}";
  if (place) sentence.append(" ").append(kPlaces[event.part[kPlace]]);
  if (time && !time_first) sentence.append(" ").append(kTimes[event.part[kTime]]);
  const std::size_t begin = out.size();
  expand(sentence, out, slot);
  capitalise(out, begin);
  out += '.';
}

std::size_t said_details(const Event& event) {
  return static_cast<std::size_t>(
      std::count_if(kDetails.begin(), kDetails.end(), [&](std::size_t d) { return event.part[d] != Event::kNone; }));
}

/// A detail that the event does (or does not) mention; there must be one.
std::size_t choose_detail(const Event& event, bool said, RandomStream& stream) {
  while (true) {
    const std::size_t detail = kDetails[stream.below(kDetails.size())];
    if ((event.part[detail] != Event::kNone) == said) return detail;
  }
}

/// Changes the event into one that cannot be true together with it.
void contradict(Event& event, RandomStream& stream) {
  const double how = stream.uniform();
  if (event.negative() || how < 0.2) {
    event.part[kPolarity] = 1 - event.part[kPolarity];
  } else if (how < 0.55) {
    std::swap(event.part[kAgent], event.part[kPatient]);
  } else if (how < 0.75 && kDeeds[event.part[kDeed]].opposite != event.part[kDeed]) {
    event.part[kDeed] = kDeeds[event.part[kDeed]].opposite;
  } else if (said_details(event) > 0) {
    const std::size_t detail = choose_detail(event, true, stream);
    event.part[detail] = other_value(detail, event.part[detail], stream);
  } else {
    std::swap(event.part[kAgent], event.part[kPatient]);
  }
}

/// Under a negation a detail that is dropped makes the claim stronger, not weaker: "did not call on monday" leaves open
/// whether there was a call. So only positive events are entailed with details left out.
void weaken(Event& event, RandomStream& stream) {
  if (event.negative()) return;
  while (said_details(event) > 0 && stream.uniform() < 0.55) {
    event.part[choose_detail(event, true, stream)] = Event::kNone;
  }
}

void strengthen(Event& event, RandomStream& stream) {
  if (event.negative()) {
    if (said_details(event) > 0) {
      event.part[choose_detail(event, true, stream)] = Event::kNone;
      return;
    }
    event.part[kDeed] = other_value(kDeed, event.part[kDeed], stream);
    return;
  }
  if (said_details(event) == kDetails.size()) event.part[choose_detail(event, true, stream)] = Event::kNone;
  const std::size_t detail = choose_detail(event, false, stream);
  event.part[detail] = stream.below(values_of(detail));
}

}  // namespace

std::string_view pair_label(std::uint64_t label, std::uint64_t labels) {
  static constexpr std::array<std::string_view, 3> kThree{"entailment", "contradiction", "neutral"};
  static constexpr std::array<std::string_view, 2> kTwo{"equivalent", "different"};
  return labels == 2 ? kTwo[label] : kThree[label];
}

void make_pair(const World& world, RandomStream& stream, Record& record) {
  const SyntheticConfig& config = world.config();
  auto label = static_cast<std::size_t>(stream.below(config.labels));
  const Author author = world.author(label, stream, record);
  Event first = draw_event(world, author, stream);
  Event second = first;
  if (label == 1) {
    contradict(second, stream);
  } else if (label == 2) {
    Event bare = first;
    if (!bare.negative() && said_details(bare) == kDetails.size()) {
      bare.part[choose_detail(bare, true, stream)] = Event::kNone;
    }
    first = second = bare;
    strengthen(second, stream);
    // Vary other details too, so that sentence length alone does not reveal the label.
    if (!second.negative() && said_details(first) > 0 && stream.uniform() < 0.3) {
      const std::size_t dropped = choose_detail(first, true, stream);
      second.part[dropped] = Event::kNone;
    }
  } else if (config.labels == 3) {
    weaken(second, stream);
  }
  tell(first, stream, record.text);
  tell(second, stream, record.second);
  if (stream.uniform() < config.label_noise) label = (label + 1 + stream.below(config.labels - 1)) % config.labels;
  record.label = pair_label(label, config.labels);
}

void make_similarity(const World& world, RandomStream& stream, Record& record) {
  static constexpr std::array<double, kParts> kWeight{1.2, 1.4, 1.1, 0.5, 0.4, 0.3, 1.2};
  const Author author = world.author(stream, record);
  const Event first = draw_event(world, author, stream);
  Event second = first;
  // Draw the number of changes first, so that all grades of similarity occur.
  const std::uint64_t changes = stream.below(kParts + 1);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const auto part = static_cast<std::size_t>(stream.below(kParts));
    second.part[part] = other_value(part, second.part[part], stream);
  }
  if (stream.uniform() < 0.15) std::swap(second.part[kAgent], second.part[kPatient]);
  if (second.part[kAgent] == second.part[kPatient]) second.part[kPatient] = (second.part[kAgent] + 1) % kPeople.size();

  double shared = 0;
  double total = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    const std::size_t a = first.part[part];
    const std::size_t b = second.part[part];
    if (a == Event::kNone && b == Event::kNone) continue;
    total += kWeight[part];
    if (a == b) shared += kWeight[part];
    if (part == kDeed && a != b && kDeeds[a].opposite == b) shared += 0.3 * kWeight[part];
  }
  if (first.part[kAgent] == second.part[kPatient]) shared += 0.4;
  if (first.part[kPatient] == second.part[kAgent]) shared += 0.4;
  // Graders differ a little, and give quarter points.
  const double grade = 5 * shared / total + world.config().label_noise * 5 * stream.normal();
  record.score = std::clamp(std::round(grade * 4) / 4, 0.0, 5.0);
  tell(first, stream, record.text);
  tell(second, stream, record.second);
}

}  // namespace chorus::inline synthetic
