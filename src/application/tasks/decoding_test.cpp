// From confident logits back to the gold, windows, and masks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "application/models/loss.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/masked_lm_task.h"
#include "application/tasks/span_task.h"
#include "application/tasks/span_windows.h"
#include "application/tasks/tagging_task.h"
#include "application/tasks/tiny_world_test.h"
#include "application/text/vocabulary_trainer.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline tasks {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const EncodeConfig kNoCache{.cache = "none"};

TaskBatch whole(const Task& task, const EncodedDataset& encoded, std::vector<std::uint32_t>& rows) {
  rows.clear();
  for (std::uint32_t row = 0; row < encoded.rows(); ++row) rows.push_back(row);
  const std::vector<ClientRows> cohort{{&encoded, rows}};
  return task.collate(cohort);
}

TEST(Tagging, FirstPieceCarriesTheTag) {
  DatasetBuilder builder({.formulation = Formulation::kSequenceTagging});
  Record r;
  r.words = {"paris", "unbelievable", "\u200b", "paris"};
  r.tags = {"B-LOC", "O", "I-LOC", "B-LOC"};
  builder.add(r, Split::kTrain);
  const Dataset data = std::move(builder).finish();
  text::VocabularyTrainer trainer(text::ModelSpec::Kind::kWordPiece, {.vocabulary_size = 60, .min_frequency = 5});
  for (int i = 0; i < 9; ++i) trainer.add("paris");
  trainer.add("unbelievable");
  const auto tokenizer = std::make_shared<Tokenizer>(trainer.train());
  const TaggingTask task({.max_length = 64}, TaskInput::of(data, tokenizer));
  const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
  const auto words = encoded->words(0);
  const auto tags = encoded->tags(0);
  std::map<std::int32_t, std::vector<std::int32_t>> of_word;
  for (std::size_t i = 0; i < words.size(); ++i) of_word[words[i]].push_back(tags[i]);
  EXPECT_THAT(of_word[-1], ElementsAre(kIgnore, kIgnore));  // [CLS], [SEP]
  EXPECT_THAT(of_word[0], ElementsAre(0));
  ASSERT_GT(of_word[1].size(), 3U);
  EXPECT_EQ(of_word[1][0], 1);
  for (std::size_t i = 1; i < of_word[1].size(); ++i) EXPECT_EQ(of_word[1][i], kIgnore);
  EXPECT_FALSE(of_word.contains(2));  // a word that the tokenizer drops
  EXPECT_EQ(encoded->count(EncodeCount::kLostWords), 1U);

  const TaggingTask all({.max_length = 64, .label_all_pieces = true}, TaskInput::of(data, tokenizer));
  EXPECT_NE(all.encoding_key(), task.encoding_key());
  const auto everywhere = encode_split(all, data, Split::kTrain, kNoCache).data;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == 1) {
      EXPECT_EQ(everywhere->tags(0)[i], 1);
    }
  }
}

TEST(Tagging, SureLogitsGiveTheGoldAndLostWordsAreO) {
  const Dataset data = tiny::dataset(Formulation::kSequenceTagging, 20, 0);
  const auto tokenizer = tiny::tokenizer(data);
  for (const std::int64_t length : {64, 5}) {
    for (const bool drop : {false, true}) {
      const TaggingTask task({.max_length = length, .fednlp_drop_lost_words = drop}, TaskInput::of(data, tokenizer));
      const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
      std::vector<std::uint32_t> rows;
      const TaskBatch batch = whole(task, *encoded, rows);
      const auto classes = static_cast<std::int64_t>(task.labels().size());
      const at::Tensor logits = torch::one_hot(batch.labels.clamp_min(0), classes).to(at::kFloat) * 9;
      const auto answers = task.decode({logits, {}}, batch, data);
      ASSERT_EQ(answers.size(), 20U);
      const auto metric = task.metric(Keep::kTotals);
      std::uint64_t lost = 0;
      for (const Prediction& answer : answers) {
        ASSERT_EQ(answer.tags.size(), data.words(answer.example).size());
        const auto gold = data.tag_ids(answer.example);
        for (std::size_t w = 0; w < gold.size(); ++w) {
          if (answer.tags[w] < 0) ++lost;
          if (answer.tags[w] >= 0) {
            EXPECT_EQ(answer.tags[w], gold[w]);
          }
        }
        task.score(answer, data, *metric);
      }
      EXPECT_EQ(lost, encoded->count(EncodeCount::kLostWords));
      EXPECT_EQ(lost > 0, length == 5);
      const double f1 = metric->scores().at("f1");
      if (length == 64 || drop) {
        EXPECT_DOUBLE_EQ(f1, 1);
      } else {
        EXPECT_LT(f1, 1);  // words cut off at sentences' ends count as missed
      }
    }
  }
}

