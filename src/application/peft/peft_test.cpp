// Every tuning on every transformer: a fresh one changes nothing, a cohort equals its clients, a variant is a part of
// the whole, and folders are read back as written.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "application/models/batch.h"
#include "application/peft/adapter_folder.h"
#include "application/peft/adapters.h"
#include "application/peft/layer_tuning.h"
#include "application/peft/lora.h"
#include "application/peft/prefix.h"
#include "application/peft/tuned_network.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/files/files.h"
#include "core/files/safetensors.h"
#include "tests/support.h"

namespace chorus::inline peft {
namespace {

namespace fs = std::filesystem;

const char* const kParity = CHORUS_SOURCE_DIR "/tests/fixtures/parity";

std::vector<std::string> transformers() {
  std::vector<std::string> result;
  for (const auto& entry : fs::directory_iterator(kParity)) result.push_back(entry.path().string());
  std::sort(result.begin(), result.end());
  return result;
}

std::unique_ptr<Tuning> tuning_of(const std::string& name) {
  if (name == "lora") return std::make_unique<LoraTuning>(LoraConfig{.rank = 4});
  if (name == "prefix") return std::make_unique<PrefixTuning>(PrefixConfig{.length = 3});
  if (name == "bias") return std::make_unique<BiasTuning>(BiasTuningConfig{});
  AdapterConfig adapter{.width = 8, .unit = 4};
  if (name == "houlsby") return std::make_unique<AdapterTuning>(AdapterTuning::Kind::kHoulsby, adapter);
  return std::make_unique<AdapterTuning>(AdapterTuning::Kind::kPfeiffer, adapter);
}

Batch batch_of(const Model& model, std::int64_t clients, std::uint64_t seed) {
  RandomStream stream({.seed = seed, .purpose = "peft test"});
  const auto rows = [&](std::int64_t shortest) {
    CohortRows all;
    for (std::int64_t c = 0; c < clients; ++c) {
      std::vector<TokenRow> own;
      for (std::int64_t b = 0; b < 2 + c % 2; ++b) {
        TokenRow row;
        for (std::int64_t i = 0; i < shortest + 3 * b + c; ++i)
          row.push_back(3 + static_cast<std::int64_t>(stream.below(80)));
        own.push_back(row);
      }
      all.push_back(own);
    }
    return all;
  };
  Batch batch = collate(rows(4));
  if (model.head() == Head::kSeq2Seq) collate_target(batch, rows(3));
  return batch;
}

struct Loaded {
  std::unique_ptr<Model> model;
  Params params;
};

Loaded load(const std::string& folder, const Tuning* tuning, const Variant& variant = {}) {
  LoadOptions options;
  options.seed = 5;
  if (tuning != nullptr) options.prepare = [&](Model& model) { tuning->attach(model, variant); };
  Pretrained loaded = load_pretrained(folder, options);
  return {std::move(loaded.model), std::move(loaded.params)};
}

at::Tensor logits_of(const Model& model, const Params& params, const Batch& batch) {
  const at::NoGradGuard no_grad;
  Dropout off;
  const Output output = model.forward(params, batch, off);
  return output.logits.defined() ? output.logits : output.hidden;
}

// Small values that differ between clients.
void shake(const Params& params, std::uint64_t seed) {
  RandomStream stream({.seed = seed, .purpose = "shake"});
  const at::Tensor values = params.values();
  for (std::int64_t c = 0; c < values.size(0); ++c) {
    at::Tensor noise = torch::empty({values.size(1)}, at::kFloat);
    for (std::int64_t i = 0; i < noise.size(0); ++i)
      noise.data_ptr<float>()[i] = static_cast<float>(0.05 * stream.normal());
    values[c].add_(noise);
  }
}

TEST(Peft, FreshAttachmentsLeaveTheLogitsUnchangedToTheBit) {
  for (const std::string& folder : transformers()) {
    const Loaded plain = load(folder, nullptr);
    const Batch batch = batch_of(*plain.model, 1, 1);
    const at::Tensor expected = logits_of(*plain.model, plain.params, batch);
    for (const std::string name : {"lora", "pfeiffer", "houlsby"}) {
      const Loaded tuned = load(folder, tuning_of(name).get());
      EXPECT_TRUE(torch::equal(logits_of(*tuned.model, tuned.params, batch), expected)) << folder << " " << name;
    }
  }
}

TEST(Peft, ACohortEqualsItsClientsAlone) {
  for (const std::string& folder : transformers()) {
    for (const std::string name : {"lora", "pfeiffer", "houlsby", "prefix"}) {
      const Loaded tuned = load(folder, tuning_of(name).get());
      Params cohort = Params::copies_of(tuned.params, 3, true);
      shake(cohort, 2);
      const Batch batch = batch_of(*tuned.model, 3, 3);
      Dropout off;
      const auto scalar = [](const Output& output, const Packing& packing, std::int64_t c) {
        const at::Tensor& x = output.hidden[c];
        std::int64_t tokens = 0;
        for (const auto length : packing.lengths()[static_cast<std::size_t>(c)]) tokens += length;
        return x.narrow(0, 0, tokens).pow(2).sum();
      };
      const Output together = tuned.model->forward(cohort, batch, off);
      const Packing& packing = batch.target_packing ? *batch.target_packing : *batch.packing;
      at::Tensor total = scalar(together, packing, 0);
      for (std::int64_t c = 1; c < 3; ++c) total = total + scalar(together, packing, c);
      total.backward();
      for (std::int64_t c = 0; c < 3; ++c) {
        Params alone = Params::copies_of_start(tuned.params, 1, true, cohort.values()[c].detach());
        alone.writes().zero();
        Batch own;
        const auto cut = [&](const at::Tensor& ids, const Packing& all) {
          own.packing = std::make_shared<Packing>(
              std::vector<std::vector<std::int64_t>>{all.lengths()[static_cast<std::size_t>(c)]});
          return ids.narrow(0, c, 1).narrow(1, 0, own.packing->tokens());
        };
        if (batch.target_packing) {
          own.target_ids = cut(batch.target_ids, *batch.target_packing);
          own.target_packing = own.packing;
        }
        own.ids = cut(batch.ids, *batch.packing);
        const Output output = tuned.model->forward(alone, own, off);
        const at::Tensor value = scalar(output, own.target_packing ? *own.target_packing : *own.packing, 0);
        value.backward();
        const at::Tensor difference = (alone.grads()[0] - cohort.grads()[c]).abs().max();
        const at::Tensor scale = cohort.grads()[c].abs().max();
        EXPECT_LT(difference.item<float>(), 1e-4 * scale.item<float>() + 1e-5) << folder << " " << name << " " << c;
      }
    }
  }
}

TEST(Peft, GeneratingOneTokenAtATimeSeesThePrefix) {
  for (const std::string& folder : transformers()) {
    const auto tuning = tuning_of("prefix");
    const Loaded tuned = load(folder, tuning.get());
    const auto* writer = dynamic_cast<const GenerativeModel*>(tuned.model.get());
    if (writer == nullptr || writer->has_encoder()) continue;
    shake(tuned.params, 4);
    Batch batch;
    batch.packing = std::make_shared<Packing>(std::vector<std::vector<std::int64_t>>{{4, 4}});
    batch.ids = torch::randint(3, 80, {1, 8}, at::kLong);
    const at::NoGradGuard no_grad;
    DecodeState state = writer->begin(tuned.params, batch);
    const at::Tensor next = torch::tensor({7, 9}, at::kLong);
    writer->advance(tuned.params, state, next);
    Batch longer;
    longer.packing = std::make_shared<Packing>(std::vector<std::vector<std::int64_t>>{{5, 5}});
    longer.ids = torch::cat({batch.ids.narrow(1, 0, 4), next.narrow(0, 0, 1).unsqueeze(0), batch.ids.narrow(1, 4, 4),
                             next.narrow(0, 1, 1).unsqueeze(0)},
                            1);
    const at::Tensor all = logits_of(*tuned.model, tuned.params, longer);
    EXPECT_TRUE(torch::allclose(state.logits[0], all[0][4], 1e-4, 1e-5)) << folder;
    EXPECT_TRUE(torch::allclose(state.logits[1], all[0][9], 1e-4, 1e-5)) << folder;
  }
}

TEST(Peft, ForwardGoesOnFromTheBottom) {
  for (const std::string& folder : transformers()) {
    const Loaded plain = load(folder, nullptr);
    Batch batch = batch_of(*plain.model, 2, 6);
    const Params two = Params::copies_of(plain.params, 2, false);
    const at::Tensor expected = logits_of(*plain.model, two, batch);
    for (int count = 1; count <= plain.model->cuts(); ++count) {
      Dropout off;
      batch.bottom = plain.model->bottom(two, batch, count, off);
      batch.bottom_layers = count;
      EXPECT_TRUE(torch::allclose(logits_of(*plain.model, two, batch), expected, 1e-5, 1e-6)) << folder << " " << count;
    }
  }
}

TEST(Peft, MergedEqualsUnmerged) {
  for (const std::string& folder : transformers()) {
    const LoraTuning tuning({.rank = 3, .alpha = 5});
    const Loaded tuned = load(folder, &tuning);
    shake(tuned.params, 7);
    const Batch batch = batch_of(*tuned.model, 1, 8);
    const PlainNetwork plain = merged(*tuned.model, tuned.params, tuning);
    const at::Tensor one = logits_of(*tuned.model, tuned.params, batch);
    const at::Tensor other = logits_of(*plain.model, plain.params, batch);
    EXPECT_LT((one - other).abs().max().item<float>(), 1e-5) << folder;
  }
}

TEST(Peft, ParameterCountsAreThePapers) {
  const auto count = [](const char* type, std::int64_t layers, const char* key) {
    const ModelConfig config =
        ModelConfig::parse(std::string(R"({"model_type": ")") + type + R"(", "num_labels": 20, ")" + key +
                               "\": " + std::to_string(layers) + R"(, "vocab_size": 30522})",
                           "test");
    ModelConfig labelled = config;
    labelled.set_labels(std::vector<std::string>(20, ""));
    std::vector<std::string> names;
    for (int i = 0; i < 20; ++i) names.push_back("c" + std::to_string(i));
    labelled.set_labels(names);
    const auto model = make_model(labelled, Head::kSequenceClassification);
    AdapterTuning(AdapterTuning::Kind::kPfeiffer, {.width = 32}).attach(*model, {});
    return model->layout().trainable_size();
  };
  // Cai et al. 2023, Table 1: 0.61 M and 0.32 M; by its formula 614,784 and 315,072, plus 20 for the head's bias.
  EXPECT_EQ(count("bert", 12, "num_hidden_layers"), 614784 + 20);
  EXPECT_EQ(count("distilbert", 6, "n_layers"), 315072 + 20);
}

TEST(TunedNetwork, AVariantIsAPartOfTheWhole) {
  const std::string folder = std::string(kParity) + "/bert-seqcls";
  for (const std::string name : {"pfeiffer", "lora", "prefix"}) {
    const std::shared_ptr<const Tuning> tuning = tuning_of(name);
    Loaded tuned = load(folder, tuning.get());
    const int layers = tuned.model->layers();
    const TunedNetwork network(std::move(tuned.model), std::move(tuned.params), tuning);
    const int width = name == "pfeiffer" ? 4 : 2;
    const Variant small{layers - 1, width};
    const TunedNetwork::Part part = network.part(small);
    EXPECT_TRUE(part.params.frozen().is_same(network.params().frozen()));
    const at::Tensor whole = network.params().values()[0];
    EXPECT_TRUE(torch::equal(network.take(small, whole), part.params.values()[0]));
    // Growing keeps what was learnt and, if the added parts start as zero, the function.
    at::Tensor grown = whole.clone();
    const at::Tensor trained = part.params.values()[0] + 0.01;
    network.put(small, trained, grown);
    EXPECT_TRUE(torch::equal(network.take(small, grown), trained));
    EXPECT_EQ((grown != whole).sum().item<std::int64_t>(), trained.size(0));
    if (name == "prefix") continue;
    Params of_part = Params::copies_of(part.params, 1, false), of_whole = Params::copies_of(network.params(), 1, false);
    of_part.values().copy_(trained.unsqueeze(0));
    of_whole.values().copy_(grown.unsqueeze(0));
    const Batch batch = batch_of(network.model(), 1, 9);
    EXPECT_LT(
        (logits_of(part.model, of_part, batch) - logits_of(network.model(), of_whole, batch)).abs().max().item<float>(),
        1e-6)
        << name;
  }
}

TEST(TunedNetwork, OneBottleneckGrowsByRowsAndColumns) {
  const auto tuning = std::make_shared<AdapterTuning>(AdapterTuning::Kind::kPfeiffer, AdapterConfig{.width = 6});
  Loaded tuned = load(std::string(kParity) + "/bert-seqcls", tuning.get());
  const TunedNetwork network(std::move(tuned.model), std::move(tuned.params), tuning);
  const TunedNetwork::Part part = network.part({1, 3});
  const ParamId small = *part.model.layout().find("bert.encoder.layer.1.adapter.0.down.weight");
  const ParamId large = *network.model().layout().find("bert.encoder.layer.1.adapter.0.down.weight");
  EXPECT_TRUE(torch::equal(part.params.tensor(small), network.params().tensor(large).narrow(0, 0, 3)));
}

TEST(Peft, MistakesAreReportedInOneSentence) {
  const std::string folder = std::string(kParity) + "/bert-seqcls";
  EXPECT_NE(message_of<ConfigError>([&] {
              load(folder, std::make_unique<LoraTuning>(LoraConfig{.depth = 9}).get());
            }).find("the model has 2"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] {
              load(folder, std::make_unique<LoraTuning>(LoraConfig{.targets = {"querry"}}).get());
            }).find("no module is called \"querry\"; the layers of this model have dense, key, query, value"),
            std::string::npos);
  const AdapterTuning adapters(AdapterTuning::Kind::kPfeiffer, {.width = 8, .unit = 4});
  EXPECT_NE(message_of<ConfigError>([&] { load(folder, &adapters, {.depth = 1, .width = 6}); }).find("units of 4"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] { load(folder, &adapters, {.depth = 1, .width = 16}); }).find("at most 8"),
            std::string::npos);
  const ModelConfig lstm = ModelConfig::parse(
      R"({"model_type": "lstm", "vocab_size": 97, "embedding_size": 16, "hidden_size": 16, "num_layers": 1})", "lstm");
  const auto model = make_model(lstm, Head::kCausalLm);
  EXPECT_NE(message_of<ConfigError>([&] { adapters.attach(*model, {}); }).find("needs a transformer"),
            std::string::npos);
}

