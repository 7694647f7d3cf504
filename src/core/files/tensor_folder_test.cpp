#include "core/files/tensor_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/files/torch_pickle.h"

namespace chorus::inline files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kCheckpoints = CHORUS_SOURCE_DIR "/tests/fixtures/checkpoints";
const fs::path kModels = CHORUS_SOURCE_DIR "/../shared/models";

/// An empty folder, removed after the test.
class TensorFolderTest : public testing::Test {
 protected:
  TensorFolderTest() { fs::create_directories(folder_); }
  ~TensorFolderTest() override { fs::remove_all(folder_); }

  std::string complaint() const {
    try {
      TensorSource::open(folder_);
    } catch (const DataError& e) {
      return e.what();
    }
    return "accepted";
  }
  std::string complaint_about_bin(const std::string& fixture) const {
    fs::copy_file(kCheckpoints / fixture, folder_ / "pytorch_model.bin", fs::copy_options::overwrite_existing);
    return complaint();
  }
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

  fs::path folder_ = fs::path(testing::TempDir()) / ("chorus_tensor_folder_" + std::to_string(getpid()));
};

std::vector<NamedTensor> layers() {
  std::vector<NamedTensor> out;
  for (int i = 0; i < 5; ++i) out.emplace_back("layer." + std::to_string(i), torch::full({4, 8}, i, at::kFloat));
  return out;
}

TEST_F(TensorFolderTest, WritesOneFileWhenItFits) {
  write_sharded(folder_, layers(), 5 * 128);
  EXPECT_THAT(files(), ElementsAre("model.safetensors"));
  EXPECT_EQ(SafetensorsFile::open(folder_ / "model.safetensors").metadata().at("format"), "pt");
  const auto source = TensorSource::open(folder_);
  for (const auto& [name, value] : layers()) EXPECT_TRUE(source.read(name).equal(value));
}

TEST_F(TensorFolderTest, WritesShardsWhenItDoesNot) {
  write_sharded(folder_, layers(), 300);
  EXPECT_THAT(files(), ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                   "model-00003-of-00003.safetensors", "model.safetensors.index.json"));
  const auto source = TensorSource::open(folder_);
  EXPECT_THAT(source.names(), ElementsAre("layer.0", "layer.1", "layer.2", "layer.3", "layer.4"));
  for (const auto& [name, value] : layers()) {
    EXPECT_EQ(source.find(name)->shape, (std::vector<int64_t>{4, 8}));
    EXPECT_EQ(source.find(name)->dtype, at::kFloat);
    at::Tensor half = torch::zeros({4, 8}, at::kHalf);
    source.read_into(name, half);
    EXPECT_TRUE(half.equal(value.to(at::kHalf)));
  }
  EXPECT_THAT(read_file(folder_ / "model.safetensors.index.json"),
              HasSubstr("{\n  \"metadata\": {\n    \"total_size\": 640\n  },\n  \"weight_map\": {\n    \"layer.0\": "
                        "\"model-00001-of-00003.safetensors\","));
  EXPECT_EQ(source.find("layer.5"), std::nullopt);
  EXPECT_THROW(source.read("layer.5"), DataError);
  EXPECT_THROW(source.read_into("layer.0", torch::zeros({8, 4})), DataError);
}

TEST_F(TensorFolderTest, ATensorLargerThanAShardStandsAlone) {
  write_sharded(folder_, layers(), 1);
  EXPECT_EQ(files().size(), 6U);
  EXPECT_EQ(TensorSource::open(folder_).names().size(), 5U);
}

TEST_F(TensorFolderTest, LeavesNoWeightsOfAnEarlierWrite) {
  write_file(folder_ / "config.json", "{}");
  write_sharded(folder_, layers(), 1);
  write_sharded(folder_, layers(), 300);
  EXPECT_EQ(files().size(), 5U);
  write_sharded(folder_, layers());
  EXPECT_THAT(files(), ElementsAre("config.json", "model.safetensors"));
  auto changed = layers();
  changed[0].second.fill_(7);
  write_sharded(folder_, changed, 300);
  EXPECT_EQ(TensorSource::open(folder_).read("layer.0")[0][0].item<float>(), 7);
}

TEST_F(TensorFolderTest, RefusesFoldersWithoutWeights) {
  EXPECT_THAT(complaint(), HasSubstr("the folder has no weights: neither model.safetensors nor pytorch_model.bin"));
  fs::remove(folder_);
  EXPECT_THAT(complaint(), HasSubstr("there is no such folder"));
}

