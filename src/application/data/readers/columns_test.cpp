#include "application/data/readers/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/data/readers/answers.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline readers {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// "formulation role=column ..." of the roles that were found.
std::string roles_text(const ColumnRoles& roles) {
  constexpr const char* kNames[] = {"id",   "text",    "second", "label",  "score", "words",
                                    "tags", "answers", "client", "source", "time"};
  std::string text = name_of(roles.formulation);
  for (std::size_t role = 0; role < kRoles; ++role) {
    if (!roles.names[role].empty()) text += fmt::format(" {}={}", kNames[role], fmt::join(roles.names[role], "+"));
  }
  return text;
}

TEST(Columns, UsualNamesSayWhatAFileAsks) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"text"}, "language_model text=text"},
      {{"text", "label"}, "text_classification text=text label=label"},
      {{"Sentence", "LABEL", "idx"}, "text_classification id=idx text=Sentence label=LABEL"},
      {{"sentence1", "sentence2", "label"}, "pair_classification text=sentence1 second=sentence2 label=label"},
      {{"premise", "hypothesis", "gold_label"}, "pair_classification text=premise second=hypothesis label=gold_label"},
      {{"sentence1", "sentence2", "score"}, "pair_regression text=sentence1 second=sentence2 score=score"},
      {{"tokens", "ner_tags", "id"}, "seq_tagging id=id words=tokens tags=ner_tags"},
      {{"context", "question", "answers"}, "span_extraction text=context second=question answers=answers"},
      {{"document", "summary"}, "seq2seq text=document second=summary"},
      {{"source", "target"}, "seq2seq text=source second=target"},
      {{"text", "target"}, "seq2seq text=text second=target"},  // a text, unless a label is there
      {{"text", "target", "label"}, "text_classification text=text label=label"},
      {{"body", "subreddit", "author", "created_utc"},
       "language_model text=body client=author source=subreddit time=created_utc"},
      {{"tweet", "sentiment", "user_id", "date"},
       "text_classification text=tweet label=sentiment client=user_id time=date"},
      {{"text", "Text", "label"}, "text_classification text=text label=label"},  // the exact spelling first
      {{"text", "unknown"}, "language_model text=text"}};
  for (const auto& [available, expected] : cases) {
    EXPECT_EQ(roles_text(find_roles({}, available, "f:1")), expected) << fmt::format("{}", fmt::join(available, ","));
  }
}

TEST(Columns, ConfiguredNamesComeFirst) {
  ReaderOptions options;
  options.columns.text = "b";
  options.columns.label = "a";
  EXPECT_EQ(roles_text(find_roles(options, {"a", "b", "text", "label"}, "f:1")), "text_classification text=b label=a");
  options.columns.text = "title+body";
  EXPECT_EQ(roles_text(find_roles(options, {"a", "title", "body"}, "f:1")),
            "text_classification text=title+body label=a");
  options.columns.text = "x+y";
  EXPECT_EQ(roles_text(find_roles(options, {"x+y", "x", "a"}, "f:1")), "text_classification text=x+y label=a")
      << "a column may have a plus in its name";
  options.columns = {};
  options.columns.client = "none";
  EXPECT_EQ(roles_text(find_roles(options, {"text", "client"}, "f:1")), "language_model text=text");
  options.columns = {};
  options.formulation = Formulation::kLanguageModel;
  EXPECT_EQ(roles_text(find_roles(options, {"text", "label"}, "f:1")), "language_model text=text");
  options.formulation = Formulation::kPairRegression;
  EXPECT_EQ(roles_text(find_roles(options, {"sentence1", "sentence2", "label"}, "f:1")),
            "pair_regression text=sentence1 second=sentence2 score=label");
}

TEST(Columns, WhatIsMissingIsNamed) {
  ReaderOptions options;
  options.columns.text = "body+titel";
  EXPECT_THAT(message_of<DataError>([&] {
                (void)find_roles(options, {"title", "body"}, "f.csv:1");
              }),
              AllOf(HasSubstr("f.csv:1"), HasSubstr("'titel' (for text)"), HasSubstr("title, body")));
  EXPECT_THAT(message_of<DataError>([&] {
                (void)find_roles({}, {"x", "y"}, "f.csv:1");
              }),
              AllOf(HasSubstr("the text of language_model"), HasSubstr("x, y"), HasSubstr("columns.text=NAME")));
  options = {};
  options.formulation = Formulation::kSeq2Seq;
  EXPECT_THAT(message_of<DataError>([&] { (void)find_roles(options, {"text"}, "f"); }),
              HasSubstr("columns.second=NAME"));
}

TEST(Columns, HeadersAreToldFromData) {
  for (const char* name : {"text", "Sentence1", "ID", "#1 String", "is_duplicate"}) EXPECT_TRUE(is_usual_name(name));
  for (const char* name : {"", "hello", "texts", "1"}) EXPECT_FALSE(is_usual_name(name));
}

GoldAnswer answer_at(std::string text, std::int64_t begin) { return {std::move(text), begin, -7}; }

TEST(Answers, OffsetsAreCodePoints) {
  AnswerAligner aligner(Misaligned::kError);
  ReadReport report;
  aligner.set_context("Größe: 中文 text");
  GoldAnswer answer = answer_at("中文", 7);
  ASSERT_TRUE(aligner.align(answer, report, "f:1"));
  EXPECT_EQ(answer.end, 9);
  answer = answer_at("text", 10);
  ASSERT_TRUE(aligner.align(answer, report, "f:1"));
  EXPECT_EQ(answer.end, 14);
  EXPECT_EQ(report.misaligned, 0U);
  for (const auto& [text, begin] :
       {std::pair("text", 9), std::pair("text", -1), std::pair("text", 99), std::pair("", 0)}) {
    GoldAnswer bad = answer_at(text, begin);
    EXPECT_THAT(message_of<DataError>([&] { (void)aligner.align(bad, report, "f:3"); }), HasSubstr("f:3")) << begin;
  }
}

TEST(Answers, AreMovedToTheNearestOccurrence) {
  AnswerAligner aligner(Misaligned::kRealign);
  aligner.set_context("abc é abc é abc");
  struct Case {
    const char* text;
    std::int64_t begin, expected;  // -1: dropped
  };
  const Case cases[] = {{"abc", 1, 0},     {"abc", 5, 6},  {"abc", 14, 12}, {"abc", -50, 0}, {"abc", 500, 12},
                        {"  abc\n", 7, 6}, {"xyz", 0, -1}, {"", 3, -1},     {"  ", 3, -1},   {"é", 11, 10}};
  ReadReport report;
  std::size_t dropped = 0;
  for (const Case& one : cases) {
    GoldAnswer answer = answer_at(one.text, one.begin);
    const bool kept = aligner.align(answer, report, "f:1");
    EXPECT_EQ(kept, one.expected >= 0) << one.text;
    dropped += kept ? 0 : 1;
    if (kept) {
      EXPECT_EQ(answer.begin, one.expected) << one.text << one.begin;
      EXPECT_EQ(answer.end - answer.begin, answer.text == "é" ? 1 : 3);
      EXPECT_EQ(answer.text.find(' '), std::string::npos) << "white space around it is dropped";
    }
  }
  EXPECT_EQ(report.misaligned, std::size(cases));
  EXPECT_EQ(report.unaligned, dropped);
  EXPECT_EQ(report.realigned, std::size(cases) - dropped);
  const AnswerAligner skips(Misaligned::kSkip);
  GoldAnswer answer = answer_at("abc", 1);
  EXPECT_FALSE(skips.align(answer, report, "f:1"));
}

}  // namespace
}  // namespace chorus::inline readers