TEST(Span, WindowsCoverEveryTokenAndGoldsMapBack) {
  const Dataset data = tiny::dataset(Formulation::kSpanExtraction, 40, 0);
  const auto tokenizer = tiny::tokenizer(data);
  for (const std::int64_t stride : {3, 6, 100}) {
    const std::int64_t length = stride == 100 ? 101 : 18;
    const SpanTask task({.max_length = length, .doc_stride = stride, .max_query_length = 8}, {.tokenizer = tokenizer});
    const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
    EXPECT_EQ(encoded->rows() > 40, stride != 100);
    EXPECT_EQ(encoded->count(EncodeCount::kInexactAnswers), 0U);
    EXPECT_EQ(encoded->count(EncodeCount::kLostAnswers), 0U);
    std::vector<std::uint32_t> rows;
    const TaskBatch batch = whole(task, *encoded, rows);
    // Confident of the gold; windows without it have uniform logits.
    at::Tensor logits = torch::zeros({1, static_cast<std::int64_t>(encoded->tokens()), 2});
    std::int64_t at = 0;
    for (const std::uint32_t row : rows) {
      const auto [start, end] = encoded->answer(row);
      EXPECT_LE(encoded->length(row), static_cast<std::size_t>(length));
      if (start > 0) {
        logits[0][at + start][0] = 9;
        logits[0][at + end][1] = 9;
      }
      at += static_cast<std::int64_t>(encoded->length(row));
    }
    const auto answers = task.decode({logits, {}}, batch, data);
    ASSERT_EQ(answers.size(), 40U);
    const auto metric = task.metric(Keep::kTotals);
    for (const Prediction& answer : answers) {
      const Example example = data.at(answer.example);
      EXPECT_EQ(answer.text, example.answers[0].text);
      EXPECT_EQ(answer.answers[0].begin, example.answers[0].begin);
      EXPECT_EQ(answer.answers[0].end, example.answers[0].end);
      EXPECT_EQ(utf8::slice(example.text, answer.answers[0].begin, answer.answers[0].end), answer.text);
      EXPECT_LE(answer.answers.size(), 20U);
      task.score(answer, data, *metric);

      // Every token of the context is in at least one window.
      const Encoding context = tokenizer->encode(example.text, {.special_tokens = false});
      std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
      const auto [first, behind] = encoded->rows_of(answer.example);
      for (std::uint32_t row = first; row < behind; ++row) {
        const auto [from, to] = encoded->context(row);
        for (std::uint32_t i = from; i < to; ++i) {
          seen.insert({encoded->char_begin(row)[i], encoded->char_end(row)[i]});
        }
      }
      for (const TextSpan span : context.offsets) EXPECT_TRUE(seen.contains({span.begin, span.end}));
    }
    EXPECT_DOUBLE_EQ(metric->scores().at("exact_match"), 1);
  }
}

