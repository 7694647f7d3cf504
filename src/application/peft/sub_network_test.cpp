#include "application/peft/sub_network.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "application/models/batch.h"
#include "application/peft/layer_tuning.h"
#include "application/peft/tuned_network.h"
#include "core/base/error.h"

namespace chorus::inline peft {
namespace {

constexpr const char* kNetworks[] = {
    R"({"model_type": "bert", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 12, "max_position_embeddings": 20})",
    R"({"model_type": "roberta", "vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2,
        "intermediate_size": 12, "max_position_embeddings": 20})",
    R"({"model_type": "distilbert", "vocab_size": 30, "dim": 8, "n_layers": 3, "n_heads": 2, "hidden_dim": 12,
        "max_position_embeddings": 20})",
    R"({"model_type": "gpt2", "vocab_size": 30, "n_embd": 8, "n_layer": 3, "n_head": 2, "n_inner": 12,
        "n_positions": 20})"};

TunedNetwork network_of(const char* text) {
  const ModelConfig config = ModelConfig::parse(text, "test");
  auto model = make_model(config, config.model_type() == "gpt2" ? Head::kCausalLm : Head::kTokenClassification);
  Params params(model->layout(), Params::Options{.clients = 1, .gradients = false});
  params.initialise(5);
  return {std::move(model), std::move(params), std::make_shared<FullTuning>(FullTuningConfig{})};
}

at::Tensor answers(const Model& model, const Params& params) {
  Dropout off;
  return model.forward(params, collate({{{3, 4, 5, 6}, {7, 8}}}), off).logits;
}

// A narrower network answers as the whole does where the units it lacks are silent.
TEST(SubNetwork, ANarrowPartIsTheWholeWithoutItsLastUnits) {
  for (const char* text : kNetworks) {
    const TunedNetwork network = network_of(text);
    EXPECT_EQ(network.whole(), (Variant{3, 12}));
    const Variant narrow{3, 5};
    const TunedNetwork::Part part = network.part(narrow);
    EXPECT_LT(part.model.layout().trainable_size(), network.model().layout().trainable_size());
    const at::Tensor whole = network.params().values()[0].clone();
    // Silent: what the last layer of a sublayer makes of them is 0.
    for (const ParamSpec& spec : network.model().layout().specs()) {
      const bool out = spec.name.ends_with("output.dense.weight") || spec.name.ends_with("ffn.lin2.weight");
      if (out && spec.shape[1] == 12) whole.narrow(0, spec.offset, spec.count).view({8, 12}).narrow(1, 5, 7).zero_();
      if (spec.name.ends_with("mlp.c_proj.weight")) {
        whole.narrow(0, spec.offset, spec.count).view({12, 8}).narrow(0, 5, 7).zero_();
      }
    }
    Params silent = Params::copies_of(network.params(), 1, false), own = Params::copies_of(part.params, 1, false);
    silent.values().copy_(whole.unsqueeze(0));
    own.values().copy_(network.take(narrow, whole).unsqueeze(0));
    EXPECT_TRUE(torch::allclose(answers(part.model, own), answers(network.model(), silent), 1e-5, 1e-6)) << text;
  }
}

TEST(SubNetwork, AShallowPartHasTheFirstLayersAndTheHead) {
  const TunedNetwork network = network_of(kNetworks[0]);
  const TunedNetwork::Part part = network.part({.depth = 1, .width = 12});
  EXPECT_EQ(part.model.layers(), 1);
  const Layout& layout = part.model.layout();
  const Layout& all = network.model().layout();
  for (const ParamSpec& spec : layout.specs()) {
    const ParamSpec& same = all[*all.find(spec.name)];
    EXPECT_TRUE(torch::equal(part.params.values()[0].narrow(0, spec.offset, spec.count),
                             network.params().values()[0].narrow(0, same.offset, same.count)))
        << spec.name;
  }
  EXPECT_FALSE(layout.find("bert.encoder.layer.1.output.dense.weight").has_value());
  EXPECT_TRUE(layout.find("classifier.weight").has_value());
  // What is outside the part stays.
  const at::Tensor values = torch::zeros_like(network.params().values()[0]);
  const at::Tensor ones = torch::ones({layout.trainable_size()});
  network.put({.depth = 1, .width = 12}, ones, values);
  EXPECT_EQ(values.sum().item<double>(), static_cast<double>(layout.trainable_size()));
  EXPECT_THROW(network.part({.depth = 4, .width = 12}), ConfigError);
  EXPECT_THROW(network.part({.depth = 1, .width = 13}), ConfigError);
  EXPECT_THROW(network.part({.depth = 0, .width = 1}), ConfigError);
}

}  // namespace
}  // namespace chorus::inline peft
