#include "application/tasks/tiny_world_test.h"

#include <fmt/format.h>

#include "application/text/vocabulary_trainer.h"
#include "core/base/rng.h"
#include "core/base/utf8.h"

namespace chorus::tiny {
namespace {

const std::vector<std::string> kTopics[] = {{"goal", "team", "ball", "match", "player"},
                                            {"bank", "money", "stock", "price", "market"},
                                            {"star", "moon", "orbit", "planet", "rocket"}};
const std::vector<std::string> kNames{"anna", "bob", "çağla", "дима", "eve"};
const std::vector<std::string> kPlaces{"paris", "new york", "köln", "東京", "lima"};

const std::string& pick(const std::vector<std::string>& list, RandomStream& stream) {
  return list[stream.below(list.size())];
}

}  // namespace

Record record(Formulation formulation, std::uint64_t i) {
  RandomStream stream({.seed = 5, .purpose = "tiny-world", .step = i});
  Record r;
  r.id = fmt::format("e{}", i);
  const auto topic = static_cast<std::size_t>(i % 3);
  const std::string name = pick(kNames, stream), place = pick(kPlaces, stream);
  switch (formulation) {
    case Formulation::kTextClassification:
    case Formulation::kLanguageModel: {
      const std::uint64_t words = 3 + stream.below(6);
      for (std::uint64_t w = 0; w < words; ++w) {
        if (w > 0) r.text += ' ';
        r.text += pick(kTopics[topic], stream);
      }
      if (formulation == Formulation::kTextClassification)
        r.label = std::vector<std::string>{"sport", "money", "sky"}[topic];
      break;
    }
    case Formulation::kPairClassification:
    case Formulation::kPairRegression: {
      const bool same = i % 2 == 0;
      r.text = pick(kTopics[0], stream);
      r.second = same ? pick(kTopics[0], stream) : pick(kTopics[1], stream);
      r.label = std::to_string(same ? 1 : 0);
      r.score = same ? 4.5 : 0.5;
      break;
    }
    case Formulation::kSequenceTagging:
      r.words = {"then", name, "flew", "to"};
      r.tags = {"O", "B-PER", "O", "O"};
      for (std::size_t at = 0; at < place.size();) {
        const std::size_t end = std::min(place.find(' ', at), place.size());
        r.words.push_back(place.substr(at, end - at));
        r.tags.push_back(at == 0 ? "B-LOC" : "I-LOC");
        at = end + 1;
      }
      break;
    case Formulation::kSpanExtraction: {
      r.text =
          fmt::format("Über {} : {} lives in {} , and 🙂 {} works", pick(kTopics[topic], stream), name, place, name);
      r.second = fmt::format("where does {} live", name);
      const std::size_t at = r.text.find(place);
      GoldAnswer answer{.text = place};
      answer.begin = static_cast<std::int64_t>(utf8::count(std::string_view(r.text).substr(0, at)));
      answer.end = answer.begin + static_cast<std::int64_t>(utf8::count(place));
      r.answers.push_back(answer);
      break;
    }
    case Formulation::kSeq2Seq:
      r.text = fmt::format("{} {} {}", pick(kTopics[topic], stream), name, place);
      r.second = fmt::format("{} about {}", name, std::vector<std::string>{"sport", "money", "sky"}[topic]);
      break;
  }
  return r;
}

Dataset dataset(Formulation formulation, std::uint64_t train, std::uint64_t test) {
  DatasetBuilder builder({.formulation = formulation});
  for (std::uint64_t i = 0; i < train + test; ++i) {
    builder.add(record(formulation, i), i < train ? Split::kTrain : Split::kTest);
  }
  return std::move(builder).finish();
}

std::shared_ptr<const Tokenizer> tokenizer(const Dataset& data, std::size_t vocabulary) {
  text::VocabularyTrainer trainer(text::ModelSpec::Kind::kWordPiece, {.vocabulary_size = vocabulary});
  for (std::size_t i = 0; i < data.size(); ++i) {
    trainer.add(data.text(i));
    trainer.add(data.second(i));
    const WordList words = data.words(i);
    for (std::size_t w = 0; w < words.size(); ++w) trainer.add(words[w]);
  }
  return std::make_shared<Tokenizer>(trainer.train());
}

ModelConfig model_config(Head head, const Tokenizer& tokenizer, const std::vector<std::string>& labels) {
  const std::size_t size = tokenizer.vocabulary_size();
  const std::int32_t end = *tokenizer.special().sep, pad = *tokenizer.special().pad;
  const std::string text =
      head == Head::kSeq2Seq
          ? fmt::format(R"({{"model_type": "t5", "d_ff": 64, "d_kv": 16, "d_model": 32, "num_heads": 2, "num_layers": 1,
              "vocab_size": {}, "decoder_start_token_id": {}, "pad_token_id": {}, "eos_token_id": {},
              "dropout_rate": 0.0}})",
                        size, pad, pad, end)
      : head == Head::kCausalLm
          ? fmt::format(R"({{"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 64,
              "vocab_size": {}, "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}})",
                        size)
          : fmt::format(R"({{"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
              "intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": {}, "pad_token_id": {},
              "initializer_range": 0.1}})",
                        size, pad);
  ModelConfig config = ModelConfig::parse(text, "tiny");
  if (!labels.empty()) config.set_labels(labels);
  return config;
}

}  // namespace chorus::tiny
