#include "application/models/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "application/models/batch.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/tensor_folder.h"
#include "core/tensor/named_tensors.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kBert = CHORUS_SOURCE_DIR "/tests/fixtures/parity/bert-seqcls";

// A copy of a checkpoint that a test may damage.
class PretrainedTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* name : {"config.json", "model.safetensors"}) fs::copy(fs::path(kBert) / name, folder_ / name);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<NamedTensor> tensors() const {
    const TensorSource source = TensorSource::open(folder_);
    std::vector<NamedTensor> result;
    for (const std::string& name : source.names()) result.emplace_back(name, source.read(name));
    return result;
  }
  void replace_config(const std::string& from, const std::string& to) const {
    std::string text = read_file(folder_ / "config.json");
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos);
    write_file(folder_ / "config.json", text.replace(at, from.size(), to));
  }
  // The message of the DataError when loading.
  std::string complaint(const LoadOptions& options = {}) const {
    try {
      load_pretrained(folder_, options);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

at::Tensor logits_of(const Pretrained& loaded) {
  Dropout off;
  const at::NoGradGuard no_grad;
  return loaded.model->forward(loaded.params, collate({{{2, 5, 9, 3}, {2, 7, 3}}}), off).logits;
}

TEST_F(PretrainedTest, WhatIsSavedLoadsBack) {
  const Pretrained original = load_pretrained(folder_);
  EXPECT_TRUE(original.report.initialised.empty());
  save_pretrained(folder_ / "copy", *original.model, original.params, {.max_shard_bytes = 40000});
  EXPECT_TRUE(fs::exists(folder_ / "copy" / "model.safetensors.index.json"));
  const Pretrained copy = load_pretrained(folder_ / "copy");
  EXPECT_TRUE(torch::equal(logits_of(original), logits_of(copy)));
  save_pretrained(folder_ / "half", *original.model, original.params, {.dtype = at::kHalf});
  EXPECT_TRUE(torch::allclose(logits_of(original), logits_of(load_pretrained(folder_ / "half")), 1e-2, 1e-2));
}

TEST_F(PretrainedTest, AnotherHeadIsFreshAndTheOldOneUnused) {
  const Pretrained loaded = load_pretrained(
      folder_, {.head = Head::kTokenClassification, .labels = std::vector<std::string>{"O", "B-X", "I-X"}});
  EXPECT_EQ(logits_of(loaded).size(-1), 3);
  EXPECT_THAT(loaded.report.initialised, testing::Contains("classifier.weight"));
  EXPECT_THAT(loaded.report.unused, testing::Contains("bert.pooler.dense.weight"));
}

TEST_F(PretrainedTest, BareModelsLoadWithAndWithoutTheirPrefix) {
  const Pretrained bare = load_pretrained(folder_, {.head = Head::kNone});
  save_pretrained(folder_ / "bare", *bare.model, bare.params);
  EXPECT_TRUE(TensorSource::open(folder_ / "bare").find("embeddings.word_embeddings.weight").has_value());
  const Pretrained again = load_pretrained(folder_ / "bare", {.head = Head::kSequenceClassification});
  EXPECT_EQ(again.report.initialised.size(), 2u);
}

TEST_F(PretrainedTest, OldNamesOfLayerNormAreUnderstood) {
  auto all = tensors();
  for (auto& [name, tensor] : all) {
    if (name.ends_with("LayerNorm.weight")) name = name.substr(0, name.size() - 6) + "gamma";
    if (name.ends_with("LayerNorm.bias")) name = name.substr(0, name.size() - 4) + "beta";
  }
  const at::Tensor wanted = logits_of(load_pretrained(folder_));
  write_sharded(folder_, all);
  EXPECT_TRUE(torch::equal(logits_of(load_pretrained(folder_)), wanted));
}

TEST_F(PretrainedTest, MissingTensorsAreNamedAndCounted) {
  auto all = tensors();
  std::erase_if(all, [](const NamedTensor& t) { return t.first.find("layer.1.output") != std::string::npos; });
  write_sharded(folder_, all);
  EXPECT_THAT(complaint(), HasSubstr("4 tensors of a bert model are missing: bert.encoder.layer.1.output"));
  EXPECT_THAT(complaint({.head = Head::kTokenClassification}), HasSubstr("4 tensors"));
}

TEST_F(PretrainedTest, LeftoversAreReportedAndLogged) {
  auto all = tensors();
  all.emplace_back("bert.encoder.layer.2.stray", torch::ones({2}));
  all.emplace_back("cls.seq_relationship.weight", torch::ones({2, 32}));
  const at::Tensor wanted = logits_of(load_pretrained(folder_));
  write_sharded(folder_, all);
  testing::internal::CaptureStderr();
  const Pretrained loaded = load_pretrained(folder_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("2 tensors unused: bert.encoder.layer.2.stray, cls.seq_relationship.weight"));
  EXPECT_THAT(loaded.report.unused,
              testing::UnorderedElementsAre("bert.encoder.layer.2.stray", "cls.seq_relationship.weight"));
  EXPECT_TRUE(torch::equal(logits_of(loaded), wanted));
}

TEST_F(PretrainedTest, AnIncompleteHeadIsFreshWithAWarning) {
  auto all = tensors();
  std::erase_if(all, [](const NamedTensor& t) { return t.first.starts_with("classifier"); });
  write_sharded(folder_, all);
  testing::internal::CaptureStderr();
  const Pretrained loaded = load_pretrained(folder_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("its sequence_classification head is not complete: 2 tensors fresh: classifier.weight"));
  EXPECT_THAT(loaded.report.initialised, testing::UnorderedElementsAre("classifier.weight", "classifier.bias"));
}

TEST_F(PretrainedTest, TheHeadComesFromTheTensorsWhereTheConfigNamesNone) {
  const at::Tensor wanted = logits_of(load_pretrained(folder_));
  const std::string text = read_file(folder_ / "config.json");
  for (const char* other : {"\"architectures\": [\"BertForNextSentencePrediction\"]", "\"architectures\": []",
                            "\"architectures\": null", "\"other\": 1"}) {
    std::string config = text;
    const std::size_t begin = config.find("\"architectures\""), end = config.find(']', begin) + 1;
    write_file(folder_ / "config.json", config.replace(begin, end - begin, other));
    const Pretrained loaded = load_pretrained(folder_);
    EXPECT_EQ(loaded.model->head(), Head::kSequenceClassification) << other;
    EXPECT_TRUE(torch::equal(logits_of(loaded), wanted));
  }
  auto all = tensors();
  std::erase_if(all, [](const NamedTensor& t) { return t.first.starts_with("classifier"); });
  write_sharded(folder_, all);
  EXPECT_EQ(load_pretrained(folder_).model->head(), Head::kNone);
}

TEST_F(PretrainedTest, OldConfigsNeedNoModelType) {
  const at::Tensor wanted = logits_of(load_pretrained(folder_));
  replace_config("\"model_type\": \"bert\",", "");
  replace_config("\"hidden_size\"", "\"type_vocab_size\": 2, \"hidden_size\"");
  const Pretrained loaded = load_pretrained(folder_);
  EXPECT_TRUE(torch::equal(logits_of(loaded), wanted));
  save_pretrained(folder_ / "copy", *loaded.model, loaded.params);
  EXPECT_THAT(read_file(folder_ / "copy" / "config.json"), HasSubstr("\"model_type\": \"bert\""));
}

TEST(PretrainedTies, CopiesThatDifferAreNamed) {
  const fs::path from = CHORUS_SOURCE_DIR "/tests/fixtures/parity/bert-mlm";
  const fs::path folder = fs::path(testing::TempDir()) / "chorus_ties";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(from / "config.json", folder / "config.json");
  const TensorSource source = TensorSource::open(from);
  std::vector<NamedTensor> all;
  for (const std::string& name : source.names()) all.emplace_back(name, source.read(name));
  const at::Tensor words = source.read("bert.embeddings.word_embeddings.weight");
  std::erase_if(all, [](const NamedTensor& t) { return t.first == "cls.predictions.decoder.weight"; });
  all.emplace_back("cls.predictions.decoder.weight", words);
  write_sharded(folder, all);
  EXPECT_THAT(load_pretrained(folder).report.tied, testing::Contains("cls.predictions.decoder.weight"));
  EXPECT_THAT(load_pretrained(folder).report.untied, testing::IsEmpty());
  all.back().second = words + 1;
  write_sharded(folder, all);
  const Pretrained loaded = load_pretrained(folder);
  EXPECT_THAT(loaded.report.untied, testing::ElementsAre("cls.predictions.decoder.weight"));
  EXPECT_TRUE(torch::equal(loaded.params.tensor(*loaded.model->layout().find("bert.embeddings.word_embeddings.weight")),
                           words.to(at::kFloat)));
  fs::remove_all(folder);
}

TEST(PretrainedBodies, TheLastNormOfGpt2IsNoHead) {
  const fs::path from = CHORUS_SOURCE_DIR "/tests/fixtures/parity/gpt2-lm";
  const fs::path folder = fs::path(testing::TempDir()) / "chorus_gpt2_body";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(from / "config.json", folder / "config.json");
  const TensorSource source = TensorSource::open(from);
  std::vector<NamedTensor> all;
  for (const std::string& name : source.names()) {
    if (name.find("ln_f") == std::string::npos) all.emplace_back(name, source.read(name));
  }
  write_sharded(folder, all);
  EXPECT_THROW(load_pretrained(folder), DataError);
  EXPECT_THROW(load_pretrained(folder, {.head = Head::kNone}), DataError);
  fs::remove_all(folder);
}

TEST_F(PretrainedTest, WrongShapesAreNamed) {
  replace_config("\"hidden_size\": 32", "\"hidden_size\": 64");
  EXPECT_THAT(complaint(), HasSubstr("but config.json asks for"));
}

TEST_F(PretrainedTest, AnotherNumberOfLabelsGivesAFreshClassifier) {
  for (const std::int64_t count : {1, 2, 7}) {
    const LoadOptions options{.labels = numbered_labels(count), .seed = 4};
    const Pretrained loaded = load_pretrained(folder_, options);
    EXPECT_EQ(logits_of(loaded).size(-1), count);
    EXPECT_THAT(loaded.report.initialised, testing::UnorderedElementsAre("classifier.weight", "classifier.bias"));
    EXPECT_THAT(loaded.report.unused, testing::UnorderedElementsAre("classifier.weight", "classifier.bias"));
  }
  const LoadOptions renamed{.labels = std::vector<std::string>{"a", "b", "c", "d", "e"}};
  EXPECT_TRUE(torch::equal(logits_of(load_pretrained(folder_, renamed)), logits_of(load_pretrained(folder_))));
}

// As in transformers' run_glue.py: the same names in another order are the same labels.
TEST_F(PretrainedTest, RowsOfTheHeadFollowTheNamesOfTheLabels) {
  ModelConfig config = ModelConfig::read(folder_ / "config.json");
  config.set_labels({"a", "b", "c", "d", "e"});
  write_file(folder_ / "config.json", config.dump());
  const at::Tensor logits = logits_of(load_pretrained(folder_));
  const auto with = [&](const std::vector<std::string>& labels) {
    return load_pretrained(folder_, LoadOptions{.labels = labels, .seed = 4});
  };
  const at::Tensor moved = logits_of(with({"C", "a", "e", "b", "d"}));
  // Not the same bits everywhere: libraries may multiply another row of the matrix in another order.
  EXPECT_TRUE(torch::allclose(moved, logits.index_select(-1, torch::tensor({2, 0, 4, 1, 3})), 1e-5, 1e-6));
  EXPECT_TRUE(torch::equal(logits_of(with(numbered_labels(5))), logits)) << "no names to compare";
  EXPECT_TRUE(torch::equal(logits_of(with({"0", "1", "2", "3", "4"})), logits));

  const std::vector<std::string> other{"a", "b", "c", "d", "f"};
  const Pretrained fresh = with(other);
  EXPECT_THAT(fresh.report.initialised, testing::UnorderedElementsAre("classifier.weight", "classifier.bias"));
  EXPECT_FALSE(torch::equal(logits_of(fresh), logits));
  EXPECT_THAT(complaint({.labels = other, .same_labels = true}),
              testing::AllOf(HasSubstr("the labels a, b, c, d, e, but the data has the labels a, b, c, d, f"),
                             HasSubstr("id2label")));
}

TEST_F(PretrainedTest, AConfigThatDisagreesWithItsWeightsIsRefused) {
  const ModelConfig config = ModelConfig::read(folder_ / "config.json");
  ModelConfig other = config;
  other.set_labels({"a", "b"});
  write_file(folder_ / "config.json", other.dump());
  EXPECT_THAT(complaint(), HasSubstr("another number of labels"));
}

TEST_F(PretrainedTest, NonFiniteWeightsAreRefused) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    auto all = tensors();
    all[3].second.view({-1})[1] = bad;
    write_sharded(folder_, all);
    EXPECT_THAT(complaint(), HasSubstr("holds NaN or infinity"));
  }
}

