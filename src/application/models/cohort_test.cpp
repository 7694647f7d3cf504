// One forward and backward pass of three clients equals three passes of one client each, for every model.
#include <gtest/gtest.h>

#include <filesystem>

#include "application/models/batch.h"
#include "application/models/loss.h"
#include "application/models/model.h"
#include "core/base/rng.h"

namespace chorus::inline models {
namespace {

struct Case {
  std::string name;
  std::string config;
};

void PrintTo(const Case& value, std::ostream* out) { *out << value.name; }

// The configurations of the parity fixtures, and the recurrent models, which Hugging Face does not have.
std::vector<Case> cases() {
  std::vector<Case> result;
  for (const auto& entry : std::filesystem::directory_iterator(CHORUS_SOURCE_DIR "/tests/fixtures/parity")) {
    result.push_back({entry.path().filename().string(), (entry.path() / "config.json").string()});
  }
  std::sort(result.begin(), result.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  result.push_back({"t5-gated", R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_ff": 64,
      "d_kv": 8, "d_model": 32, "num_heads": 4, "num_layers": 2, "vocab_size": 97, "decoder_start_token_id": 0,
      "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "pad_token_id": 0})"});
  result.push_back({"bilstm-seqcls", R"({"model_type": "bilstm", "architectures": ["BiLstmForSequenceClassification"],
      "vocab_size": 97, "embedding_size": 16, "hidden_size": 12, "num_layers": 2, "dropout": 0.2})"});
  result.push_back({"bilstm-tokcls", R"({"model_type": "bilstm", "architectures": ["BiLstmForTokenClassification"],
      "vocab_size": 97, "embedding_size": 16, "hidden_size": 12, "num_layers": 1, "pad_token_id": 0})"});
  result.push_back({"lstm-lm", R"({"model_type": "lstm", "architectures": ["LstmForCausalLM"], "vocab_size": 97,
      "embedding_size": 16, "hidden_size": 16, "num_layers": 2, "dropout": 0.1, "tie_word_embeddings": true})"});
  return result;
}

ModelConfig config_of(const Case& value) {
  return value.config[0] == '{' ? ModelConfig::parse(value.config, value.name) : ModelConfig::read(value.config);
}

constexpr std::int64_t kVocabulary = 97;

TokenRow random_row(RandomStream& stream, std::int64_t length, std::int64_t below) {
  TokenRow row;
  for (std::int64_t i = 0; i < length; ++i)
    row.push_back(2 + static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(below - 2))));
  return row;
}

// One client's data: sources, targets and labels of every kind; the head picks what it needs.
struct ClientData {
  std::vector<TokenRow> ids, types, targets, token_labels, target_labels;
  TokenRow labels, starts, ends;
};

ClientData client_data(std::uint64_t client, const std::vector<std::int64_t>& lengths) {
  RandomStream stream({.seed = 3, .purpose = "cohort-test", .client = client});
  ClientData data;
  for (const std::int64_t length : lengths) {
    data.ids.push_back(random_row(stream, length, kVocabulary));
    data.types.push_back(TokenRow(static_cast<std::size_t>(length), 0));
    data.types.back().back() = 1;
    data.token_labels.push_back(TokenRow(static_cast<std::size_t>(length), kIgnore));
    for (auto& label : data.token_labels.back()) {
      if (stream.uniform() < 0.7) label = static_cast<std::int64_t>(stream.below(2));
    }
    const std::int64_t target = 1 + static_cast<std::int64_t>(stream.below(6));
    data.targets.push_back(random_row(stream, target, kVocabulary));
    data.target_labels.push_back(random_row(stream, target, kVocabulary));
    data.labels.push_back(static_cast<std::int64_t>(stream.below(2)));
    data.starts.push_back(static_cast<std::int64_t>(stream.below(static_cast<std::uint64_t>(length))));
    data.ends.push_back(length - 1);
  }
  return data;
}

template <typename T>
std::vector<T> column(const std::vector<ClientData>& cohort, T ClientData::*field) {
  std::vector<T> result;
  for (const ClientData& data : cohort) result.push_back(data.*field);
  return result;
}

struct Prepared {
  Batch batch;
  at::Tensor loss(const Model& model, const at::Tensor& logits, const std::vector<ClientData>& cohort) const {
    const Packing& packing = *batch.packing;
    if (model.head() == Head::kSequenceClassification) {
      const at::Tensor labels = chorus::per_sequence(column(cohort, &ClientData::labels), packing, kIgnore);
      if (logits.size(-1) == 1) return squared_error(logits, labels.to(at::kFloat), packing.sequence_valid());
      return cross_entropy(logits, labels);
    }
    if (model.head() == Head::kQuestionAnswering) {
      return span_loss(logits, chorus::per_sequence(column(cohort, &ClientData::starts), packing, kIgnore),
                       chorus::per_sequence(column(cohort, &ClientData::ends), packing, kIgnore), packing);
    }
    if (model.head() == Head::kCausalLm) {
      const at::Tensor ids = batch.ids.masked_fill(packing.token_valid().logical_not(), kIgnore);
      return cross_entropy(logits, next_token(ids, packing));
    }
    if (model.head() == Head::kSeq2Seq) {
      return cross_entropy(logits,
                           pack_rows(column(cohort, &ClientData::target_labels), *batch.target_packing, kIgnore));
    }
    return cross_entropy(logits, pack_rows(column(cohort, &ClientData::token_labels), packing, kIgnore));
  }
};

Prepared prepare(const Model& model, const std::vector<ClientData>& cohort) {
  Prepared result;
  const bool typed = model.config().has("type_vocab_size") && model.config().integer("type_vocab_size") > 1;
  result.batch = collate(column(cohort, &ClientData::ids), typed ? column(cohort, &ClientData::types) : CohortRows{});
  if (model.head() == Head::kSeq2Seq) collate_target(result.batch, column(cohort, &ClientData::targets));
  return result;
}

class Cohort : public testing::TestWithParam<Case> {
 protected:
  void expect_equal(Model& model, bool with_dropout) {
    const std::vector<ClientData> clients{client_data(0, {3, 9, 1}), client_data(1, {12}),
                                          client_data(2, {5, 5, 2, 7})};
    const std::vector<std::uint64_t> seeds{11, 22, 33};
    Params together(model.layout(), {.clients = 3, .gradients = true});
    for (std::int64_t c = 0; c < 3; ++c) together.client(c).initialise(static_cast<std::uint64_t>(100 + c));
    Dropout dropout = with_dropout ? Dropout(seeds) : Dropout();
    const Prepared all = prepare(model, clients);
    const at::Tensor losses = all.loss(model, model.forward(together, all.batch, dropout).logits, clients);
    losses.sum().backward();

    for (std::int64_t c = 0; c < 3; ++c) {
      Params alone(model.layout(), {.clients = 1, .gradients = true});
      alone.initialise(102);  // frozen parameters: the last one written above
      alone.values().copy_(together.values().narrow(0, c, 1));
      const std::vector<ClientData> one{clients[static_cast<std::size_t>(c)]};
      const Prepared single = prepare(model, one);
      Dropout own = with_dropout ? Dropout({seeds[static_cast<std::size_t>(c)]}) : Dropout();
      const at::Tensor loss = single.loss(model, model.forward(alone, single.batch, own).logits, one);
      loss.sum().backward();
      const float size = loss[0].item<float>();
      EXPECT_NEAR(losses[c].item<float>(), size, 2e-6f * std::max(1.0f, size));
      const float largest = alone.grads().abs().max().item<float>();
      const at::Tensor difference = (together.grads()[c] - alone.grads()[0]).abs();
      EXPECT_LT(difference.max().item<float>(), 3e-6f * std::max(1.0f, largest)) << "client " << c;
      EXPECT_GT(largest, 1e-4f);
    }
  }
};

TEST_P(Cohort, EqualsEachClientAlone) {
  auto model = make_model(config_of(GetParam()));
  expect_equal(*model, false);
}

TEST_P(Cohort, EqualsEachClientAloneWithFrozenLayers) {
  auto model = make_model(config_of(GetParam()));
  model->layout().freeze([&](const ParamSpec& spec) { return spec.layer < model->layers() - 1; });
  EXPECT_LT(model->layout().trainable_size(), model->layout().size());
  expect_equal(*model, false);
}

TEST_P(Cohort, EqualsEachClientAloneWithDropout) {
  auto model = make_model(config_of(GetParam()));
  expect_equal(*model, true);
}

TEST_P(Cohort, EqualsEachClientAloneWithOnlyBiasesTrained) {
  auto model = make_model(config_of(GetParam()));
  const auto is_bias = [](const ParamSpec& spec) { return spec.name.find("bias") != std::string::npos; };
  model->layout().freeze([&](const ParamSpec& spec) { return !is_bias(spec); });
  if (model->layout().trainable_size() == 0) GTEST_SKIP() << "this model has no biases";
  expect_equal(*model, false);
}

/// Two clients with their own values, and the gradients of a pass over their batch.
struct TwoClients {
  explicit TwoClients(const Case& of) : model(make_model(config_of(of))) {
    for (std::int64_t c = 0; c < 2; ++c) params.client(c).initialise(static_cast<std::uint64_t>(100 + c));
  }
  void pass(const Params& with) const {
    Dropout off;
    all.loss(*model, model->forward(with, all.batch, off).logits, clients).sum().backward();
  }
  at::Tensor gradients(const Params& with) {
    params.writes().zero();
    pass(with);
    return params.grads().clone();
  }
  static void expect_equal(const at::Tensor& got, const at::Tensor& wanted) {
    EXPECT_LT((got - wanted).abs().max().item<float>(), 1e-6f * wanted.abs().max().item<float>());
  }

