#include "application/models/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "application/models/ops/lstm.h"
#include "core/base/error.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline models {
namespace {

std::unique_ptr<ModelFamily> recurrent_family(bool bidirectional, const std::string& class_prefix,
                                              const std::vector<Head>& heads) {
  return std::make_unique<ModelFamily>(ModelFamily{
      .make = [bidirectional](const ModelConfig& config,
                              Head head) { return std::make_unique<Recurrent>(config, head, bidirectional); },
      .class_prefix = class_prefix,
      .heads = heads,
      .takes_modules = true});
}

const Registration<Models> kBilstm{
    "bilstm", "bidirectional LSTM for classification and tagging", [] {
      return recurrent_family(true, "BiLstm", {Head::kSequenceClassification, Head::kTokenClassification});
    }};
const Registration<Models> kLstm{"lstm", "LSTM causal language model",
                                 [] { return recurrent_family(false, "Lstm", {Head::kCausalLm}); }};

// The length of the shortest sequence; 0 if a client has fewer sequences than others.
std::int64_t shortest_of(const Packing& packing) {
  std::int64_t shortest = packing.longest();
  for (const auto& lengths : packing.lengths()) {
    if (static_cast<std::int64_t>(lengths.size()) < packing.sequences()) return 0;
    shortest = std::min(shortest, *std::min_element(lengths.begin(), lengths.end()));
  }
  return shortest;
}

struct Cell {
  at::Tensor h, c;
  void step(const at::Tensor& from_input, const at::Tensor& from_state) {
    const std::vector<at::Tensor> gates = (from_input + from_state).chunk(4, -1);
    c = torch::sigmoid(gates[1]) * c + torch::sigmoid(gates[0]) * torch::tanh(gates[2]);
    h = torch::sigmoid(gates[3]) * torch::tanh(c);
  }
};

}  // namespace

Recurrent::Recurrent(const ModelConfig& config, Head head, bool bidirectional)
    : GenerativeModel(config, head),
      vocabulary_(config.integer("vocab_size")),
      width_(config.integer("embedding_size", 128)),
      hidden_(config.integer("hidden_size", 256)),
      bidirectional_(bidirectional),
      dropout_(config.probability("dropout", 0)) {
  words_ = Embedding::add(layout_, "embedding", vocabulary_, width_, Init::uniform(0.1));
  words_.padding = config.token("pad_token_id").value_or(-1);
  const std::int64_t count = config.layers("num_layers", 1, 1);
  const std::int64_t directions = bidirectional ? 2 : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    layout_.begin_layer(static_cast<int>(i));
    const std::int64_t in = i == 0 ? width_ : directions * hidden_;
    Layer layer;
    for (std::int64_t d = 0; d < directions; ++d) layer.push_back(add_direction(i, in, d == 1));
    layers_.push_back(layer);
  }
  layout_.begin_layer(kHeadLayer);
  const double bound = 1 / std::sqrt(static_cast<double>(directions * hidden_));
  if (add_module(bound)) return;
  if (head == Head::kCausalLm && config.flag("tie_word_embeddings", false)) {
    if (hidden_ != width_) {
      throw DataError(fmt::format("{}: tied embeddings need hidden_size {} to equal embedding_size {}", config.origin(),
                                  hidden_, width_));
    }
    lm_table_ = words_.table;
    layout_.mark_head_table(lm_table_);
    lm_bias_ = layout_.add("output.bias", {vocabulary_}, Init::zeros());
    return;
  }
  const std::int64_t out = head == Head::kCausalLm ? vocabulary_ : static_cast<std::int64_t>(config.labels().size());
  output_ = Linear::add(layout_, head == Head::kCausalLm ? "output" : "classifier", {directions * hidden_, out},
                        Init::uniform(bound));
  if (head != Head::kCausalLm) mark_answer(output_);
}

Recurrent::Direction Recurrent::add_direction(std::int64_t layer, std::int64_t in, bool backward) {
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(hidden_)));
  const std::string suffix = fmt::format("_l{}{}", layer, backward ? "_reverse" : "");
  Direction direction;
  direction.input.weight = layout_.add("lstm.weight_ih" + suffix, {4 * hidden_, in}, init);
  direction.state.weight = layout_.add("lstm.weight_hh" + suffix, {4 * hidden_, hidden_}, init);
  direction.input.bias = layout_.add("lstm.bias_ih" + suffix, {4 * hidden_}, init);
  direction.state.bias = layout_.add("lstm.bias_hh" + suffix, {4 * hidden_}, init);
  return direction;
}

