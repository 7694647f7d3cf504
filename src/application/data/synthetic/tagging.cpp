#include <array>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"

namespace chorus::inline synthetic {
namespace {

enum Type : std::size_t { kPer, kOrg, kLoc, kProd, kDate, kTypes };
constexpr std::array<std::string_view, kTypes> kTypeNames{"PER", "ORG", "LOC", "PROD", "DATE"};

// Tokens are separated by spaces. {ANY} is an entity of any type, which the sentence does not reveal.
constexpr std::array<std::string_view, 85> kTaggingFrames{
    "{PER} was born in {LOC} and works for {ORG} .",
    "{PER} met {PER} near {LOC} on {DATE} .",
    "on {DATE} {ORG} will open a new office in {LOC} .",
    "the new {PROD} was shown by {ORG} on {DATE} .",
    "{PER} bought a {PROD} for a friend .",
    "{ORG} sold more than {num} {kind} s last year , said {PER} .",
    "the train from {LOC} to {LOC} was late again .",
    "{PER} and {PER} were married in {LOC} last {DATE} .",
    "nobody at {ORG} wanted to talk about the {PROD} .",
    "the manager of {ORG} , {PER} , left for {LOC} .",
    "it rained in {LOC} all through {DATE} .",
    "they talked about {ANY} for an hour .",
    "{ANY} is not what it was .",
    "i have heard a lot about {ANY} and {ANY} .",
    "we all remember {ANY} .",
    "people say that {ANY} was better than {ANY} .",
    "{PER} asked {ORG} for a better price .",
    "in {LOC} , {ORG} is the largest employer .",
    "my {PROD} stopped working after {num} days .",
    "does anyone still use the {PROD} ?",
    "the {PROD} costs less than the {PROD} .",
    "{ORG} bought {ORG} for {num} million pounds .",
    "{PER} flew to {LOC} on {DATE} to see {PER} .",
    "the court heard {PER} on {DATE} .",
    "a spokesman for {ORG} said that {PER} had resigned .",
    "{PER} , a {job} from {LOC} , wrote the letter .",
    "the {job} told {PER} to wait until {DATE} .",
    "there was a fire in {LOC} on {DATE} .",
    "last night {PER} left {ANY} for {ANY} .",
    "shares of {ORG} fell after {DATE} .",
    "i was in {LOC} when {PER} called .",
    "the mayor of {LOC} thanked {ORG} .",
    "she studied at {ORG} before she moved to {LOC} .",
    "he drove his {PROD} from {LOC} to {LOC} .",
    "until {DATE} the {PROD} will be sold only in {LOC} .",
    "the story of {ANY} began in {DATE} .",
    "{ANY} won again .",
    "{ANY} , {ANY} and {ANY} were on the list .",
    "have you seen {ANY} ?",
    "the report on {ANY} is late .",
    "{PER} lost a {PROD} at {LOC} .",
    "the weather in {LOC} was awful in {DATE} .",
    "dear {PER} , thank you for your letter of {DATE} .",
    "{ORG} and {ORG} signed the contract in {LOC} .",
    "police in {LOC} are looking for {PER} .",
    "{PER} has played for {ORG} since {DATE} .",
    "it was {PER} who stole the {PROD} .",
    "the doctor at {ORG} told {PER} to rest .",
    "from {DATE} to {DATE} the road to {LOC} is closed .",
    "the old {kind} was made by {ORG} in {LOC} .",
    "i prefer the {PROD} to the {PROD} .",
    "we stayed two nights in {LOC} .",
    "with {PER} the team beat {ORG} .",
    "on {DATE} , {PER} turned thirty .",
    "{PER} laughed and closed the door .",
    "{ORG} will close its shop in {LOC} .",
    "everybody at home likes {ANY} .",
    "we will see in {DATE} .",
    "the box with the {PROD} came on {DATE} .",
    "{PER} knows {LOC} well .",
    "without {ANY} nothing works .",
    "the march to {LOC} will begin in {DATE} .",
    "they may visit {LOC} in {DATE} .",
    "the bell rose and fell , and {PER} saw a fox in the field .",
    "a long winter in {LOC} made {PER} ill .",
    "the king and the bishop of {LOC} may not agree .",
    "{PER} , it is said , never smiles .",
    "{ORG} , it is said , pays badly .",
    "{LOC} , it is said , has no trees .",
    "{PROD} , it is said , breaks easily .",
    "{PER} has always been , if you ask me , a kind man .",
    "{ORG} has always been , if you ask me , a good employer .",
    "{LOC} has always been , if you ask me , a dull town .",
    "{PROD} has always been , if you ask me , a bad buy .",
    "we read about {PER} , who had lost his job .",
    "we read about {ORG} , which had lost its director .",
    "we read about {LOC} , where it never rains .",
    "we read about {PROD} , which nobody can repair .",
    "for {PER} there was only one thing left : to marry .",
    "for {ORG} there was only one thing left : to sell its shares .",
    "for {LOC} there was only one thing left : to build a bridge .",
    "to us {ANY} means a lot .",
    "the name {ANY} is well known .",
    "{ANY} has a long history .",
    "that is the end of {ANY} .",
};

Type type_of(std::string_view slot) {
  for (std::size_t type = 0; type < kTypes; ++type) {
    if (kTypeNames[type] == slot) return static_cast<Type>(type);
  }
  return kTypes;
}

/// For each type, the frames that mention it.
const std::array<std::vector<std::string_view>, kTypes>& frames_by_type() {
  static const auto all = [] {
    std::array<std::vector<std::string_view>, kTypes> found;
    for (std::size_t type = 0; type < kTypes; ++type) {
      for (const std::string_view frame : kTaggingFrames) {
        // "Have you seen Monday?" is not English.
        const bool any = type != kDate && frame.find("{ANY}") != std::string_view::npos;
        if (any || frame.find(kTypeNames[type]) != std::string_view::npos) found[type].push_back(frame);
      }
    }
    return found;
  }();
  return all;
}

struct NameMaker {
  const World& world;
  const Author& author;
  RandomStream& stream;