  std::unique_ptr<Model> model;
  std::vector<ClientData> clients{client_data(0, {3, 9, 1}), client_data(1, {12})};
  Params params{model->layout(), {.clients = 2, .gradients = true}};
  Prepared all = prepare(*model, clients);
};

// A step does not depend on the previous contents of the gradients: the first write overwrites them.
TEST_P(Cohort, GradientsDoNotDependOnEarlierSteps) {
  TwoClients two(GetParam());
  const at::Tensor expected = two.gradients(two.params);
  for (int i = 0; i < 2; ++i) {
    two.params.grads().fill_(7);
    two.params.writes().begin();
    two.pass(two.params);
    two.params.writes().end();
    TwoClients::expect_equal(two.params.grads(), expected);
  }
}

// A GradientTaker gets the gradient of each matmul weight once, and may change the values at once.
TEST_P(Cohort, MatmulGradientsCanBeTakenDuringTheBackwardPass) {
  for (const bool bfloat16 : {false, true}) {
    TwoClients two(GetParam());
    Params params = bfloat16 ? two.params.with_shadow() : two.params;
    const at::Tensor expected = two.gradients(params);
    at::Tensor taken = torch::zeros_like(expected), times = torch::zeros({expected.size(1)});
    params.grads().fill_(7);
    params.writes().begin(expected.size(1), [&](std::int64_t offset, const at::Tensor& gradient) {
      const std::int64_t count = gradient.numel() / 2;
      taken.narrow(1, offset, count).copy_(gradient.reshape({2, count}));
      times.narrow(0, offset, count).add_(1);
      for (std::int64_t c = 0; c < 2; ++c) {
        std::fill_n(params.values()[c].data_ptr<float>() + offset, count, std::nanf(""));
        if (bfloat16) std::fill_n(params.shadow().values()[c].data_ptr<at::BFloat16>() + offset, count, std::nanf(""));
      }
    });
    two.pass(params);
    params.writes().end();
    EXPECT_LE(times.max().item<float>(), 1);
    EXPECT_GE(times.sum().item<double>(), 0.9 * static_cast<double>(two.model->layout().matmul_size()));
    TwoClients::expect_equal(torch::where(times.gt(0), taken, params.grads()), expected);
  }
}

// Mixed precision on a CPU: only matmuls are rounded.
TEST_P(Cohort, InBfloat16IsCloseToFloat32) {
  auto model = make_model(config_of(GetParam()));
  const std::vector<ClientData> clients{client_data(0, {3, 9, 1}), client_data(1, {12})};
  const Prepared all = prepare(*model, clients);
  Params params(model->layout(), {.clients = 2, .gradients = true});
  params.initialise(100);
  const auto run = [&](const Params& with) {
    params.writes().zero();
    Dropout dropout({11, 22});
    const at::Tensor loss = all.loss(*model, model->forward(with, all.batch, dropout).logits, clients);
    loss.sum().backward();
    return std::pair(loss.detach(), params.grads().clone());
  };
  const auto [loss, gradients] = run(params);
  const auto [half_loss, half_gradients] = run(params.with_shadow());
  EXPECT_EQ(half_loss.scalar_type(), at::kFloat);
  EXPECT_LT((half_loss - loss).abs().max().item<double>(), 0.02 * loss.abs().max().item<double>());
  EXPECT_LT((half_gradients - gradients).norm().item<double>(), 0.1 * gradients.norm().item<double>());
  EXPECT_FALSE(torch::equal(half_gradients, gradients));
}

INSTANTIATE_TEST_SUITE_P(Models, Cohort, testing::ValuesIn(cases()), [](const auto& param) {
  std::string name = param.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace chorus::inline models
