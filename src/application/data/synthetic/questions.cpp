#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/world.h"
#include "core/base/utf8.h"

namespace chorus::inline synthetic {
namespace {

enum AnswerType { kTown, kYear, kJob, kFirm, kPerson, kCount, kPrice, kThing };

/// One kind of fact: its statement and its question. {S} is the person (name or pronoun), {A} the answer, {B} a second
/// value of another type in the same sentence; {his} and {he} agree with the person. In questions {S} is always a name.
struct Relation {
  AnswerType answer;
  AnswerType beside;
  std::array<std::string_view, 3> told;
  std::array<std::string_view, 3> asked;
};

constexpr std::array<Relation, 14> kRelations{{
    {kTown,
     kYear,
     {"{S} was born in {A} in {B}.", "{S} came into the world in {B}, in a small house in {A}.",
      "{S} spent the first years of life in {A}, from {B} on."},
     {"Where was {S} born?", "What is the home town of {S}?", "In which town did {S} spend {his} childhood?"}},
    {kYear,
     kTown,
     {"{S} moved to {B} in {A}.", "In {A} {S} packed everything and went to live in {B}.",
      "{S} has had a flat in {B} since {A}."},
     {"When did {S} change {his} address?", "In which year did {S} settle in a new town?",
      "Since when has {S} lived in the new flat?"}},
    {kTown,
     kYear,
     {"{S} moved to {A} in {B}.", "In {B} {S} packed everything and went to live in {A}.",
      "{S} has had a flat in {A} since {B}."},
     {"Where does {S} live now?", "What is the present home of {S}?", "Which town did {S} go to in the end?"}},
    {kJob,
     kFirm,
     {"{S} works as a {A} for {B}.", "{S} is employed by {B} as a {A}.", "At {B} {S} is known as a good {A}."},
     {"What is the profession of {S}?", "How does {S} earn a living?", "What job does {S} do?"}},
    {kFirm,
     kJob,
     {"{S} works as a {B} for {A}.", "{S} is employed by {A} as a {B}.", "At {A} {S} is known as a good {B}."},
     {"Who pays {S}?", "Which company does {S} belong to?", "For whom does {S} work?"}},
    {kPerson,
     kYear,
     {"{S} married {A} in {B}.", "In {B} there was a wedding, and {A} took {S} home.",
      "{S} fell in love with {A}, and since {B} they are husband and wife."},
     {"Who is married to {S}?", "Whom did {S} marry?", "What is the name of the person {S} lives with?"}},
    {kCount,
     kThing,
     {"{S} keeps {A} horses and one {B}.", "{A} horses and a {B} belong to {S}.",
      "Behind the house {S} has {A} horses and a {B}."},
     {"How many horses does {S} own?", "What is the number of animals that {S} keeps?",
      "How many horses are there at the house of {S}?"}},
    {kThing,
     kCount,
     {"{S} keeps {B} horses and one {A}.", "{B} horses and a {A} belong to {S}.",
      "Behind the house {S} has {B} horses and a {A}."},
     {"What does {S} have apart from animals?", "Besides the horses, what belongs to {S}?",
      "What thing does {S} possess?"}},
    {kPrice,
     kThing,
     {"{S} paid {A} for a {B}.", "A {B} cost {S} {A}.", "For {A} {S} bought a {B} at the market."},
     {"How much money did {S} spend?", "What was the price that {S} had to give?", "How much did {S} pay?"}},
    {kThing,
     kPrice,
     {"{S} paid {B} for a {A}.", "A {A} cost {S} {B}.", "For {B} {S} bought a {A} at the market."},
     {"What did {S} buy?", "What did {S} spend {his} money on?", "Which thing did {S} bring home from the market?"}},
    {kPerson,
     kTown,
     {"{S} learned everything from {A} in {B}.", "In {B} {A} was the teacher of {S}.",
      "{S} was a pupil of {A} in {B}."},
     {"Who taught {S}?", "From whom did {S} learn?", "Who was the master of {S}?"}},
    {kTown,
     kPerson,
     {"{S} learned everything from {B} in {A}.", "In {A} {B} was the teacher of {S}.",
      "{S} was a pupil of {B} in {A}."},
     {"Where did {S} go to school?", "In which town was {S} taught?", "Where did {S} study?"}},
    {kPerson,
     kThing,
     {"{S} has not spoken to {A} since the quarrel about a {B}.", "{S} hates {A}, who broke a {B}.",
      "{A} once stole a {B} from {S}."},
     {"Who is the enemy of {S}?", "Whom does {S} not want to see?", "Who did {S} wrong?"}},
    {kYear,
     kThing,
     {"In {A} {S} won a {B} in a game.", "{S} was given a {B} as a prize in {A}.",
      "{A} was a lucky year for {S}: the prize was a {B}."},
     {"When did {S} win something?", "In which year was {S} lucky?", "When did {S} get a prize?"}},
}};

constexpr std::size_t kBirth = 0;  // its year is the year of birth

constexpr std::array<std::string_view, 8> kQuestionAsides{
    "Nobody knows why.",
    "The neighbours still talk about it.",
    "That is another story.",
    "It was a surprise to all.",
    "The winter was very cold that year.",
    "People in the village say so.",
    "It was not an easy decision.",
    "Much has changed since then.",
};

struct Subject {
  std::string_view first, last;
  bool woman = false;
  std::uint64_t born = 0;
};

class Passage {
 public:
  Passage(const World& world, const Author& author, RandomStream& stream)
      : world_(world), author_(author), stream_(stream) {}

