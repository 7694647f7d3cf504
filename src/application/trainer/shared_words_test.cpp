#include "application/trainer/shared_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/data/dataset_builder.h"
#include "application/models/loss.h"
#include "application/tasks/causal_lm_task.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/masked_lm_task.h"
#include "application/tasks/tiny_world_test.h"
#include "core/base/error.h"

namespace chorus::inline trainer {
namespace {

using testing::ElementsAre;
using testing::Eq;

Dataset texts_of(const std::vector<std::string>& texts) {
  DatasetBuilder builder({.formulation = Formulation::kLanguageModel, .empty = EmptyText::kKeep});
  for (const std::string& text : texts) {
    Record record;
    record.text = text;
    builder.add(record, Split::kTrain);
  }
  return std::move(builder).finish();
}

const std::vector<std::string> kTexts{"The cat sat on the mat.", "A dog, the cat and THE bird", "unlikely"};

/// The words of a vocabulary are those that occur twice in the texts it was learnt from, so copies make it coarse.
enum class Pieces { kFine, kCoarse };
std::shared_ptr<const Tokenizer> tokenizer_of(Pieces pieces) {
  std::vector<std::string> texts = kTexts;
  if (pieces == Pieces::kCoarse) texts.insert(texts.end(), kTexts.begin(), kTexts.end());
  return tiny::tokenizer(texts_of(texts));
}

/// A task's view of some public texts.
struct View {
  View(const Dataset& data, bool masked, Pieces pieces) : tokenizer(tokenizer_of(pieces)) {
    if (masked) {
      task = std::make_unique<MaskedLmTask>(MaskedLmConfig{.max_length = 64}, TaskInput{tokenizer});
    } else {
      task = std::make_unique<CausalLmTask>(CausalLmConfig{.max_length = 64}, TaskInput{tokenizer});
    }
    set =
        task->client_data(encode_split(*task, data, Split::kTrain, {.cache = "none"}).data, data.split(Split::kTrain));
  }
  std::vector<ClientRows> cohort(std::span<const std::uint32_t> rows) {
    chosen.clear();
    for (const std::uint32_t row : rows) chosen.push_back(set.rows[row]);
    return {{set.data.get(), chosen, 0}, {set.data.get(), chosen, 1}};
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Task> task;
  ClientData set;
  std::vector<std::uint32_t> chosen;
};

TEST(SharedWords, WordsBeginWithLettersOrOneSign) {
  const std::vector<TextWord> words = words_of(" The  caf\xC3\xA9's (end) 3rd");
  ASSERT_EQ(words.size(), 4U);
  EXPECT_THAT(words[0].beginning, Eq("the"));
  EXPECT_THAT(words[1].beginning, Eq("caf\xC3\xA9"));
  EXPECT_THAT(words[1].begin, Eq(6U));
  EXPECT_THAT(words[1].end, Eq(12U)) << "code points, not bytes";
  EXPECT_THAT(words[2].beginning, Eq("("));
  EXPECT_THAT(words[3].beginning, Eq("3rd"));
  EXPECT_TRUE(words_of("  ").empty());
}

TEST(SharedWords, TokenizersAgreeOnClassesAndPlaces) {
  const Dataset data = texts_of(kTexts);
  for (const bool masked : {false, true}) {
    View coarse(data, masked, Pieces::kCoarse), fine(data, masked, Pieces::kFine);
    ASSERT_NE(coarse.set.data->tokens(), fine.set.data->tokens()) << "the tokenizers should differ";
    const SharedWords one({*coarse.task, data, coarse.set, 6}), other({*fine.task, data, fine.set, 6});
    EXPECT_THAT(one.counts(), Eq(other.counts()));
    ASSERT_EQ(one.classes(), 6);
    EXPECT_THAT(one.name(1), Eq("the"));
    EXPECT_THAT(one.name(2), Eq("cat"));
    for (std::int64_t c = 0; c < 6; ++c) EXPECT_EQ(one.name(c), other.name(c));
    if (masked) {
      EXPECT_THAT(one.counts(), testing::Each(testing::Ge(1)));
    } else {
      EXPECT_THAT(one.counts(), ElementsAre(5, 6, 0));
    }
  }
}

TEST(SharedWords, LabelsAreTheFirstTokensOfWords) {
  const Dataset data = texts_of(kTexts);
  const std::vector<std::uint32_t> rows{1, 0};
  View causal(data, false, Pieces::kFine);
  const TaskBatch batch = SharedWords({*causal.task, data, causal.set}).collate(causal.cohort(rows), rows, at::kCPU);
  ASSERT_EQ(batch.labels.sizes(), (at::IntArrayRef{2, 11}));
  ASSERT_EQ(batch.batch.wanted.sizes(), batch.labels.sizes());
  // A causal model reads the token before the word.
  const auto ids = causal.set.data->ids(causal.set.rows[1]);
  std::vector<std::int64_t> starts;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::string_view token = causal.tokenizer->token(ids[i]);
    const bool inside = token.starts_with("##") || token == ",";
    if (!inside && !causal.tokenizer->is_special(ids[i])) starts.push_back(static_cast<std::int64_t>(i));
  }
  ASSERT_EQ(starts.size(), 7U);
  for (std::size_t word = 1; word < starts.size(); ++word) {
    const auto i = static_cast<std::int64_t>(word) - 1;
    EXPECT_EQ(batch.batch.wanted[0][i].item<std::int64_t>(), starts[word] - 1);
    EXPECT_EQ(batch.labels[1][i].item<std::int64_t>(), ids[static_cast<std::size_t>(starts[word])]);
  }