TEST_F(PretrainedTest, IntegerWeightsAreRefused) {
  auto all = tensors();
  all[0].second = all[0].second.to(at::kLong);
  write_sharded(folder_, all);
  EXPECT_THAT(complaint(), HasSubstr("not floating-point"));
}

TEST_F(PretrainedTest, UnknownArchitecturesAreRefused) {
  replace_config("\"model_type\": \"bert\"", "\"model_type\": \"bertt\"");
  EXPECT_THAT(complaint(), HasSubstr("bertt"));
  EXPECT_THAT(complaint(), HasSubstr("bert"));
}

TEST_F(PretrainedTest, WhatIsComputedOtherwiseIsRefused) {
  replace_config("\"hidden_size\"", "\"position_embedding_type\": \"relative_key\", \"hidden_size\"");
  EXPECT_THAT(complaint(), HasSubstr("'position_embedding_type' is relative_key"));
  replace_config("relative_key", "absolute");
  EXPECT_EQ(complaint(), "no error");
  replace_config("\"is_decoder\": false", "\"is_decoder\": true");
  EXPECT_THAT(complaint(), HasSubstr("'is_decoder' is true"));
}

TEST_F(PretrainedTest, DamagedConfigsAreRefused) {
  const std::string text = read_file(folder_ / "config.json");
  write_file(folder_ / "config.json", text.substr(0, text.size() / 2));
  EXPECT_THAT(complaint(), HasSubstr("not valid JSON"));
  write_file(folder_ / "config.json", "[1, 2]");
  EXPECT_THAT(complaint(), HasSubstr("JSON object"));
  write_file(folder_ / "config.json", R"({"hidden_size": 32})");
  EXPECT_THAT(complaint(), HasSubstr("model_type"));
  for (const char* bad : {"-1", "0", "1e30", "\"32\"", "99999999999", "[]", "true"}) {
    write_file(folder_ / "config.json",
               R"({"model_type": "bert", "architectures": ["BertModel"], "hidden_size": )" + std::string(bad) + "}");
    EXPECT_THAT(complaint(), HasSubstr("hidden_size")) << bad;
  }
  write_file(folder_ / "config.json", text);
  replace_config("\"num_attention_heads\": 4", "\"num_attention_heads\": 5");
  EXPECT_THAT(complaint(), HasSubstr("not a multiple"));
}