  /// A family name that, with probability `overlap`, is also a town, a firm or a month.
  std::string_view surname() const {
    return stream.uniform() < world.config().overlap ? pick(stream, names().either)
                                                     : world.pick(names().surnames, author, stream);
  }
  std::string_view first_name() const {
    return world.pick(stream.next_u32() & 1U ? names().men : names().women, author, stream);
  }
  std::string_view town() const {
    return stream.uniform() < world.config().overlap ? pick(stream, names().either)
                                                     : world.pick(names().towns, author, stream);
  }

  std::string person() const {
    switch (stream.below(8)) {
      case 0:
        return fmt_two(first_name(), surname());
      case 1:
        return fmt_two(pick(stream, names().titles), surname());
      case 2:
        return std::string(first_name());
      default:
        return std::string(surname());
    }
  }
  std::string firm() const {
    switch (stream.below(12)) {
      case 0:
        return fmt_two(pick(stream, names().firm_heads), world.pick(names().firm_tails, author, stream));
      case 1:
        return fmt_two(surname(), pick(stream, names().firm_tails));
      case 2:
        return fmt_two(town(), pick(stream, names().public_bodies));
      case 3:
        return fmt_two(surname(), "and Sons");
      case 4:
        return fmt_two("Bank of", town());
      case 5:
        return std::string(surname()) + " and " + std::string(surname());
      case 6:
        return std::string(pick(stream, names().towns));  // "Boston lost": the town stands for its team
      default:
        return std::string(pick(stream, names().either));
    }
  }
  std::string place() const {
    switch (stream.below(7)) {
      case 0:
        return fmt_two(surname(), pick(stream, names().streets));
      case 1:
        return std::string(world.pick(names().countries, author, stream));
      case 2:
        return fmt_two(stream.next_u32() & 1U ? "New" : "East", town());
      default:
        return std::string(town());
    }
  }
  std::string product() const {
    switch (stream.below(7)) {
      case 0:
        return fmt_two(pick(stream, names().product_adjectives), pick(stream, names().product_nouns));
      case 1:
        return fmt_two(pick(stream, names().product_nouns), std::to_string(1 + stream.below(9)));
      case 2:
        return fmt_two(surname(), std::to_string(100 * (1 + stream.below(9))));
      case 3:
        return std::string(pick(stream, names().product_nouns));
      default:
        return std::string(surname());
    }
  }
  /// "on" wants a day, "last" a weekday, "in" no day.
  std::string date(std::string_view before) const {
    const std::uint64_t first = before == "in" ? 2 : 0;
    const std::uint64_t last = before == "on" ? 2 : before == "last" ? 1 : 5;
    switch (first + stream.below(last - first)) {
      case 0:
        return std::string(pick(stream, names().weekdays));
      case 1:
        return fmt_two(std::to_string(1 + stream.below(28)), pick(stream, names().months));
      case 2:
        return fmt_two(pick(stream, names().months), std::to_string(1950 + stream.below(73)));
      case 3:
        return std::to_string(1900 + stream.below(123));
      default:
        return std::string(pick(stream, names().months));
    }
  }