  View masked(data, true, Pieces::kFine);
  const SharedWords words({*masked.task, data, masked.set});
  const TaskBatch hidden = words.collate(masked.cohort(rows), rows, at::kCPU);
  const std::int64_t mask = *masked.tokenizer->special().mask;
  const at::Tensor there = hidden.batch.ids.gather(1, hidden.batch.wanted);
  EXPECT_TRUE(there.eq(mask).all().item<bool>()) << "the words cannot be seen";
  EXPECT_EQ(hidden.labels.size(1), words.counts()[0] + words.counts()[1]);
  EXPECT_TRUE(words.collate(masked.cohort(rows), rows, at::kCPU).batch.ids.equal(hidden.batch.ids)) << "every time";
}

TEST(SharedWords, ABatchOfTheTaskGetsThePredictions) {
  const Dataset data = texts_of(kTexts);
  const std::vector<std::uint32_t> rows{1, 0};
  for (const bool masked : {false, true}) {
    View view(data, masked, Pieces::kFine);
    const SharedWords words({*view.task, data, view.set});
    const TaskBatch some = words.collate(view.cohort(rows), rows, at::kCPU);
    const TaskBatch plain = view.task->collate(view.cohort(rows), {.seed = 3});
    TaskBatch both = plain;
    words.add_to(both, rows);
    // The labels are the task's, and the words' first tokens are read besides.
    ASSERT_EQ(both.fields.size(), 1U);
    EXPECT_TRUE(both.labels.narrow(1, 0, plain.labels.size(1)).equal(plain.labels));
    EXPECT_TRUE(both.counted.equal(plain.counted));
    const std::int64_t outputs = masked ? both.batch.wanted.size(1) : both.batch.packing->tokens();
    EXPECT_EQ(both.labels.size(1), outputs);
    const at::Tensor numbers = torch::arange(outputs, at::kFloat).view({1, -1, 1}).repeat({2, 1, 1});
    const at::Tensor picked = SharedWords::beginnings(both, numbers).squeeze(-1).to(at::kLong);
    EXPECT_TRUE((masked ? both.batch.wanted.gather(1, picked) : picked).equal(some.batch.wanted));
    EXPECT_TRUE(SharedWords::beginnings(some, numbers).equal(numbers));
    if (!masked) {
      EXPECT_TRUE(both.batch.ids.equal(plain.batch.ids));
      continue;
    }
    const std::int64_t mask = *view.tokenizer->special().mask;
    EXPECT_TRUE(both.labels.narrow(1, plain.labels.size(1), picked.size(1)).eq(kIgnore).all().item<bool>());
    EXPECT_TRUE(torch::where(some.batch.ids.eq(mask), some.batch.ids, plain.batch.ids).equal(both.batch.ids));
    EXPECT_TRUE(both.batch.host_ids.equal(both.batch.ids));
  }
}

TEST(SharedWords, PredictionsAreDistributionsOverWords) {
  const Dataset data = texts_of(kTexts);
  View view(data, false, Pieces::kCoarse);
  const SharedWords words({*view.task, data, view.set, 4});
  const auto vocabulary = static_cast<std::int64_t>(view.tokenizer->vocabulary_size());
  torch::manual_seed(1);
  at::Tensor logits = torch::randn({2, 3, vocabulary}).requires_grad_(true);
  const at::Tensor q = words.predictions(logits).exp();
  ASSERT_EQ(q.sizes(), (at::IntArrayRef{2, 3, 4}));
  EXPECT_TRUE(torch::allclose(q.sum(-1), torch::ones({2, 3}), 1e-4, 1e-4));
  const std::int64_t the = *view.tokenizer->id("the");
  const at::Tensor p = torch::softmax(logits, -1);
  EXPECT_TRUE(torch::allclose(q.select(-1, 1), p.select(-1, the), 1e-4, 1e-6)) << "a token of one word only";
  words.predictions(logits).select(-1, 1).sum().backward();
  EXPECT_GT(logits.grad().select(-1, the).min().item<float>(), 0);
}

TEST(SharedWords, TextsWithoutAWordToPredictAreDropped) {
  const Dataset data = texts_of({"unlikely", "The cat sat", "mat"}), none = texts_of({"unlikely", "mat"});
  View view(data, false, Pieces::kFine), useless(none, false, Pieces::kFine);
  SharedWords words({*view.task, data, view.set});
  EXPECT_THAT(words.keep_predicted(view.set.rows), ElementsAre(view.set.rows[1]));
  EXPECT_THAT(words.counts(), ElementsAre(2));
  SharedWords nothing({*useless.task, none, useless.set});
  EXPECT_THROW(nothing.keep_predicted(useless.set.rows), DataError);
}

TEST(SharedWords, RowsOfOtherTextsAreRefused) {
  const Dataset data = texts_of(kTexts), others = texts_of({"quite another text", "and more", "unlikely"});
  View view(data, false, Pieces::kCoarse);
  EXPECT_THROW(SharedWords({*view.task, others, view.set}), DataError);
}

}  // namespace
}  // namespace chorus::inline trainer