TEST_F(TensorFolderTest, RefusesDamagedIndexes) {
  write_sharded(folder_, layers(), 300);
  const auto path = folder_ / "model.safetensors.index.json";
  const std::string good = read_file(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file(path, text);
    return complaint();
  };
  EXPECT_EQ(with("layer.0", "layer.0"), "accepted");
  EXPECT_THAT(with("{", "["), HasSubstr("not valid JSON"));
  EXPECT_THAT(with("weight_map", "weights"), HasSubstr("\"weight_map\", which maps tensors to files, is missing"));
  EXPECT_THAT(with("\"model-00001-of-00003.safetensors\"", "3"),
              HasSubstr("'layer.0' does not give the name of a file"));
  for (const char* outside : {"../x.safetensors", "/etc/passwd", "a/../../x", "..", "", "\\\\host\\\\x"})
    EXPECT_THAT(with("model-00001-of-00003.safetensors", outside), HasSubstr("which is not in this folder"));
  EXPECT_THAT(with("model-00001-of-00003.safetensors", "model-00009.safetensors"),
              HasSubstr("the shard model-00009.safetensors is missing"));
  EXPECT_THAT(with("model-00001", "model-00002"),
              HasSubstr("tensor 'layer.0' should be in model-00002-of-00003.safetensors, which lacks it"));
  EXPECT_THAT(with("layer.0", "layer.9"), HasSubstr("tensor 'layer.9' should be in model-00001-of-00003.safetensors"));
  EXPECT_THAT(with("    \"layer.0\": \"model-00001-of-00003.safetensors\",\n", ""),
              HasSubstr("tensor 'layer.0' of model-00001-of-00003.safetensors is not in the weight_map"));
  write_file(path, "{\"weight_map\": {}}");
  EXPECT_THAT(complaint(), HasSubstr("the weight_map is empty"));
  write_file(path, "");
  EXPECT_THAT(complaint(), HasSubstr("not valid JSON"));
  write_file(path, good);
  fs::copy_file(folder_ / "model-00001-of-00003.safetensors", folder_ / "model-00002-of-00003.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(complaint(), HasSubstr("is in another shard too"));
  fs::remove(folder_ / "model-00002-of-00003.safetensors");
  EXPECT_THAT(complaint(), HasSubstr("the shard model-00002-of-00003.safetensors is missing; fetch it again"));
}

TEST_F(TensorFolderTest, ReadsPytorchFiles) {
  for (const char* fixture : {"good.bin", "good_protocol4.bin", "good_zip64.bin", "good_old.bin"}) {
    ASSERT_EQ(complaint_about_bin(fixture), "accepted") << fixture;
    const auto source = TensorSource::open(folder_);
    EXPECT_THAT(source.names(), ElementsAre("empty", "half", "ids", "mask", "scalar", "tied", "transposed", "weight"));
    const at::Tensor weight = torch::arange(6, at::kFloat).view({2, 3});
    EXPECT_TRUE(source.read("weight").equal(weight));
    EXPECT_TRUE(source.read("tied").equal(weight));
    EXPECT_TRUE(source.read("transposed").equal((weight + 2).t()));
    EXPECT_TRUE(source.read("half").equal(torch::tensor({0.5, -1.5}, at::kHalf)));
    EXPECT_TRUE(source.read("ids").equal(torch::tensor({-(int64_t{1} << 40), int64_t{7}})));
    EXPECT_TRUE(source.read("mask").equal(torch::tensor({1, 0}, at::kBool)));
    EXPECT_TRUE(source.read("scalar").equal(torch::tensor(7.0F)));
    EXPECT_EQ(source.find("empty")->shape, (std::vector<int64_t>{0, 4}));
    EXPECT_EQ(source.read("empty").numel(), 0);
    at::Tensor wide = torch::zeros({3, 2}, at::kDouble);
    source.read_into("transposed", wide);
    EXPECT_TRUE(wide.equal((weight + 2).t().to(at::kDouble)));
  }
}

TEST_F(TensorFolderTest, ReadsWhatLibTorchPickles) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::TensorType::get());
  for (const auto& [name, value] : layers()) dict.insert(name, value);
  dict.insert("slice", torch::arange(20, at::kFloat).view({4, 5}).slice(1, 1, 4));
  const std::vector<char> bytes = torch::jit::pickle_save(dict);
  write_file(folder_ / "pytorch_model.bin", std::string_view(bytes.data(), bytes.size()));
  const auto source = TensorSource::open(folder_);
  for (const auto& [name, value] : layers()) EXPECT_TRUE(source.read(name).equal(value)) << name;
  EXPECT_TRUE(source.read("slice").equal(torch::arange(20, at::kFloat).view({4, 5}).slice(1, 1, 4)));
}