std::pair<at::Tensor, at::Tensor> Recurrent::scan(const Direction& direction, const Params& params, const at::Tensor& x,
                                                  const Packing& packing, bool backward) const {
  const std::int64_t clients = packing.clients(), sequences = packing.sequences(), longest = packing.longest();
  const at::Tensor projected = direction.input(params, x);  // [C, T, 4h]
  const LstmSteps fast{direction.state.weight, direction.state.bias, backward};
  if (lstm_can(params, fast, projected)) return lstm(params, fast, projected, packing);
  // Columns of step t of each sequence, [C, L, B]; a finished sequence repeats its last token and keeps its state.
  const at::Tensor lengths = packing.last_token() - packing.first_token() + 1;  // [C, B]
  const at::Tensor steps = torch::arange(longest, lengths.options()).view({1, longest, 1});
  const at::Tensor last = (lengths - 1).unsqueeze(1);
  const at::Tensor place = torch::minimum((backward ? last - steps : steps).clamp_min(0), last);
  const at::Tensor columns = packing.first_token().unsqueeze(1) + place;
  // All at once: if each step were picked separately, its gradient would be as large as the whole.
  const std::vector<at::Tensor> inputs =
      Packing::pick(projected, columns.flatten(1)).view({clients, longest, sequences, -1}).unbind(1);
  const at::Tensor running = lengths.unsqueeze(1).gt(steps).logical_and(packing.sequence_valid().unsqueeze(1));
  const std::int64_t shortest = shortest_of(packing);
  const at::Tensor zero = torch::zeros({clients, sequences, hidden_}, projected.options());
  Cell cell{zero, zero};
  std::vector<at::Tensor> states;
  states.reserve(static_cast<std::size_t>(longest));
  for (std::int64_t t = 0; t < longest; ++t) {
    const Cell before = cell;
    cell.step(inputs[static_cast<std::size_t>(t)], direction.state(params, cell.h));
    if (t >= shortest) {
      const at::Tensor still = running.select(1, t).unsqueeze(-1);
      cell.h = torch::where(still, cell.h, before.h);
      cell.c = torch::where(still, cell.c, before.c);
    }
    states.push_back(cell.h);
  }
  // Back to packed order: token (b, i) was computed at step i, or length - 1 - i if backward.
  const at::Tensor all = torch::stack(states, 1).flatten(1, 2);  // [C, L * B, h]
  at::Tensor step = packing.positions();
  if (backward) step = (lengths.gather(1, packing.owner()) - 1 - step).clamp_min(0);
  return {Packing::pick(all, step * sequences + packing.owner()), cell.h};
}

at::Tensor Recurrent::logits(const Params& params, const at::Tensor& hidden) const {
  if (!lm_table_.exists()) return output_(params, hidden);
  return project_to_table(params, lm_table_, hidden) + over_tokens(params, lm_bias_);
}

Output Recurrent::forward(const Params& params, const Batch& batch, Dropout& dropout) const {
  const Packing& packing = *batch.packing;
  at::Tensor x = words_(params, batch.ids);
  std::vector<at::Tensor> ends;
  for (const Layer& layer : layers_) {
    x = dropout.hidden(x, dropout_);
    std::vector<at::Tensor> outputs;
    ends.clear();
    for (std::size_t d = 0; d < layer.size(); ++d) {
      auto [states, end] = scan(layer[d], params, x, packing, d == 1);
      outputs.push_back(states);
      ends.push_back(end);
    }
    x = outputs.size() == 1 ? outputs[0] : torch::cat(outputs, -1);
  }
  if (module_) return module_->apply(params, batch, dropout.hidden(x, dropout_), dropout);
  at::Tensor answer = x;
  if (head_ == Head::kSequenceClassification) answer = torch::cat(ends, -1);
  if (head_ == Head::kCausalLm && batch.wanted.defined()) answer = Packing::pick(x, batch.wanted);
  answer = dropout.hidden(answer, dropout_);
  if (head_ != Head::kCausalLm) return {logits(params, answer), x};
  const LanguageHead head =
      lm_table_.exists() ? LanguageHead{lm_table_, lm_bias_} : LanguageHead{output_.weight, output_.bias};
  return language_output(params, head, batch, answer, x);
}

DecodeState Recurrent::begin(const Params& params, const Batch& batch) const {
  check(!bidirectional_, "a bidirectional network cannot write");
  DecodeState state;
  const Packing& packing = *batch.packing;
  const std::int64_t sequences = packing.total_sequences();
  const at::Tensor zero = torch::zeros({sequences, hidden_}, params.values().options());
  state.layers.resize(layers_.size());
  for (auto& layer : state.layers) {
    layer.self.keys = layer.self.values = zero;
    layer.self.attendable = torch::ones({sequences, 1}, batch.ids.options().dtype(at::kBool));
  }
  state.positions = torch::zeros({sequences}, batch.ids.options());
  // Prompts have different lengths: a sequence at its end keeps its state and its logits.
  const std::vector<std::int64_t>& lengths = packing.lengths()[0];
  const at::Tensor first = packing.first_token().squeeze(0);
  const at::Tensor length = sent_to(batch.ids.device(), torch::tensor(lengths, at::kLong));
  for (std::int64_t t = 0; t < packing.longest(); ++t) {
    const DecodeState before = state;
    const at::Tensor column = first + torch::minimum(torch::full_like(length, t), length - 1);
    advance(params, state, batch.ids.squeeze(0).index_select(0, column));
    const at::Tensor running = length.gt(t).unsqueeze(-1);
    for (std::size_t i = 0; i < state.layers.size(); ++i) {
      KeyValueCache& now = state.layers[i].self;
      now.keys = torch::where(running, now.keys, before.layers[i].self.keys);
      now.values = torch::where(running, now.values, before.layers[i].self.values);
    }
    if (t > 0) state.logits = torch::where(running, state.logits, before.logits);
  }
  state.positions = length;
  return state;
}

void Recurrent::advance(const Params& params, DecodeState& state, const at::Tensor& ids) const {
  at::Tensor x = words_(params, ids.unsqueeze(0));  // [1, N, width]
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Direction& direction = layers_[i][0];
    KeyValueCache& memory = state.layers[i].self;  // keys: h [N, hidden], values: c
    Cell cell{memory.keys.unsqueeze(0), memory.values.unsqueeze(0)};
    cell.step(direction.input(params, x), direction.state(params, cell.h));
    memory.keys = cell.h.squeeze(0);
    memory.values = cell.c.squeeze(0);
    x = cell.h;
  }
  state.logits = logits(params, x).squeeze(0);
  state.positions = state.positions + 1;
}

}  // namespace chorus::inline models
