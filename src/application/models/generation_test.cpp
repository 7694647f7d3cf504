#include "application/models/generation.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "application/models/batch.h"
#include "application/models/pretrained.h"
#include "core/base/error.h"

namespace chorus::inline models {
namespace {

constexpr const char* kFixtures = CHORUS_SOURCE_DIR "/tests/fixtures/parity/";

// Decoding token by token from the cache gives the same logits as one pass over everything, also for prompts of
// different lengths.
TEST(Generation, CacheEqualsFullForward) {
  for (const char* name : {"gpt2-lm", "bart-seq2seq", "t5-seq2seq", "lstm"}) {
    std::unique_ptr<Model> model;
    std::optional<Params> params;
    if (std::string(name) == "lstm") {
      model = make_model(ModelConfig::parse(R"({"model_type": "lstm", "vocab_size": 97, "num_layers": 2})", name),
                         Head::kCausalLm);
      params.emplace(model->layout(), Params::Options{});
      params->initialise(1);
    } else {
      Pretrained loaded = load_pretrained(std::string(kFixtures) + name);
      model = std::move(loaded.model);
      params = loaded.params;
    }
    const auto& generative = dynamic_cast<const GenerativeModel&>(*model);
    const std::vector<TokenRow> sources{{5, 6, 7, 8, 9}, {10, 11}, {12, 13, 14}};
    const std::vector<TokenRow> texts{{20, 21, 22}, {23, 24, 25}, {26, 27, 28}};
    const at::NoGradGuard no_grad;
    DecodeState state = generative.begin(*params, collate({sources}));
    std::vector<TokenRow> full = sources, targets;
    const std::int64_t start = generative.has_encoder() ? *model->config().token("decoder_start_token_id") : 0;
    for (std::size_t t = 0; t < 3; ++t) {
      TokenRow next;
      for (const TokenRow& text : texts) next.push_back(text[t]);
      generative.advance(*params, state, torch::tensor(next, at::kLong));
      for (std::size_t n = 0; n < 3; ++n) full[n].push_back(next[n]);
    }
    for (const TokenRow& text : texts) targets.push_back({start, text[0], text[1], text[2]});
    Batch batch = collate({generative.has_encoder() ? sources : full});
    if (generative.has_encoder()) collate_target(batch, {targets});
    Dropout off;
    const at::Tensor logits = model->forward(*params, batch, off).logits;
    const Packing& packing = generative.has_encoder() ? *batch.target_packing : *batch.packing;
    const at::Tensor last = Packing::pick(logits, packing.last_token()).squeeze(0);
    EXPECT_TRUE(torch::allclose(state.logits, last, 1e-4, 1e-5)) << name;
  }
}

TEST(Generation, OneBeamOfManyNeverRepeatsAnNgram) {
  const Pretrained loaded = load_pretrained(std::string(kFixtures) + "gpt2-lm");
  const auto& model = dynamic_cast<const GenerativeModel&>(*loaded.model);
  for (const std::int64_t beams : {1, 3}) {
    GenerationOptions options{.max_new_tokens = 15, .beams = beams, .no_repeat_ngram = 2};
    const auto text = generate(model, loaded.params, collate({{{1, 2, 3}}}), options)[0];
    EXPECT_EQ(text.size(), 18u);
    std::set<std::pair<std::int64_t, std::int64_t>> pairs;
    for (std::size_t i = 0; i + 1 < text.size(); ++i) EXPECT_TRUE(pairs.insert({text[i], text[i + 1]}).second);
  }
}

TEST(Generation, RefusesWhatDoesNotFit) {
  const Pretrained loaded = load_pretrained(std::string(kFixtures) + "gpt2-lm");
  const auto& model = dynamic_cast<const GenerativeModel&>(*loaded.model);
  const Batch batch = collate({{{1, 2, 3}}});
  EXPECT_THROW(generate(model, loaded.params, batch, {.max_new_tokens = 100}), ConfigError);
  EXPECT_THROW(generate(model, loaded.params, batch, {.max_new_tokens = 0}), ConfigError);
  EXPECT_THROW(generate(model, loaded.params, batch, {.beams = 0}), ConfigError);
  GenerationOptions options;
  options.eos = 5000;
  EXPECT_THROW(generate(model, loaded.params, batch, options), ConfigError);
}

}  // namespace
}  // namespace chorus::inline models