TEST(Span, CandidatesAreInOrderShortAndMayBeNothing) {
  DatasetBuilder builder({.formulation = Formulation::kSpanExtraction});
  Record r;
  r.text = "goal team ball match player goal";
  r.second = "ball";
  r.answers = {{"team", 5, 9}};
  builder.add(r, Split::kTrain);
  const Dataset data = std::move(builder).finish();
  const auto tokenizer = tiny::tokenizer(tiny::dataset(Formulation::kTextClassification));
  const auto decode = [&](const SpanConfig& config, const std::vector<std::array<float, 3>>& changes) {
    const SpanTask task(config, {.tokenizer = tokenizer});
    const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
    std::vector<std::uint32_t> rows;
    const TaskBatch batch = whole(task, *encoded, rows);
    at::Tensor logits = torch::zeros({1, static_cast<std::int64_t>(encoded->tokens()), 2});
    const auto base = encoded->context(0).first;
    for (const auto& [place, which, value] : changes) {
      logits[0][place < 0 ? 0 : static_cast<std::int64_t>(base) + static_cast<std::int64_t>(place)]
            [static_cast<std::int64_t>(which)] = value;
    }
    return task.decode({logits, {}}, batch, data)[0];
  };
  // An end before the start is not an answer: the best ordered pair wins.
  const Prediction ordered = decode({}, {{3, 0, 9}, {1, 1, 8}, {4, 1, 5}, {0, 0, 2}});
  EXPECT_EQ(ordered.text, "match player");
  EXPECT_NEAR(ordered.answers[0].score, 14, 1e-6);
  double sum = 0;
  for (std::size_t i = 0; i < ordered.answers.size(); ++i) {
    sum += ordered.answers[i].probability;
    if (i > 0) {
      EXPECT_LE(ordered.answers[i].score, ordered.answers[i - 1].score);
    }
  }
  EXPECT_NEAR(sum, 1, 1e-9);
  // Too long.
  EXPECT_EQ(decode({.max_answer_length = 2}, {{0, 0, 9}, {5, 1, 9}, {1, 1, 5}}).text, "goal team");
  // [CLS] is an answer only if "no answer" is allowed.
  const std::vector<std::array<float, 3>> silent{{-1, 0, 9}, {-1, 1, 9}, {1, 0, 3}, {1, 1, 3}};
  EXPECT_EQ(decode({}, silent).text, "team");
  EXPECT_EQ(decode({.no_answer = true}, silent).text, "");
  EXPECT_EQ(decode({.no_answer = true, .no_answer_threshold = 20}, silent).text, "team");
}

TEST(Span, OddQuestionsAndContexts) {
  const auto tokenizer = tiny::tokenizer(tiny::dataset(Formulation::kTextClassification));
  const auto windows = [&](const char* question, const char* context, const WindowOptions& options,
                           std::optional<AnswerView> answer = {}) {
    EncodedPart part;
    append_windows(*tokenizer, question, context, answer, options, part);
    return part;
  };
  // A context without tokens is still a row; so is an empty question.
  EXPECT_EQ(windows("ball", "", {}).row_end.size(), 1U);
  EXPECT_EQ(windows("", "ball", {}).row_end.size(), 1U);
  // The question is truncated.
  const EncodedPart cut = windows("ball team ball team ball", "goal", {.max_query_length = 2});
  EXPECT_EQ(cut.ids.size(), 3U + 2U + 1U);
  EXPECT_EQ(cut.context_begin[0], 4U);
  // No room left for the context.
  EXPECT_THROW(windows("ball team ball team ball", "goal", {.max_length = 8}), ConfigError);
  // An answer inside a token is counted, and so is one that no window holds.
  EXPECT_EQ(windows("ball", "goal team", {}, AnswerView{"oal", 1, 4}).counts[3], 1U);
  const EncodedPart lost = windows("ball", "goal team ball match", {.max_length = 6, .doc_stride = 1},
                                   AnswerView{"goal team ball match", 0, 20});
  EXPECT_EQ(lost.counts[2], 1U);
  for (const std::int32_t start : lost.starts) EXPECT_EQ(start, 0);
  const EncodedPart ignored = windows("ball", "goal team ball match",
                                      {.max_length = 6, .doc_stride = 1, .ask_cls = false}, AnswerView{"goal", 0, 4});
  EXPECT_EQ(ignored.starts[0], 3);
  EXPECT_EQ(ignored.starts[1], kIgnore);
  // FedNLP's stride skips tokens; no other does.
  EXPECT_EQ(windows("ball", "goal team ball match", {.max_length = 6, .doc_stride = 3}).row_end.size(), 2U);
  const EncodedPart skipped =
      windows("ball", "goal team ball match", {.max_length = 6, .doc_stride = 3, .skip_tokens = true});
  EXPECT_EQ(skipped.row_end.size(), 2U);
  EXPECT_EQ(skipped.char_begin[6 + 3], 15U);
  EXPECT_THROW(SpanTask({.max_length = 32, .doc_stride = 32}, {.tokenizer = tokenizer}), ConfigError);
}

