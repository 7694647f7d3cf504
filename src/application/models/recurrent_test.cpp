// The recurrent models equal LibTorch's own LSTM, on ragged sequences, forward and backward.
#include "application/models/recurrent.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>

#include "application/models/batch.h"
#include "core/device/kernels.h"

namespace chorus::inline models {
namespace {

TEST(Recurrent, EqualsLibTorch) {
  for (const bool bidirectional : {false, true}) {
    const std::string json = fmt::format(
        R"({{"model_type": "{}", "vocab_size": 20, "embedding_size": 6, "hidden_size": 5, "num_layers": 2}})",
        bidirectional ? "bilstm" : "lstm");
    const Head head = bidirectional ? Head::kTokenClassification : Head::kCausalLm;
    const auto model = make_model(ModelConfig::parse(json, "test"), head);
    Params params(model->layout(), {.clients = 1, .gradients = true});
    params.initialise(4);
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(6, 5).num_layers(2).bidirectional(bidirectional));
    for (auto& item : lstm->named_parameters()) {
      const at::NoGradGuard no_grad;
      item.value().copy_(params.tensor(*model->layout().find("lstm." + item.key())));
    }

    const std::vector<TokenRow> rows{{3, 4, 5}, {6}, {7, 8, 9, 10, 11, 12}};
    Dropout off;
    const Batch batch = collate({rows});
    const at::Tensor got = model->forward(params, batch, off).hidden;
    got.pow(2).sum().backward();

    at::Tensor total = torch::zeros({});
    std::int64_t column = 0;
    const at::Tensor table = params.tensor(*model->layout().find("embedding.weight"));
    for (const TokenRow& row : rows) {
      const at::Tensor x = table.index_select(0, torch::tensor(row, at::kLong)).unsqueeze(1);
      const at::Tensor wanted = std::get<0>(lstm->forward(x)).squeeze(1);
      const auto length = static_cast<std::int64_t>(row.size());
      EXPECT_TRUE(torch::allclose(got[0].narrow(0, column, length), wanted, 1e-5, 1e-6));
      total = total + wanted.pow(2).sum();
      column += length;
    }
    total.backward();
    for (auto& item : lstm->named_parameters()) {
      const at::Tensor own = params.gradient(*model->layout().find("lstm." + item.key()));
      EXPECT_TRUE(torch::allclose(own, item.value().grad(), 1e-4, 1e-6)) << item.key();
    }
  }
}

// A cohort with the kernel of ops/lstm.cpp and with operators: states, last states and all gradients.
TEST(Recurrent, StepsOfAKernelEqualThoseOfOperators) {
  const std::string json =
      R"({"model_type": "bilstm", "vocab_size": 20, "embedding_size": 6, "hidden_size": 5, "num_layers": 2,
          "id2label": {"0": "a", "1": "b", "2": "c"}})";
  const Batch batch = collate({{{3, 4, 5}, {6}, {7, 8, 9, 10, 11, 12}}, {{1, 2}}, {{5, 5, 5}, {9, 8, 7}}});
  for (const Head head : {Head::kSequenceClassification, Head::kTokenClassification}) {
    const auto model = make_model(ModelConfig::parse(json, "test"), head);
    const auto run = [&](bool fast) {
      use_fast_kernels(fast);
      Params params(model->layout(), {.clients = 3, .gradients = true});
      params.initialise(4);
      Dropout off;
      const Output output = model->forward(params, batch, off);
      const at::Tensor valid =
          head == Head::kTokenClassification ? batch.packing->token_valid() : batch.packing->sequence_valid();
      const at::Tensor logits = output.logits * valid.unsqueeze(2);
      logits.pow(2).sum().backward();
      use_fast_kernels(true);
      return std::pair(logits.detach(), params.grads().clone());
    };
    const auto [fast, fast_gradients] = run(true);
    const auto [plain, plain_gradients] = run(false);
    EXPECT_TRUE(torch::allclose(fast, plain, 1e-5, 1e-6));
    EXPECT_TRUE(torch::allclose(fast_gradients, plain_gradients, 1e-4, 1e-6));
  }
}

}  // namespace
}  // namespace chorus::inline models
