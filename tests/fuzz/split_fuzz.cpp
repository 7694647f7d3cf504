// Split learning with peers that send anything that a frame can carry instead of activations, labels and gradients
// (tools/fuzz): a DataError, or a step of training after which the values are finite.
#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "application/tasks/encode_split.h"
#include "application/tasks/tiny_world_test.h"
#include "application/trainer/split_training.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/device/torch_runtime.h"
#include "tests/fuzz/forgery.h"
#include "tests/tiny_network.h"

namespace chorus::inline fuzz {
namespace {

/// A client's texts and a small network.
struct Network {
  Network(Formulation formulation, const std::string& task_name, const std::string& type)
      : data(tiny::dataset(formulation, 8, 2)), words(tiny::tokenizer(data)) {
    nlohmann::json json = tiny_network(type, words->vocabulary_size(), 2);
    json["num_decoder_layers"] = 1;
    json["pad_token_id"] = 0;
    ModelConfig config = ModelConfig::parse(json.dump(), type);
    TaskInput input = TaskInput::of(data, words);
    input.model = config;
    task = Tasks::make(task_name, input);
    if (!task->head_labels().empty()) config.set_labels(task->head_labels());
    model = make_model(config, task->head());
    params.emplace(model->layout(), Params::Options{});
    params->initialise(3);
    const auto encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
    client = {7, task->client_data(encoded, data.split(Split::kTrain).first(6)), 6};
  }

  Dataset data;
  std::shared_ptr<const Tokenizer> words;
  std::unique_ptr<Task> task;
  std::unique_ptr<Model> model;
  std::optional<Params> params;
  TrainClient client;
};

Message forged_copy(const Message& honest, Dice& dice) {
  Message message = honest;
  for (std::size_t i = dice.below(4); i > 0; --i) forge(message, dice);
  return message;
}

bool moderate(const Message& message) {
  for (const auto& entry : message.tensors) {
    if (!entry.second.is_floating_point() || entry.second.numel() == 0) continue;
    if (!(entry.second.to(at::kDouble).abs().max().item<double>() < 1e3)) return false;
  }
  return true;
}

void exchange(const Network& network, const SplitCut& cut, Dice& dice) {
  static const auto kHow =
      ConfigDocument::parse("{batch_size: 3, learning_rate: 0.01, clip: 0, optimizer: sgd}", "fuzz")
          .load<TrainerConfig>();
  const TrainerInput trainer{*network.task, *network.model, *network.params};
  const SplitTrainingDesk desk(trainer, kHow, 1, 1);
  const SplitParts parts = desk.parts(cut);
  const at::Tensor start = network.params->values()[0];
  const auto client =
      split_client({trainer, kHow, network.client, {1, 2, 1}, cut, {}, start.index_select(0, parts.client), 2});
  const auto server = desk.server(cut, start.index_select(0, parts.server), 2);
  server->begin(client->steps());
  bool tame = true;
  while (!client->done()) {
    const Message up = forged_copy(client->forward(), dice);
    Message down;
    tame = tame && moderate(up);
    if (cut.labels_stay) {
      const Message hidden = forged_copy(server->forward(7, up), dice);
      tame = tame && moderate(hidden);
      const Message gradient = forged_copy(client->answer(hidden), dice);
      tame = tame && moderate(gradient);
      down = forged_copy(server->backward(gradient), dice);
    } else {
      down = forged_copy(server->answer(7, up), dice);
    }
    tame = tame && moderate(down);
    if (tame && !at::isfinite(server->values()).all().item<bool>()) std::abort();
    client->backward(down);
  }
}

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  static const TorchThreads kOne(1);
  static const std::vector<Network>* const kNetworks = [] {
    auto* all = new std::vector<Network>();
    all->reserve(4);
    all->emplace_back(Formulation::kTextClassification, "text_classification", "bert");
    all->emplace_back(Formulation::kSpanExtraction, "span_extraction", "bert");
    all->emplace_back(Formulation::kLanguageModel, "causal_lm", "gpt2");
    all->emplace_back(Formulation::kSeq2Seq, "seq2seq", "t5");
    return all;
  }();
  Dice dice(bytes, size);
  const Network& network = (*kNetworks)[dice.below(kNetworks->size())];
  const bool labels_stay = dice.below(2) == 1;
  const int most = network.model->cuts() - (labels_stay ? 1 : 0);
  try {
    exchange(network, {static_cast<int>(dice.below(static_cast<std::size_t>(most) + 1)), labels_stay}, dice);
  } catch (const DataError&) {  // that client fails
  } catch (const std::exception& error) {
    std::fprintf(stderr, "finding: %s\n", error.what());
    std::abort();
  }
  return 0;
}
