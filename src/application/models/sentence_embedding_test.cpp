#include "application/models/sentence_embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "application/models/pretrained.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/tensor_folder.h"
#include "tests/support.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSentenceNetwork = CHORUS_SOURCE_DIR "/tests/fixtures/parity/bert-seqcls";

class SentenceEmbeddingTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "1_Pooling");
    fs::create_directories(folder_ / "2_Dense");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void modules(const std::vector<std::pair<std::string, std::string>>& list) const {
    std::string text;
    for (const auto& [type, path] : list) {
      text += (text.empty() ? "[" : ", ") + (R"({"type": "sentence_transformers.models.)" + type) + R"(", "path": ")" +
              path + "\"}";
    }
    write_file(folder_ / "modules.json", text + "]");
  }
  SentenceEmbedding with_pooling(const std::string& config) const {
    write_file(folder_ / "1_Pooling" / "config.json", config);
    return read_sentence_embedding(folder_);
  }

  fs::path folder_;
};

const std::vector<TokenRow> kSentences{{2, 5, 9, 3}, {2, 7, 3}};

// Closed forms over the hidden states of each sequence alone.
TEST(SentenceVectors, PoolAsDefined) {
  const Pretrained bert = load_pretrained(kSentenceNetwork, {.head = Head::kNone});
  const at::NoGradGuard no_grad;
  Dropout off;
  for (std::size_t i = 0; i < kSentences.size(); ++i) {
    const at::Tensor h = bert.model->forward(bert.params, collate({{kSentences[i]}}), off).hidden[0];
    const at::Tensor weights = torch::arange(1, h.size(0) + 1, at::kFloat).unsqueeze(1);
    const std::vector<std::pair<Pooling, at::Tensor>> expected{
        {Pooling::kFirst, h[0]},
        {Pooling::kLast, h[h.size(0) - 1]},
        {Pooling::kMean, h.mean(0)},
        {Pooling::kMax, std::get<0>(h.max(0))},
        {Pooling::kMeanSqrt, h.sum(0) / std::sqrt(static_cast<double>(h.size(0)))},
        {Pooling::kWeightedMean, (h * weights).sum(0) / weights.sum()}};
    for (const auto& [pooling, vector] : expected) {
      const at::Tensor found = sentence_vectors(*bert.model, bert.params, kSentences, {.pooling = {pooling}});
      EXPECT_TRUE(torch::allclose(found[static_cast<std::int64_t>(i)], vector, 1e-5, 1e-6))
          << static_cast<int>(pooling);
    }
    const at::Tensor weight = torch::randn({3, 2 * h.size(1)}), bias = torch::randn({3});
    const SentenceEmbedding dense{.pooling = {Pooling::kFirst, Pooling::kMean}, .steps = {{weight, bias, true}, {}}};
    const at::Tensor y = torch::tanh(torch::mv(weight, torch::cat({h[0], h.mean(0)})) + bias);
    const at::Tensor found =
        sentence_vectors(*bert.model, bert.params, kSentences, dense)[static_cast<std::int64_t>(i)];
    EXPECT_TRUE(torch::allclose(found, y / y.norm(), 1e-5, 1e-6));
  }
}

TEST_F(SentenceEmbeddingTest, FoldersWithoutModulesMeanTheMean) {
  const SentenceEmbedding how = read_sentence_embedding(folder_);
  EXPECT_THAT(how.pooling, ElementsAre(Pooling::kMean));
  EXPECT_TRUE(how.steps.empty());
  EXPECT_EQ(how.network, folder_);
}

TEST_F(SentenceEmbeddingTest, ReadsTheModules) {
  modules({{"Transformer", ""}, {"Pooling", "1_Pooling"}, {"Normalize", "2_Normalize"}});
  write_file(folder_ / "sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": true})");
  write_file(folder_ / "config_sentence_transformers.json",
             R"({"prompts": {"query": "query: "}, "default_prompt_name": "query"})");
  const SentenceEmbedding how = with_pooling(R"({"word_embedding_dimension": 384, "pooling_mode_cls_token": true,
      "pooling_mode_mean_tokens": false, "pooling_mode_max_tokens": true})");
  EXPECT_THAT(how.pooling, ElementsAre(Pooling::kFirst, Pooling::kMax));
  ASSERT_EQ(how.steps.size(), 1u);
  EXPECT_FALSE(how.steps[0].weight.defined());
  EXPECT_EQ(how.max_length, 256);
  EXPECT_TRUE(how.lowercase);
  EXPECT_EQ(how.prompt, "query: ");
  EXPECT_THAT(with_pooling(R"({"pooling_mode": "lasttoken"})").pooling, ElementsAre(Pooling::kLast));
}

TEST_F(SentenceEmbeddingTest, ReadsDenseLayersAndFoldersOfTheNetwork) {
  modules({{"Transformer", "0_Transformer"}, {"Pooling", "1_Pooling"}, {"Dense", "2_Dense"}});
  write_file(folder_ / "2_Dense" / "config.json", R"({"activation_function": "torch.nn.modules.linear.Identity"})");
  const std::vector<NamedTensor> layer{{"linear.weight", torch::ones({2, 4})}, {"linear.bias", torch::ones({2})}};
  write_sharded(folder_ / "2_Dense", layer);
  const SentenceEmbedding how = with_pooling("{}");
  EXPECT_EQ(how.network, folder_ / "0_Transformer");
  ASSERT_EQ(how.steps.size(), 1u);
  EXPECT_TRUE(torch::equal(how.steps[0].weight, torch::ones({2, 4})));
  EXPECT_FALSE(how.steps[0].tanh);
}

TEST_F(SentenceEmbeddingTest, RefusesWhatItDoesNotHave) {
  const auto complaint = [&] { return message_of<DataError>([&] { read_sentence_embedding(folder_); }); };
  modules({{"Transformer", ""}, {"CNN", "1_CNN"}});
  EXPECT_THAT(complaint(), HasSubstr("modules.json: the module sentence_transformers.models.CNN is none"));
  modules({{"Transformer", "../elsewhere"}});
  EXPECT_THAT(complaint(), HasSubstr("leads out of the folder"));
  write_file(folder_ / "modules.json", "[{");
  EXPECT_THAT(complaint(), HasSubstr("not valid JSON"));
  EXPECT_THAT(message_of<ConfigError>([] { pooling_named("means"); }), HasSubstr("cls, max, mean"));
}

}  // namespace
}  // namespace chorus::inline models
