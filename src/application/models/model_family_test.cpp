// What a family's registration says, compared with Hugging Face's names and the networks themselves.
#include "application/models/model_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>

#include "application/models/batch.h"
#include "application/models/model.h"
#include "core/base/error.h"
#include "tests/support.h"
#include "tests/tiny_network.h"

namespace chorus::inline models {
namespace {

using testing::HasSubstr;

ModelConfig tiny_config(const std::string& type) {
  ModelConfig config = ModelConfig::parse(tiny_network(type).dump(), type);
  config.set_labels({"a", "b", "c"});
  return config;
}

// The names of transformers 5.22 (modeling_auto.py), or ours if Hugging Face has no such network.
TEST(ModelFamilies, HaveHuggingFacesClassNames) {
  const std::map<std::string, std::vector<std::string>> names{
      {"bert",
       {"BertForMaskedLM", "BertForQuestionAnswering", "BertForSequenceClassification", "BertForTokenClassification",
        "BertModel"}},
      {"roberta",
       {"RobertaForMaskedLM", "RobertaForQuestionAnswering", "RobertaForSequenceClassification",
        "RobertaForTokenClassification", "RobertaModel"}},
      {"distilbert",
       {"DistilBertForMaskedLM", "DistilBertForQuestionAnswering", "DistilBertForSequenceClassification",
        "DistilBertForTokenClassification", "DistilBertModel"}},
      {"gpt2", {"GPT2LMHeadModel", "GPT2Model"}},
      {"bart", {"BartForConditionalGeneration"}},
      {"t5", {"T5ForConditionalGeneration"}},
      {"bilstm", {"BiLstmForSequenceClassification", "BiLstmForTokenClassification"}},
      {"lstm", {"LstmForCausalLM"}}};
  EXPECT_EQ(names.size(), Models::names().size());
  for (const auto& [type, expected] : names) {
    const ModelFamily family = family_of(tiny_config(type));
    std::vector<std::string> found;
    for (const Head head : family.heads) found.push_back(family.class_name(head));
    EXPECT_THAT(found, testing::UnorderedElementsAreArray(expected)) << type;
  }
}

TEST(ModelFamilies, BuildTheHeadsTheyDeclareAndNoOthers) {
  for (const std::string& type : Models::names()) {
    const ModelConfig config = tiny_config(type);
    const ModelFamily family = family_of(config);
    for (const Head head : all_heads()) {
      if (!family.has(head)) {
        EXPECT_THAT(message_of<ConfigError>([&] { make_model(config, head); }),
                    HasSubstr(type + " models have no " + name_of(head) + " head"));
        continue;
      }
      SCOPED_TRACE(type + " " + name_of(head));
      const auto model = make_model(config, head);
      EXPECT_EQ(model->head(), head);
      ModelConfig saved = config;
      saved.set_architecture(family.class_name(head));
      ASSERT_TRUE(saved.head().has_value());
      EXPECT_EQ(*saved.head(), head) << "a saved model comes back with its head";

      Params params(model->layout(), {.clients = 1, .gradients = false});
      params.initialise(1);
      Batch batch = collate({{{2, 5, 9, 3}, {2, 7, 3}}});
      if (head == Head::kSeq2Seq) collate_target(batch, {{{0, 4}, {0, 6, 8}}});
      const at::NoGradGuard no_grad;
      Dropout off;
      const Output output = model->forward(params, batch, off);
      EXPECT_EQ(output.hidden.size(-1), model->width());
      const Output answer = model->answer(params, batch, off);
      EXPECT_EQ(answer.logits.defined(), output.logits.defined());
      EXPECT_TRUE(!answer.logits.defined() || answer.logits.allclose(output.logits, 1e-5, 1e-6));
      if (answer.logits.defined()) {
        Dropout one({7}), other({7});
        const at::Tensor masked = model->forward(params, batch, one).logits;
        EXPECT_EQ(masked.allclose(output.logits, 1e-5, 1e-6), one.calls() == 0) << "dropout has an effect";
        EXPECT_TRUE(model->answer(params, batch, other).logits.allclose(masked, 1e-5, 1e-6)) << "the same masks";
      }
      if (head == Head::kNone) {
        EXPECT_FALSE(output.logits.defined());
        continue;
      }
      const std::int64_t tokens = head == Head::kSeq2Seq ? 5 : 7;
      EXPECT_EQ(output.logits.size(1), head->per_sequence ? 2 : tokens);
      EXPECT_EQ(output.logits.size(2), head->labelled ? 3 : head == Head::kQuestionAnswering ? 2 : model->vocabulary());
      int answers = 0;
      for (const ParamSpec& spec : model->layout().specs()) answers += model->is_answer(spec) ? 1 : 0;
      EXPECT_EQ(answers, head->labelled || head == Head::kQuestionAnswering ? 2 : 0) << "a weight and a bias";
    }
  }
}

TEST(ModelFamilies, BodyPrefixesAreThoseOfTheTensors) {
  for (const std::string& type : Models::names()) {
    const ModelFamily family = family_of(tiny_config(type));
    const auto model = make_model(tiny_config(type), family.heads.back());
    for (const ParamSpec& spec : model->layout().specs()) {
      EXPECT_TRUE(spec.layer == kHeadLayer || spec.name.starts_with(family.body_prefix)) << spec.name;
    }
  }
}

TEST(ModelFamilies, LoraTargetsAreModulesOfTheNetwork) {
  for (const std::string& type : Models::names()) {
    const ModelFamily family = family_of(tiny_config(type));
    const auto model = make_model(tiny_config(type), family.heads.back());
    EXPECT_EQ(family.lora_targets.empty(), model->slots().empty()) << type;
    for (const LayerSlots& slot : model->slots()) {
      for (const std::string& target : family.lora_targets) {
        int matches = 0;
        for (const Linear* linear : slot.linears) {
          EXPECT_EQ(linear->transposed, family.transposed) << type;
          matches += model->layout()[linear->weight].name.ends_with("." + target + ".weight") ? 1 : 0;
        }
        EXPECT_GE(matches, 1) << type << " " << target;
      }
    }
  }
}

// A server sends this file to its clients.
TEST(ModelFamilies, SizesThatNoNetworkHasAreRefused) {
  for (const auto& [key, value] : std::map<std::string, std::int64_t>{
           {"hidden_size", 1 << 25}, {"num_hidden_layers", 1025}, {"num_labels", 2'000'000'000}}) {
    nlohmann::json json = tiny_network("bert");
    json[key] = value;
    const auto config = ModelConfig::parse(json.dump(), "c.json");
    EXPECT_THAT(message_of<DataError>([&] { make_model(config, Head::kSequenceClassification); }), HasSubstr(key));
  }
  nlohmann::json json = tiny_network("t5");
  json["num_heads"] = json["d_kv"] = json["d_model"] = 1 << 24;
  const auto config = ModelConfig::parse(json.dump(), "c.json");
  EXPECT_THAT(message_of<DataError>([&] { make_model(config, Head::kSeq2Seq); }), HasSubstr("is too large"));
}

TEST(ModelFamilies, UnknownOnesAreNamed) {
  EXPECT_THAT(message_of<DataError>([] { family_of(ModelConfig::parse("{}", "c.json")); }), HasSubstr("'model_type'"));
  EXPECT_THAT(message_of<DataError>([] { family_of(ModelConfig::parse(R"({"model_type": "brt"})", "c.json")); }),
              testing::AllOf(HasSubstr("c.json"), HasSubstr("brt"), HasSubstr("bert")));
}

TEST(ModelFamilies, KnowTheKeysThatTheyRead) {
  for (const std::string& type : Models::names()) {
    ModelConfig config = ModelConfig::parse(R"({"model_type": ")" + type + R"(", "decoder_start_token_id": 0,
        "eos_token_id": 1, "num_labels": 2, "vocab_size": 50})",
                                            "model.fresh");
    EXPECT_NO_THROW(require_known_keys(config)) << type;
    config.set_text("colour", "red");
    EXPECT_THAT(message_of<ConfigError>([&] { require_known_keys(config); }),
                HasSubstr("model.fresh: a " + type + " network has no setting 'colour'"));
  }
  EXPECT_THAT(message_of<ConfigError>([] {
                require_known_keys(ModelConfig::parse(R"({"model_type": "bert", "hiden_size": 32})", "model.fresh"));
              }),
              HasSubstr("'hiden_size'; did you mean 'hidden_size'?"));
}

TEST(Heads, ComeFromClassNames) {
  const auto head_of = [](const std::string& name) {
    return ModelConfig::parse(R"({"architectures": [")" + name + R"("]})", "test").head();
  };
  EXPECT_EQ(head_of("BertForMaskedLM"), Head::kMaskedLm);
  EXPECT_EQ(head_of("GPT2LMHeadModel"), Head::kCausalLm) << "not the bare Model";
  EXPECT_EQ(head_of("LlamaForCausalLM"), Head::kCausalLm);
  EXPECT_EQ(head_of("RobertaModel"), Head::kNone);
  EXPECT_FALSE(head_of("BertForNextSentencePrediction").has_value());
  EXPECT_EQ(head_named("seq2seq"), Head::kSeq2Seq);
  EXPECT_THAT(message_of<ConfigError>([] { head_named("seq2sec"); }), HasSubstr("seq2seq"));
}

}  // namespace
}  // namespace chorus::inline models
