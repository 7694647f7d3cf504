#include "application/data/synthetic/dialect.h"

#include <algorithm>
#include <cmath>

#include "application/data/synthetic/grammar.h"
#include "application/data/synthetic/words.h"

namespace chorus::inline synthetic {
namespace {

constexpr auto kConcepts = static_cast<std::size_t>(Concept::kCount);

/// In the order of Concept; the last form of each is the one that spreads during the year.
const std::array<Words, kConcepts>& forms() {
  static const std::array<Words, kConcepts> all{
      cut("hello,hi,hey,good morning,good day,hey there,greetings,evening,hi folks"),
      cut("bye,see you,take care,good night,talk later,cheers,love,farewell,stay cool"),
      cut("very,really,so,quite,super,pretty,extremely,rather,mad"),
      cut("good,great,nice,lovely,fine,brilliant,awesome,wonderful,golden"),
      cut("bad,awful,terrible,horrible,poor,nasty,stupid,dreadful,rotten"),
      cut("friend,mate,buddy,brother,guys,folks,dear,pal,captain"),
      cut("haha,lol,funny,what a joke,he he,i laughed,very funny,ha,dead"),
      cut("going to,gonna,about to,off to,ready to,set to,planning to,bound to,rolling to"),
      cut("want,would like,need,wish for,fancy,could use,dream of,long for,crave"),
      cut("yes,yeah,sure,of course,right,okay,indeed,true,solid"),
      cut("maybe,perhaps,possibly,who knows,might be,not sure,probably,i suppose,could be so"),
      cut("i think,i guess,i believe,i suppose,in my opinion,honestly,it seems,i feel,no lie"),
      cut("thanks,thank you,many thanks,cheers,bless you,much obliged,god bless,thanks a lot,respect"),
      cut("much,a lot,lots,plenty,a great deal,a bit,loads,heaps,tons"),
      cut("you know,i mean,like,well,look,listen,see,to be fair,real talk"),
      cut("now,today,right now,at the moment,these days,at last,finally,at once,this minute"),
  };
  return all;
}

constexpr std::array<std::string_view, 7> kMarks{".", "!", "...", "!!", "", " .", " :)"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

}  // namespace

Dialect::Dialect(std::uint64_t seed, std::uint64_t client, double strength) {
  RandomStream stream({.seed = seed, .purpose = "synthetic dialect", .client = client});
  for (std::size_t i = 0; i < kConcepts; ++i) {
    const std::size_t old_forms = forms()[i].size() - 1;
    favourite_[i] = static_cast<std::uint8_t>(stream.below(old_forms));
  }
  loyalty_ = strength * (0.6 + 0.4 * stream.uniform());
  adopts_from_ = 3 + static_cast<int>(stream.below(12));
  const double clumsy = stream.uniform();
  typo_rate_ = strength * 0.35 * clumsy * clumsy * clumsy;
  talkativeness_ = 0.5 + strength * (stream.uniform() - 0.5);
  mark_ = stream.uniform() < 0.55 * strength ? static_cast<std::uint8_t>(1 + stream.below(kMarks.size() - 1)) : 0;
  lower_ = stream.uniform() < 0.35 * strength;
  greets_ = stream.uniform() < 0.4;
}

std::string_view Dialect::say(Concept concept_, int month, RandomStream& stream) const {
  const Words& words = forms()[static_cast<std::size_t>(concept_)];
  const double draw = stream.uniform();
  if (month >= adopts_from_ && draw < 0.5) return words.back();
  if (draw < loyalty_) return words[favourite_[static_cast<std::size_t>(concept_)]];
  return words[stream.below(words.size() - 1)];
}

void Dialect::finish(std::string& sentence, std::string& out, double noise, RandomStream& stream) const {
  if (sentence.empty()) return;
  const bool closed = sentence.back() == '.' || sentence.back() == '?' || sentence.back() == '!';
  if (!closed) {
    // Users mostly keep to their favourites.
    const std::uint8_t mark = stream.uniform() < 0.8 ? mark_ : 0;
    sentence += kMarks[mark];
  }
  if (lower_) {
    lower_case(sentence);
  } else {
    capitalise(sentence);
    for (std::size_t at = sentence.find(" i "); at != std::string::npos; at = sentence.find(" i ", at)) {
      sentence[at + 1] = 'I';
    }
  }
  if (stream.uniform() < typo_rate_ * 2 * noise) add_typo(sentence, 0, stream);
  if (!out.empty()) out += ' ';
  out += sentence;
}

void add_typo(std::string& text, std::size_t from, RandomStream& stream) {
  if (text.size() < from + 4) return;
  const std::size_t at = from + stream.below(text.size() - from);
  std::size_t begin = at;
  std::size_t end = at;
  while (begin > from && is_letter(text[begin - 1])) --begin;
  while (end < text.size() && is_letter(text[end])) ++end;
  if (end - begin < 4) return;
  const std::size_t inside = begin + 1 + stream.below(end - begin - 2);
  switch (stream.below(3)) {
    case 0:
      std::swap(text[inside], text[inside + 1]);
      break;
    case 1:
      text.erase(inside, 1);
      break;
    default:
      text.insert(inside, 1, text[inside]);
  }
}

}  // namespace chorus::inline synthetic
