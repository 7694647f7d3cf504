// Tensor names of the most downloaded checkpoints (tests/golden/make_checkpoint_names.py) against what transformers
// makes of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "application/models/pretrained.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"

namespace chorus::inline models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<NamedTensor> tensors_of(const Json& checkpoint, const Json& groups) {
  std::vector<NamedTensor> tensors;
  torch::manual_seed(3);
  for (const Json& group : checkpoint["groups"]) {
    for (const auto& [name, shape] : groups[group.get<std::size_t>()].items()) {
      const at::Tensor value = torch::randn(shape.get<std::vector<std::int64_t>>());
      tensors.emplace_back(name, name.ends_with("_ids") ? value.to(at::kLong) : value);
    }
  }
  // Copies of one tensor are the same in every checkpoint.
  std::map<std::string, at::Tensor> first;
  for (auto& [name, value] : tensors) {
    for (const char* ending : {"word_embeddings.weight", "decoder.weight", "vocab_projector.weight", "wte.weight",
                               "lm_head.weight", "shared.weight", "embed_tokens.weight"}) {
      if (name.ends_with(ending)) value = first.emplace("words", value).first->second;
    }
    if (name == "lm_head.decoder.bias" || name == "lm_head.bias") value = first.emplace("bias", value).first->second;
  }
  return tensors;
}

TEST(CheckpointNames, LoadAsInTransformers) {
  const Json file = Json::parse(read_file(CHORUS_SOURCE_DIR "/tests/fixtures/checkpoints/names.json"));
  ASSERT_GE(file["checkpoints"].size(), 40u);
  const fs::path folder = fs::path(testing::TempDir()) / "chorus_checkpoint_names";
  for (const Json& checkpoint : file["checkpoints"]) {
    SCOPED_TRACE(checkpoint["name"].get<std::string>());
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_file(folder / "config.json", checkpoint["config"].dump());
    const std::vector<NamedTensor> tensors = tensors_of(checkpoint, file["groups"]);
    write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});

    const Pretrained loaded = load_pretrained(folder);
    const Layout& layout = loaded.model->layout();
    EXPECT_EQ(name_of(loaded.model->head()), checkpoint["head"].get<std::string>());
    std::vector<std::string> missing;
    for (const Json& name : checkpoint["missing"]) {
      if (!layout.is_alias(name.get<std::string>())) missing.push_back(name);
    }
    EXPECT_THAT(loaded.report.initialised, testing::UnorderedElementsAreArray(missing));
    EXPECT_THAT(loaded.report.unused,
                testing::UnorderedElementsAreArray(checkpoint["unexpected"].get<std::vector<std::string>>()));
    if (!checkpoint["name"].get<std::string>().starts_with("google/flan")) {
      EXPECT_THAT(loaded.report.untied, testing::IsEmpty());
    }

    // Every parameter has the values of the one tensor in the file whose name ends as its own.
    for (std::size_t i = 0; i < layout.specs().size(); ++i) {
      const ParamSpec& spec = layout.specs()[i];
      if (spec.buffer || testing::Value(missing, testing::Contains(spec.name))) continue;
      int equal = 0;
      for (const auto& [name, value] : tensors) {
        if (value.sizes() != at::IntArrayRef(spec.shape) || !value.is_floating_point()) continue;
        equal += torch::equal(value, loaded.params.tensor(ParamId{static_cast<int>(i)})) ? 1 : 0;
      }
      EXPECT_GE(equal, 1) << spec.name;
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace chorus::inline models
