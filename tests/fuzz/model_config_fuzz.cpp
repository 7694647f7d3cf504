// Any config.json is refused with a DataError or a ConfigError, or describes a network that can be computed
// (tools/fuzz): a server sends this file to its clients. The bytes are the file, or choose changes of a tiny network's.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "application/models/batch.h"
#include "application/models/model_family.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"
#include "tests/fuzz/dice.h"
#include "tests/tiny_network.h"

namespace chorus::inline fuzz {
namespace {

constexpr std::int64_t kMostElements = 20'000;  // of a network that is tried

nlohmann::json some_value(Dice& dice) {
  switch (dice.below(10)) {
    case 0:
      return nullptr;
    case 1:
      return true;
    case 2:
      return dice.text(8);
    case 3:
      return nlohmann::json::array({dice.below(5)});
    case 4:
      return 0.5;
    case 5:
      return -static_cast<int>(dice.below(3));
    case 6:
      return std::int64_t{1} << dice.below(63);
    case 7:
      return std::ldexp(dice.below(2) == 1 ? -1.0 : 1.0, static_cast<int>(dice.below(2000)) - 1000);
    default:
      return dice.below(40);
  }
}

std::string some_config(Dice& dice) {
  if (dice.below(4) == 3) {
    std::string text;
    while (!dice.over()) text += static_cast<char>(dice.byte());
    return text;
  }
  nlohmann::json json = tiny_network(Models::names()[dice.below(Models::names().size())]);
  static const std::vector<std::string> kOthers{"max_position_embeddings",
                                                "n_positions",
                                                "type_vocab_size",
                                                "pad_token_id",
                                                "layer_norm_eps",
                                                "initializer_range",
                                                "initializer_factor",
                                                "num_labels",
                                                "id2label",
                                                "architectures",
                                                "tie_word_embeddings",
                                                "hidden_act",
                                                "dropout",
                                                "hidden_dropout_prob",
                                                "relative_attention_num_buckets",
                                                "relative_attention_max_distance",
                                                "num_decoder_layers",
                                                "feed_forward_proj",
                                                "scale_embedding",
                                                "forced_bos_token_id",
                                                "eos_token_id",
                                                "activation_function",
                                                "layer_norm_epsilon",
                                                "classifier_dropout",
                                                "model_type"};
  for (std::size_t i = 1 + dice.below(4); i > 0; --i) {
    const std::size_t which = dice.below(json.size() + kOthers.size());
    auto found = json.begin();
    std::advance(found, static_cast<std::ptrdiff_t>(std::min(which, json.size() - 1)));
    const std::string key = which < json.size() ? found.key() : kOthers[which - json.size()];
    json[key] = some_value(dice);
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void try_network(const Model& model) {
  if (model.layout().size() <= 0) std::abort();
  if (model.layout().size() > kMostElements) return;
  Params params(model.layout(), {});
  params.initialise(1);
  const CohortRows rows{{TokenRow(model.max_length() == 1 ? 1 : 2, 0), {0}}};
  Batch batch = collate(rows);
  if (model.head() == Head::kSeq2Seq) collate_target(batch, rows);
  const at::NoGradGuard no_grad;
  Dropout off;
  (void)model.forward(params, batch, off);
}

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  static const TorchThreads kOne(1);
  Dice dice(bytes, size);
  const std::string text = some_config(dice);
  for (const Head head : all_heads()) {
    try {
      const ModelConfig config = ModelConfig::parse(text, "fuzz");
      (void)config.labels();
      (void)config.dump();
      const auto model = make_model(config, head);
      try_network(*model);
    } catch (const DataError&) {  // what the client's log says
    } catch (const ConfigError&) {
    } catch (const std::exception& error) {
      std::fprintf(stderr, "finding: %s with %s\n", error.what(), text.c_str());
      std::abort();
    }
  }
  return 0;
}