  /// A person with a first and family name that are unique in this text, also among answers.
  Subject new_person() {
    Subject person;
    person.woman = (stream_.next_u32() & 1U) != 0;
    const Words& firsts = person.woman ? names().women : names().men;
    person.first = world_.pick(firsts, author_, stream_);
    while (used(person.first)) person.first = pick(stream_, firsts);
    do person.last = pick(stream_, names().surnames);
    while (used(person.last));
    person.born = 1900 + stream_.below(60);
    used_.push_back(person.first);
    used_.push_back(person.last);
    return person;
  }

  std::string value(AnswerType type, const Subject& about, bool birth) {
    std::string made;
    if (type == kYear && birth) return std::to_string(about.born);
    do made = draw(type, about);
    while (std::find(values_.begin(), values_.end(), made) != values_.end());
    values_.push_back(made);
    return made;
  }

 private:
  bool used(std::string_view name) const { return std::find(used_.begin(), used_.end(), name) != used_.end(); }

  std::string draw(AnswerType type, const Subject& about) {
    switch (type) {
      case kTown:
        return std::string(stream_.next_u32() & 1U ? world_.pick(names().towns, author_, stream_)
                                                   : pick(stream_, names().either));
      case kYear:
        return std::to_string(about.born + 18 + stream_.below(45));
      case kJob:
        return std::string(pick(stream_, names().jobs));
      case kFirm:
        return fmt::format("{} {}", pick(stream_, names().firm_heads), pick(stream_, names().firm_tails));
      case kPerson: {
        const Subject person = new_person();
        return fmt::format("{} {}", person.first, person.last);
      }
      case kCount:
        return number_words(2 + stream_.below(19));
      case kPrice:
        return fmt::format("{}{}", stream_.next_u32() & 1U ? "\u00a3" : "\u20ac", 5 * (1 + stream_.below(199)));
      default:
        return fmt::format("{} {}", pick(stream_, names().object_adjectives), pick(stream_, names().objects));
    }
  }

