#include "application/metrics/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/metrics/porter_stemmer.h"
#include "application/metrics/rouge.h"

namespace chorus::inline metrics {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// All expected values are Python 3.11's.
TEST(PythonText, LowersAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"ABC xyz 1", "abc xyz 1"},
                                                       {"ÀÉ", "àé"},
                                                       {"İ", "i\u0307"},
                                                       {"STRASSE \u1E9E", "strasse ß"},
                                                       {"\u01C5", "\u01C6"},
                                                       {"\u2167", "\u2177"},
                                                       // A capital sigma at the end of a word, and elsewhere.
                                                       {"ΑΣ ΣΑΣ Σ ΑΣΑ ΑΣ.", "ας σας σ ασα ας."},
                                                       {"ΟΔΟΣ's", "οδοσ's"},
                                                       {"A\u0301Σ", "a\u0301ς"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(python_text::lower(text), expected);
}

TEST(PythonText, SplitsAtPythonsWhiteSpace) {
  using python_text::split;
  EXPECT_THAT(split("a b"), ElementsAre("a", "b"));
  EXPECT_THAT(split(" a\u00A0b\u2003c "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split("a\u200Bb"), ElementsAre("a\u200Bb")) << "a zero-width space is none";
  EXPECT_THAT(split("\x1C\x1D"
                    "a\x1E\x1F"
                    "b"),
              ElementsAre("a", "b"));
  EXPECT_THAT(split("x\u0085y\u180Ez"), ElementsAre("x", "y\u180Ez"));
  EXPECT_THAT(split("\u3000"), IsEmpty());
  EXPECT_THAT(split(""), IsEmpty());
}

TEST(PythonText, ClassesOfCharacters) {
  // len([c for c in range(0x110000) if chr(c).isspace()])
  std::size_t spaces = 0;
  for (char32_t code = 0; code < 0x110000; ++code) spaces += python_text::is_space(code) ? 1 : 0;
  EXPECT_EQ(spaces, 29U);
  // [c for c in ... if re.match(r'\w', chr(c))]
  for (const char32_t code : {0x5F, 0x61, 0xB2, 0x2167, 0xBC, 0x4E2D, 0xAA}) EXPECT_TRUE(python_text::is_word(code));
  for (const char32_t code : {0x301, 0x903, 0x2D, 0x20, 0x200D, 0x1F600}) EXPECT_FALSE(python_text::is_word(code));
}

// NLTK 3.9, PorterStemmer().stem(word): Porter's own examples for each of his rules, and NLTK's irregular ones.
TEST(Porter, StemsAsNltkDoes) {
  const std::pair<const char*, const char*> cases[] = {{"caresses", "caress"},
                                                       {"ponies", "poni"},
                                                       {"ties", "tie"},
                                                       {"caress", "caress"},
                                                       {"cats", "cat"},
                                                       {"feed", "feed"},
                                                       {"agreed", "agre"},
                                                       {"plastered", "plaster"},
                                                       {"bled", "bled"},
                                                       {"motoring", "motor"},
                                                       {"sing", "sing"},
                                                       {"conflated", "conflat"},
                                                       {"troubled", "troubl"},
                                                       {"sized", "size"},
                                                       {"hopping", "hop"},
                                                       {"tanned", "tan"},
                                                       {"falling", "fall"},
                                                       {"hissing", "hiss"},
                                                       {"fizzed", "fizz"},
                                                       {"failing", "fail"},
                                                       {"filing", "file"},
                                                       {"happy", "happi"},
                                                       {"sky", "sky"},
                                                       {"relational", "relat"},
                                                       {"conditional", "condit"},
                                                       {"rational", "ration"},
                                                       {"valenci", "valenc"},
                                                       {"hesitanci", "hesit"},
                                                       {"digitizer", "digit"},
                                                       {"conformabli", "conform"},
                                                       {"radicalli", "radic"},
                                                       {"differentli", "differ"},
                                                       {"vileli", "vile"},
                                                       {"analogousli", "analog"},
                                                       {"vietnamization", "vietnam"},
                                                       {"predication", "predic"},
                                                       {"operator", "oper"},
                                                       {"feudalism", "feudal"},
                                                       {"decisiveness", "decis"},
                                                       {"hopefulness", "hope"},
                                                       {"callousness", "callous"},
                                                       {"formaliti", "formal"},
                                                       {"sensitiviti", "sensit"},
                                                       {"sensibiliti", "sensibl"},
                                                       {"triplicate", "triplic"},
                                                       {"formative", "form"},
                                                       {"formalize", "formal"},
                                                       {"electriciti", "electr"},
                                                       {"electrical", "electr"},
                                                       {"hopeful", "hope"},
                                                       {"goodness", "good"},
                                                       {"revival", "reviv"},
                                                       {"allowance", "allow"},
                                                       {"inference", "infer"},
                                                       {"airliner", "airlin"},
                                                       {"gyroscopic", "gyroscop"},
                                                       {"adjustable", "adjust"},
                                                       {"defensible", "defens"},
                                                       {"irritant", "irrit"},
                                                       {"replacement", "replac"},
                                                       {"adjustment", "adjust"},
                                                       {"dependent", "depend"},
                                                       {"adoption", "adopt"},
                                                       {"homologou", "homolog"},
                                                       {"communism", "commun"},
                                                       {"activate", "activ"},
                                                       {"angulariti", "angular"},
                                                       {"homologous", "homolog"},
                                                       {"effective", "effect"},
                                                       {"bowdlerize", "bowdler"},
                                                       {"probate", "probat"},
                                                       {"rate", "rate"},
                                                       {"cease", "ceas"},
                                                       {"controll", "control"},
                                                       {"roll", "roll"},
                                                       {"generalizations", "gener"},
                                                       {"oscillators", "oscil"},
                                                       {"dying", "die"},
                                                       {"lying", "lie"},
                                                       {"news", "news"},
                                                       {"innings", "inning"},
                                                       {"skies", "sky"},
                                                       {"die", "die"},
                                                       {"dies", "die"},
                                                       {"happily", "happili"},
                                                       {"enjoying", "enjoy"},
                                                       {"spied", "spi"},
                                                       {"spy", "spi"},
                                                       {"flies", "fli"},
                                                       {"by", "by"},
                                                       {"as", "as"},
                                                       {"oed", "o"},
                                                       {"being", "be"},
                                                       {"university", "univers"},
                                                       {"universe", "univers"}};
  for (const auto& [word, stem] : cases) EXPECT_EQ(porter_stem(word), stem) << word;
}

TEST(Rouge, TokensAreAsciiWords) {
  EXPECT_THAT(rouge_tokens("It's 3.14, Ünïcode!", false), ElementsAre("it", "s", "3", "14", "n", "code"));
  EXPECT_THAT(rouge_tokens("The flies were flying", true), ElementsAre("the", "fli", "were", "fli"));
  EXPECT_THAT(rouge_tokens("the news dies", true), ElementsAre("the", "news", "die"))
      << "words of three letters and less are not stemmed";
  EXPECT_THAT(rouge_tokens("…", false), IsEmpty());
}

TEST(Rouge, MeansOfBatchMeansAreNotMeans) {
  EXPECT_DOUBLE_EQ(mean_of_batch_means(std::vector<double>{1, 2, 3, 4, 10}, 2), (1.5 + 3.5 + 10) / 3);
  EXPECT_DOUBLE_EQ(mean_of_batch_means(std::vector<double>{1, 2, 3}, 10), 2);
  EXPECT_TRUE(std::isnan(mean_of_batch_means({}, 4)));
}

}  // namespace
}  // namespace chorus::inline metrics
