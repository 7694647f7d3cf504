#include "application/text/vocabulary_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "application/text/tokenizer.h"
#include "core/base/error.h"

namespace chorus::inline text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenizerSpec train(ModelSpec::Kind kind, TrainerOptions options, const std::vector<std::string>& lines) {
  VocabularyTrainer trainer(kind, options);
  for (const auto& line : lines) trainer.add(line);
  return trainer.train();
}

// Counts: hug 10, pug 5, pun 12, bun 4, hugs 5 (the worked example of Hugging Face's course on byte-pair encoding,
// chapter 6.5): the merges are u g, u n, h ug, with counts 20, 16, 15.
std::vector<std::string> course_corpus() {
  std::vector<std::string> lines;
  for (const auto& [word, count] :
       std::vector<std::pair<std::string, int>>{{"hug", 10}, {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}}) {
    for (int i = 0; i < count; ++i) lines.push_back(word);
  }
  return lines;
}

TEST(VocabularyTrainer, LearnsTheMergesOfTheWorkedExample) {
  const auto spec = train(ModelSpec::Kind::kBpe, {.vocabulary_size = 260, .min_frequency = 1}, course_corpus());
  const auto name = [&](std::int32_t id) { return spec.model.tokens[static_cast<std::size_t>(id)]; };
  std::vector<std::string> merges;
  for (const auto& m : spec.model.merges) merges.push_back(name(m.left) + " " + name(m.right));
  EXPECT_THAT(merges, ElementsAre("u g", "u n", "h ug"));
  const Tokenizer tokenizer(spec);
  EXPECT_THAT(tokenizer.tokens(tokenizer.encode("bug hug")), ElementsAre("b", "ug", "Ġ", "hug"));
}

TEST(VocabularyTrainer, LearnsWordPieces) {
  const auto spec = train(ModelSpec::Kind::kWordPiece, {.vocabulary_size = 100, .min_frequency = 1}, course_corpus());
  const Tokenizer tokenizer(spec);
  EXPECT_THAT(tokenizer.tokens(tokenizer.encode("Hugs pun bug")),
              ElementsAre("[CLS]", "hugs", "pun", "b", "##ug", "[SEP]"));
  EXPECT_THAT(tokenizer.tokens(tokenizer.encode("xyz")), ElementsAre("[CLS]", "[UNK]", "[SEP]"));
}

TEST(VocabularyTrainer, DoesNotDependOnTheOrderOfTheText) {
  auto lines = course_corpus();
  lines.push_back(
      "Gr\xC3\xBC\xC3\x9F"
      "e aus M\xC3\xBCnchen, wo die Brezn gr\xC3\xBC\xC3\x9F"
      "en; broken \xFF bytes too");
  for (const auto kind : {ModelSpec::Kind::kBpe, ModelSpec::Kind::kWordPiece}) {
    const auto one = train(kind, {.vocabulary_size = 300, .min_frequency = 1}, lines);
    std::reverse(lines.begin(), lines.end());
    EXPECT_EQ(fingerprint_of(one), fingerprint_of(train(kind, {.vocabulary_size = 300, .min_frequency = 1}, lines)));
  }
}

TEST(VocabularyTrainer, KeepsToTheSizeAndRoundTrips) {
  const std::vector<std::string> lines(3, "federated clients never share their text, they share what they learnt");
  const auto spec = train(ModelSpec::Kind::kBpe, {.vocabulary_size = 280}, lines);
  EXPECT_EQ(spec.model.tokens.size(), 280u);
  const Tokenizer tokenizer(spec);
  const std::string text = "never  seen: \xF0\x9F\xA6\x99 & \xE5\x8C\x97\xE4\xBA\xAC\n";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
}

TEST(VocabularyTrainer, RefusesWhatCannotWork) {
  const auto error_of = [](auto action) -> std::string {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of([] { VocabularyTrainer(ModelSpec::Kind::kBpe, {.vocabulary_size = 100}); }),
              HasSubstr("a vocabulary of 100 tokens cannot be trained"));
  EXPECT_THAT(error_of([] { train(ModelSpec::Kind::kWordPiece, {}, {"", "  "}); }), HasSubstr("no word in the text"));
}

}  // namespace
}  // namespace chorus::inline text