TEST(MaskedLm, ChoosesAsBertDoes) {
  const Dataset data = tiny::dataset(Formulation::kLanguageModel, 400, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const MaskedLmTask task({}, {.tokenizer = tokenizer});
  const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < encoded->rows(); ++row) rows.push_back(row);
  double ordinary = 0, chosen = 0, masked = 0, kept = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    const std::vector<ClientRows> cohort{{encoded.get(), rows}};
    const TaskBatch batch = task.collate(cohort, {.seed = 4, .round = round});
    std::vector<std::int32_t> original;
    for (const std::uint32_t row : rows) {
      original.insert(original.end(), encoded->ids(row).begin(), encoded->ids(row).end());
    }
    const auto* ids = batch.batch.ids.data_ptr<std::int64_t>();
    std::vector<bool> asked(original.size(), false);
    for (std::int64_t m = 0; m < batch.labels.size(1); ++m) {
      const auto column = static_cast<std::size_t>(batch.batch.wanted[0][m].item<std::int64_t>());
      EXPECT_EQ(batch.labels[0][m].item<std::int64_t>(), original[column]);
      EXPECT_FALSE(tokenizer->is_special(original[column]));
      asked[column] = true;
      chosen += 1;
      masked += ids[column] == *tokenizer->special().mask ? 1 : 0;
      kept += ids[column] == original[column] ? 1 : 0;
    }
    for (std::size_t i = 0; i < original.size(); ++i) {
      if (!asked[i]) {
        EXPECT_EQ(ids[i], original[i]);
      }
      ordinary += tokenizer->is_special(original[i]) ? 0 : 1;
    }
  }
  // Three standard deviations.
  const auto near = [](double share, double of, double probability) {
    EXPECT_NEAR(share / of, probability, 3 * std::sqrt(probability * (1 - probability) / of));
  };
  near(chosen, ordinary, 0.15);
  near(masked, chosen, 0.8);
  EXPECT_NEAR(kept / chosen, 0.1, 0.03);  // and now and then a token is replaced by itself
}

TEST(MaskedLm, TheSameBatchWhoeverAsks) {
  const Dataset data = tiny::dataset(Formulation::kLanguageModel, 30, 0);
  const auto tokenizer = tiny::tokenizer(data);
  const MaskedLmTask task({.mask_probability = 0.4}, {.tokenizer = tokenizer});
  const auto encoded = encode_split(task, data, Split::kTrain, kNoCache).data;
  const std::vector<std::uint32_t> a{3, 4, 5}, b{9, 10}, b_alone{10};
  const std::vector<ClientRows> both{{encoded.get(), a, 7}, {encoded.get(), b, 8}}, one{{encoded.get(), b, 8}},
      single{{encoded.get(), b_alone, 8}}, other{{encoded.get(), b, 9}};
  const CollateOptions options{.seed = 1, .round = 2, .epoch = 3};
  const auto ids = [&](const std::vector<ClientRows>& cohort, std::int64_t client, const CollateOptions& how) {
    const TaskBatch batch = task.collate(cohort, how);
    std::int64_t size = 0;
    for (const std::int64_t length : batch.batch.packing->lengths()[static_cast<std::size_t>(client)]) size += length;
    return batch.batch.ids[client].narrow(0, 0, size).clone();
  };
  const at::Tensor expected = ids(one, 0, options);
  EXPECT_TRUE(ids(both, 1, options).equal(expected));
  const auto last = static_cast<std::int64_t>(encoded->length(10));
  EXPECT_TRUE(ids(single, 0, options).equal(expected.narrow(0, expected.size(0) - last, last)));
  EXPECT_FALSE(ids(other, 0, options).equal(expected));
  EXPECT_FALSE(ids(one, 0, {.seed = 2, .round = 2, .epoch = 3}).equal(expected));
  EXPECT_FALSE(ids(one, 0, {.seed = 1, .round = 1, .epoch = 3}).equal(expected));
  EXPECT_FALSE(ids(one, 0, {.seed = 1, .round = 2, .epoch = 4}).equal(expected));
}

}  // namespace
}  // namespace chorus::inline tasks
