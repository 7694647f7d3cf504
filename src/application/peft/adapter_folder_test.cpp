#include "application/peft/adapter_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "application/peft/lora.h"
#include "core/base/error.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"
#include "tests/support.h"

namespace chorus::inline peft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kFixtures = CHORUS_SOURCE_DIR "/tests/fixtures";

/// A PEFT folder, with some keys of adapter_config.json replaced.
void copy_adapter(const fs::path& from, const fs::path& to, const json& changes) {
  fs::create_directories(to);
  fs::copy_file(from / "adapter_model.safetensors", to / "adapter_model.safetensors",
                fs::copy_options::overwrite_existing);
  json config = json::parse(read_file(from / "adapter_config.json"));
  config.update(changes);
  write_file(to / "adapter_config.json", config.dump());
}

// merged.safetensors is the result of PEFT's merge_and_unload (tests/golden/make_peft_merge.py).
TEST(PeftFolder, MergesAsPeftDoes) {
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures / "peft")) {
    const json config = json::parse(read_file(entry.path() / "adapter_config.json"));
    const fs::path base = fs::path(CHORUS_SOURCE_DIR) / config["base_model_name_or_path"].get<std::string>();
    const Pretrained loaded = load_tuned(base, {}, entry.path());
    const PlainNetwork plain = merged(*loaded.model, loaded.params, *read_tuning(entry.path()));
    const Pretrained untouched = load_pretrained(base);
    const SafetensorsFile expected = SafetensorsFile::open(entry.path() / "merged.safetensors");
    for (const ParamSpec& spec : plain.model->layout().specs()) {
      const at::Tensor value = plain.params.tensor(*plain.model->layout().find(spec.name));
      const TensorEntry* changed = expected.find(spec.name);
      const at::Tensor wanted = changed != nullptr
                                    ? expected.read(*changed)
                                    : untouched.params.tensor(*untouched.model->layout().find(spec.name));
      EXPECT_LT((value - wanted).abs().max().item<double>(), 1e-6) << entry.path() << " " << spec.name;
    }
    for (const TensorEntry& changed : expected.entries()) {
      EXPECT_TRUE(plain.model->layout().find(changed.name).has_value()) << changed.name;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 5);
}

TEST(PeftFolder, SettingsThatChorusLacksAreRefused) {
  const TemporaryFolder folder;
  const fs::path base = kFixtures / "parity" / "bert-seqcls";
  const auto complaint = [&](const json& changes) {
    copy_adapter(kFixtures / "peft" / "bert_plain", folder.path(), changes);
    return message_of<DataError>([&] { load_tuned(base, {}, folder.path()); });
  };
  EXPECT_THAT(complaint({{"use_dora", true}}), HasSubstr("use_dora"));
  EXPECT_THAT(complaint({{"rank_pattern", {{"query", 0}}}}), HasSubstr("positive numbers"));
  EXPECT_THAT(complaint({{"alpha_pattern", json::array({1})}}), HasSubstr("must map module names"));
  EXPECT_THAT(complaint({{"alpha_pattern", {{"(query", 2}}}}), HasSubstr("not a regular expression"));
  EXPECT_THAT(complaint({{"use_rslora", "yes"}}), HasSubstr("wrong kind"));
  EXPECT_THAT(complaint({{"rank_pattern", {{"query", 2}}}}), HasSubstr("another model")) << "its tensors have rank 3";
  EXPECT_EQ(complaint(json::object()), kNothingThrown);
}

/// Chorus trains a classifier from a masked language model, so the base that the adapter names has another head.
TEST(PeftFolder, FitsTheBaseThatItNames) {
  const TemporaryFolder folder;
  const fs::path base = kFixtures / "parity" / "bert-mlm";
  const std::vector<std::string> labels{"low", "mid", "high"};
  const LoraTuning tuning({.rank = 2, .alpha = 4, .rslora = true});
  LoadOptions options{.head = Head::kSequenceClassification, .labels = labels, .seed = 3};
  options.prepare = [&](Model& model) { tuning.attach(model, {}); };
  const Pretrained trained = load_pretrained(base, options);
  trained.params.values().add_(0.01);
  save_adapter(folder.path(), {*trained.model, trained.params, tuning, tuning.whole(trained.model->layers()),
                               base.string(), trained.report.initialised});
  const Pretrained again = load_tuned(base, {}, folder.path());
  EXPECT_EQ(again.model->head(), Head::kSequenceClassification);
  EXPECT_EQ(again.model->config().labels(), labels);
  EXPECT_TRUE(again.report.initialised.empty());
  EXPECT_TRUE(torch::equal(again.params.values(), trained.params.values()));
  EXPECT_TRUE(torch::equal(again.params.frozen(), trained.params.frozen()));
  const PlainNetwork plain = merged(*again.model, again.params, *read_tuning(folder.path()));
  const ParamId query = *plain.model->layout().find("bert.encoder.layer.0.attention.self.query.weight");
  const std::string module = "bert.encoder.layer.0.attention.self.query";
  const auto factor = [&](const char* name) {
    return trained.params.tensor(*trained.model->layout().find(module + name));
  };
  const at::Tensor weight = trained.params.tensor(*trained.model->layout().find(module + ".weight"));
  const at::Tensor wanted = weight + factor(".lora_B.weight").mm(factor(".lora_A.weight")) * (4 / std::sqrt(2.0));
  EXPECT_LT((plain.params.tensor(query) - wanted).abs().max().item<double>(), 1e-6);
}

TEST(PeftFolder, AHeadThatNobodyHasIsNotMadeUp) {
  // The language model has no pooler, and PEFT's adapter of a classifier with a pretrained pooler has none either.
  EXPECT_THAT(message_of<DataError>(
                  [&] { load_tuned(kFixtures / "parity" / "bert-mlm", {}, kFixtures / "peft" / "bert_plain"); }),
              HasSubstr("bert.pooler.dense.weight"));
}

}  // namespace
}  // namespace chorus::inline peft