class AdapterFolder : public testing::Test {
 protected:
  TemporaryFolder room_;
  const fs::path folder_ = room_.path();
};

TEST_F(AdapterFolder, ComesBackAsItWasWritten) {
  const std::string base = std::string(kParity) + "/bert-seqcls";
  for (const std::string name : {"lora", "pfeiffer", "houlsby", "prefix"}) {
    const auto tuning = tuning_of(name);
    const Loaded tuned = load(base, tuning.get());
    shake(tuned.params, 11);
    save_adapter(folder_ / name, {*tuned.model, tuned.params, *tuning, tuning->whole(2), base, {}});
    const Pretrained again = load_tuned(base, {}, folder_ / name);
    const Batch batch = batch_of(*tuned.model, 1, 12);
    EXPECT_TRUE(
        torch::equal(logits_of(*tuned.model, tuned.params, batch), logits_of(*again.model, again.params, batch)))
        << name;
  }
}

TEST_F(AdapterFolder, LoraHasPeftsNamesAndShapes) {
  const std::string base = std::string(kParity) + "/bert-seqcls";
  const LoraTuning tuning({.rank = 4, .alpha = 8, .depth = 1});
  const Loaded tuned = load(base, &tuning);
  save_adapter(folder_, {*tuned.model, tuned.params, tuning, {1, 4}, base, {}});
  const SafetensorsFile file = SafetensorsFile::open(folder_ / "adapter_model.safetensors");
  const TensorEntry* a = file.find("base_model.model.bert.encoder.layer.1.attention.self.query.lora_A.weight");
  const TensorEntry* b = file.find("base_model.model.bert.encoder.layer.1.attention.self.value.lora_B.weight");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  const std::int64_t width = tuned.model->config().integer("hidden_size", 0);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{4, width}));
  EXPECT_EQ(b->shape, (std::vector<std::int64_t>{width, 4}));
  EXPECT_NE(file.find("base_model.model.classifier.weight"), nullptr);
  const auto config = nlohmann::json::parse(read_file(folder_ / "adapter_config.json"));
  EXPECT_EQ(config["peft_type"], "LORA");
  EXPECT_EQ(config["r"], 4);
  EXPECT_EQ(config["lora_alpha"], 8);
  EXPECT_EQ(config["task_type"], "SEQ_CLS");
  EXPECT_EQ(config["layers_to_transform"], nlohmann::json({1}));
  EXPECT_EQ(config["modules_to_save"], nlohmann::json({"classifier"}));
}

TEST_F(AdapterFolder, OfAnotherModelIsRefused) {
  const LoraTuning tuning({.rank = 4});
  const std::string base = std::string(kParity) + "/bert-seqcls";
  const Loaded tuned = load(base, &tuning);
  save_adapter(folder_, {*tuned.model, tuned.params, tuning, {2, 4}, base, {}});
  EXPECT_NE(message_of<DataError>([&] {
              load_tuned(std::string(kParity) + "/bert-tokcls", {}, folder_);
            }).find("another model"),
            std::string::npos)
      << "the head has another number of labels";
  const std::string other = std::string(kParity) + "/distilbert-seqcls";
  EXPECT_NE(message_of<Error>([&] { load_tuned(other, {}, folder_); }).find("no module is called \"query\""),
            std::string::npos);
  write_file(folder_ / "adapter_config.json", R"({"peft_type": "IA3"})");
  EXPECT_NE(message_of<DataError>([&] { load_tuned(base, {}, folder_); }).find("\"IA3\" is none that Chorus reads"),
            std::string::npos);
}

}  // namespace
}  // namespace chorus::inline peft