  const World& world_;
  const Author& author_;
  RandomStream& stream_;
  std::vector<std::string_view> used_;
  std::vector<std::string> values_;
};

/// Writes one fact and returns the byte offset of the answer.
std::size_t tell(std::string_view pattern, std::string_view subject, const std::string& answer,
                 const std::string& beside, std::string& out) {
  std::size_t at = 0;
  const std::size_t begin = out.size();
  expand(pattern, out, [&](std::string_view slot) -> std::string_view {
    if (slot == "A") {
      at = out.size();
      return answer;
    }
    return slot == "B" ? std::string_view(beside) : subject;
  });
  // The article before the answer may have grown by a letter.
  at = out.find(answer, at);
  capitalise(out, begin);
  return at;
}

}  // namespace

std::uint64_t question_kinds() { return kRelations.size(); }

void make_question(const World& world, RandomStream& stream, Record& record) {
  const std::uint64_t kind = stream.below(kRelations.size());
  const Author author = world.author(kind, stream, record);
  Passage passage(world, author, stream);

  // Two or three people; about each two or three facts, no two of them from the same pair of mirrored relations.
  const std::size_t people = 2 + stream.below(2);
  const std::size_t asked_person = stream.below(people);
  const bool shared_kind = stream.uniform() < 0.4 + 0.6 * world.config().overlap;
  std::string answer;
  std::size_t answer_byte = 0;
  Subject asked;
  for (std::size_t p = 0; p < people; ++p) {
    const Subject person = passage.new_person();
    if (p == asked_person) asked = person;
    std::array<std::size_t, 3> facts{};
    std::size_t count = 0;
    // A distractor: another person with the same kind of fact.
    if (p == asked_person || (shared_kind && stream.uniform() < 0.75)) facts[count++] = kind;
    const std::size_t wanted = 2 + stream.below(2);
    while (count < wanted) {
      const std::size_t other = stream.below(kRelations.size());
      const auto clashes = [&](std::size_t fact) {
        return fact == other || kRelations[fact].told == kRelations[other].told ||
               (kRelations[fact].answer == kRelations[other].beside &&
                kRelations[fact].beside == kRelations[other].answer);
      };
      if (std::none_of(facts.begin(), facts.begin() + static_cast<std::ptrdiff_t>(count), clashes)) {
        facts[count++] = other;
      }
    }
    stream.shuffle(std::span(facts.data(), count));
    const std::string full = fmt::format("{} {}", person.first, person.last);
    for (std::size_t f = 0; f < count; ++f) {
      const Relation& relation = kRelations[facts[f]];
      std::string_view pattern = relation.told[stream.below(3)];
      // The name first and occasionally later; a pronoun only as a subject.
      std::string_view subject = full;
      if (f > 0) {
        const double how = stream.uniform();
        if (how < 0.45 && pattern.starts_with("{S}")) {
          subject = person.woman ? "she" : "he";
        } else if (how < 0.85) {
          subject = person.first;
        }
      }
      std::string told_answer = passage.value(relation.answer, person, facts[f] == kBirth);
      const std::string beside = passage.value(relation.beside, person, facts[f] == kBirth);
      if (pattern.starts_with("{A}")) capitalise(told_answer);
      if (!record.text.empty()) record.text += ' ';
      const std::size_t at = tell(pattern, subject, told_answer, beside, record.text);
      if (p == asked_person && facts[f] == kind) {
        answer = told_answer;
        answer_byte = at;
      }
    }
    if (stream.uniform() < 0.35)
      record.text.append(" ").append(pick(stream, Words(kQuestionAsides.begin(), kQuestionAsides.end())));
  }

  const std::string full = fmt::format("{} {}", asked.first, asked.last);
  const std::string_view called = stream.uniform() < 0.5 ? std::string_view(full) : asked.first;
  expand(kRelations[kind].asked[stream.below(3)], record.second, [&](std::string_view slot) {
    return slot == "S" ? called : asked.woman ? "her" : "his";
  });
  const auto begin = static_cast<std::int64_t>(utf8::count(std::string_view(record.text).substr(0, answer_byte)));
  record.answers.push_back({answer, begin, begin + static_cast<std::int64_t>(utf8::count(answer))});
}

}  // namespace chorus::inline synthetic