TEST_F(TensorFolderTest, ReadsShardedPytorchFilesAndPrefersSafetensors) {
  fs::copy_file(kCheckpoints / "good.bin", folder_ / "pytorch_model-00001-of-00001.bin");
  std::string index = "{\"weight_map\": {";
  for (const char* name : {"empty", "half", "ids", "mask", "scalar", "tied", "transposed", "weight"})
    index += std::string(index.back() == '{' ? "" : ",") + "\"" + name + "\": \"pytorch_model-00001-of-00001.bin\"";
  write_file(folder_ / "pytorch_model.bin.index.json", index + "}}");
  EXPECT_EQ(TensorSource::open(folder_).names().size(), 8U);
  write_sharded(folder_, layers());
  EXPECT_EQ(TensorSource::open(folder_).names().size(), 5U);
}

TEST_F(TensorFolderTest, RunsNothingThatAPickleAsksFor) {
  for (const char* fixture : {"bad_attack.bin", "bad_attack_protocol4.bin"}) {
    const std::string sentence = complaint_about_bin(fixture);
    EXPECT_THAT(sentence, HasSubstr("pytorch_model.bin: the file uses the Python object 'posix.system', but Chorus "
                                    "reads only tensors; it may be malicious"));
    EXPECT_THAT(sentence, HasSubstr("save_pretrained, which makes a model.safetensors"));
  }
  EXPECT_FALSE(fs::exists("/tmp/chorus_was_attacked"));
}

TEST_F(TensorFolderTest, RefusesPicklesThatLieAboutTheirNumbers) {
  EXPECT_THAT(complaint_about_bin("bad_compressed.bin"), HasSubstr("'archive/data.pkl' is compressed or encrypted"));
  EXPECT_THAT(complaint_about_bin("bad_missing_storage.bin"),
              HasSubstr("tensor 'w' needs storage '0', which the file lacks"));
  EXPECT_THAT(complaint_about_bin("bad_short_storage.bin"),
              HasSubstr("needs 4 elements of storage '0', but the file holds 2"));
  EXPECT_THAT(complaint_about_bin("bad_beyond.bin"),
              HasSubstr("tensor 'w' of shape [2, 2] reaches beyond its storage"));
  EXPECT_THAT(complaint_about_bin("bad_strides.bin"), HasSubstr("impossible strides"));
  EXPECT_THAT(complaint_about_bin("bad_expanded.bin"), HasSubstr("impossible shape [1099511627776]"));
  EXPECT_THAT(complaint_about_bin("bad_negative.bin"), HasSubstr("not sizes"));
  EXPECT_THAT(complaint_about_bin("bad_nested.bin"), HasSubstr("holds 'epoch', which is not a tensor"));
  EXPECT_THAT(complaint_about_bin("bad_not_a_dict.bin"), HasSubstr("is not a dictionary of tensors"));
  EXPECT_THAT(complaint_about_bin("bad_old_cut.bin"), HasSubstr("PyTorch before 1.6, ends in the middle of a storage"));
  EXPECT_THAT(complaint_about_bin("bad_old_storage.bin"), HasSubstr("needs storage '3', which the file lacks"));
  EXPECT_THAT(complaint_about_bin("every_type.safetensors"), HasSubstr("not a complete zip file"));
}

TEST(TorchPickle, EveryTruncationIsRefused) {
  for (const char* fixture : {"good.bin", "good_old.bin"}) {
    const std::string whole = read_file(kCheckpoints / fixture);
    for (size_t size = 0; size < whole.size(); ++size)
      ASSERT_THROW(parse_torch_checkpoint(std::as_bytes(std::span(whole)).first(size), "x.bin"), DataError) << size;
  }
}

TEST(SharedModels, AllTensorsAreReadAndFinite) {
  if (!fs::exists(kModels)) GTEST_SKIP() << "there is no " << kModels;
  for (const auto& [model, dimension] : {std::pair("chorus-mini", 256), std::pair("chorus-small", 384)}) {
    const auto source = TensorSource::open(kModels / model);
    std::vector<NamedTensor> tensors;
    for (const std::string& name : source.names()) {
      const auto info = source.find(name);
      EXPECT_EQ(info->dtype, at::kHalf) << name;
      tensors.emplace_back(name, torch::empty(info->shape, at::kFloat));
      source.read_into(name, tensors.back().second);
      EXPECT_TRUE(tensors.back().second.equal(source.read(name).to(at::kFloat))) << name;
    }
    EXPECT_EQ(first_non_finite(tensors), std::nullopt);
    const auto embedding = source.find("bert.embeddings.LayerNorm.weight");
    ASSERT_TRUE(embedding.has_value());
    EXPECT_EQ(embedding->shape, std::vector<int64_t>{dimension});
  }
}

}  // namespace
}  // namespace chorus::inline files