TEST_F(PretrainedTest, MissingFilesAreNamed) {
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THAT(complaint(), HasSubstr("model.safetensors"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(complaint(), HasSubstr("config.json"));
  fs::remove_all(folder_);
  EXPECT_THAT(complaint(), HasSubstr("there is no such folder"));
}

TEST_F(PretrainedTest, VocabularyMustFitTheEmbedding) {
  const Pretrained loaded = load_pretrained(folder_);  // 97 rows
  EXPECT_NO_THROW(check_vocabulary(*loaded.model, 97, "t"));
  EXPECT_NO_THROW(check_vocabulary(*loaded.model, 90, "t"));
  EXPECT_THROW(check_vocabulary(*loaded.model, 98, "t"), DataError);
  const auto wide = make_model(ModelConfig::parse(R"({"model_type": "bert", "vocab_size": 30522, "num_hidden_layers": 0,
      "hidden_size": 12})",
                                                  "t"),
                               Head::kNone);
  EXPECT_THROW(check_vocabulary(*wide, 8192, "t"), DataError);
}

TEST(Pretrained, ChorusMiniFillsTheGap) {
  const fs::path folder = CHORUS_SOURCE_DIR "/models/chorus-mini";
  const Pretrained loaded = load_pretrained(folder);
  // [CLS] the capital of france is [MASK] . [SEP], by the lines of vocab.txt.
  const std::string vocabulary = read_file(folder / "vocab.txt");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < vocabulary.size();) {
    const std::size_t end = vocabulary.find('\n', begin);
    words.push_back(vocabulary.substr(begin, end - begin));
    begin = end == std::string::npos ? vocabulary.size() : end + 1;
  }
  const auto id = [&](const std::string& word) {
    return static_cast<std::int64_t>(std::find(words.begin(), words.end(), word) - words.begin());
  };
  TokenRow row;
  for (const char* word :
       {"[CLS]", "she", "opened", "the", "[MASK]", "and", "walked", "into", "the", "room", ".", "[SEP]"}) {
    row.push_back(id(word));
  }
  Dropout off;
  const at::NoGradGuard no_grad;
  const at::Tensor best = std::get<1>(loaded.model->forward(loaded.params, collate({{row}}), off).logits[0][4].topk(5));
  std::vector<std::string> guesses;
  for (std::int64_t i = 0; i < 5; ++i) guesses.push_back(words[static_cast<std::size_t>(best[i].item<std::int64_t>())]);
  EXPECT_THAT(guesses, testing::Contains("door"));
}

}  // namespace
}  // namespace chorus::inline models