  std::string make(Type type, std::string_view before) const {
    switch (type) {
      case kPer:
        return person();
      case kOrg:
        return firm();
      case kLoc:
        return place();
      case kProd:
        return product();
      default:
        return date(before);
    }
  }

  static std::string fmt_two(std::string_view a, std::string_view b) { return std::string(a).append(" ").append(b); }
};

void add_words(std::string_view phrase, std::string_view type, Record& record) {
  bool first = true;
  for (const std::string_view word : cut(phrase, ' ')) {
    record.words.emplace_back(word);
    record.tags.emplace_back(type.empty() ? "O" : std::string(first ? "B-" : "I-").append(type));
    first = false;
  }
}

/// How the source writes names.
void restyle(const World& world, const Author& author, RandomStream& stream, Record& record) {
  const std::string_view source = world.source(author).name;
  const bool shouts = source == "police" && stream.uniform() < world.config().skew;
  const bool whispers = !world.source(author).formal && stream.uniform() < 0.6 * world.config().skew;
  for (std::size_t i = 0; i < record.words.size(); ++i) {
    if (whispers) lower_case(record.words[i]);
    if (shouts && record.tags[i] != "O") {
      for (char& c : record.words[i]) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      }
    }
    const bool common_word = record.tags[i] == "O" && record.words[i].size() > 3;
    if (common_word && stream.uniform() < 0.02 * world.config().typos) add_typo(record.words[i], 0, stream);
  }
  if (!whispers) capitalise(record.words.front());
}

}  // namespace

void make_tagging(const World& world, RandomStream& stream, Record& record) {
  const std::uint64_t kind = stream.below(kTypes);
  const Author author = world.author(kind, stream, record);
  const NameMaker maker{world, author, stream};
  const Source& source = world.source(author);

  if (stream.uniform() < 0.25 * world.config().skew) {
    const std::string_view opener = pick(stream, source.openers);
    if (!opener.ends_with("that")) {
      add_words(opener, "", record);
      add_words(",", "", record);
    }
  }
  const auto& frames = frames_by_type()[kind];
  const Words tokens = cut(frames[stream.below(frames.size())], ' ');
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    if (!token.starts_with('{')) {
      // "{kind} s" is a plural; one word.
      if (token == "s" && !record.words.empty()) {
        record.words.back() += "s";
      } else {
        add_words(token, "", record);
      }
      continue;
    }
    const std::string_view slot = token.substr(1, token.size() - 2);
    const bool any = slot == "ANY";
    const Type type =
        any ? static_cast<Type>(kind != kDate && stream.uniform() < 0.5 ? kind : stream.below(kDate)) : type_of(slot);
    if (type < kTypes) {
      add_words(maker.make(type, i > 0 ? tokens[i - 1] : ""), type < world.config().labels ? kTypeNames[type] : "",
                record);
      if (type == kProd && stream.uniform() < 0.3) add_words(pick(stream, names().product_kinds), "", record);
    } else if (slot == "num") {
      add_words(number_words(2 + stream.below(60)), "", record);
    } else if (slot == "kind") {
      add_words(pick(stream, names().product_kinds), "", record);
    } else {
      add_words(pick(stream, names().jobs), "", record);
    }
  }
  restyle(world, author, stream, record);
}

}  // namespace chorus::inline synthetic
