// Any bytes are an Error, or a tokenizer that encodes any text with offsets inside it (tools/fuzz). The first byte
// selects the file type of the rest: tokenizer.json, vocab.txt, vocab.json + merges.txt, spiece.model, or a
// text for small tokenizers of each kind.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "application/text/hugging_face.h"
#include "application/text/sentencepiece_family.h"
#include "application/text/subword_model.h"
#include "application/text/tokenizer_json.h"
#include "application/text/vocab_files.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace {

using namespace chorus;
using namespace chorus::text;

void require(bool condition) {
  if (!condition) std::abort();
}

void try_text(const Tokenizer& tokenizer, std::string_view bytes) {
  const std::size_t length = utf8::count(bytes);
  const Encoding encoding = tokenizer.encode(bytes);
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    require(encoding.ids[i] >= 0 && static_cast<std::size_t>(encoding.ids[i]) < tokenizer.vocabulary_size());
    require(encoding.offsets[i].begin <= encoding.offsets[i].end && encoding.offsets[i].end <= length);
  }
  std::vector<std::int32_t> ids;
  tokenizer.encode_ids(bytes, ids);
  require(ids == encoding.ids);
  require(utf8::valid(tokenizer.decode(encoding.ids, false)));
}

void try_spec(TokenizerSpec spec, std::string_view bytes) {
  const Tokenizer tokenizer(std::move(spec));
  try_text(tokenizer, bytes);
  try_text(tokenizer, "Na\xC3\xAFve <mask> [MASK]\r\n \xE5\x8C\x97\xFF\xE2\x96\x81 don't 12");
  const std::string json = write_tokenizer_json(tokenizer.spec());
  const Tokenizer again(read_tokenizer_json(json, "again"));
  // A repeated token of a vocabulary occurs once in JSON, so compare encodings.
  require(again.encode(bytes).ids == tokenizer.encode(bytes).ids);
}

TokenizerSpec small_spec(int kind) {
  ModelSpec model;
  if (kind == 0) {
    model.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "b", "##b", "ab", "e", "##e", "!", "1"};
    return bert_spec(std::move(model), {}, {});
  }
  model.tokens = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  for (int byte = 0; byte < 256; ++byte) {
    model.tokens.push_back(spell_bytes(std::string(1, static_cast<char>(static_cast<unsigned char>(byte)))));
  }
  const auto first = static_cast<std::int32_t>(model.tokens.size());
  model.tokens.insert(model.tokens.end(), {"ab", "abab"});
  model.merges = {{5 + 'a', 5 + 'b', first}, {first, first, first + 1}};
  return kind == 1 ? gpt2_spec(std::move(model), false, {}) : roberta_spec(std::move(model), true, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    ModelSpec model;
    switch (data[0] % 6) {
      case 0:
        try_spec(read_tokenizer_json(bytes, "fuzz"), bytes);
        break;
      case 1:
        model.tokens = read_vocab_txt(bytes, "fuzz");
        try_spec(bert_spec(std::move(model), {}, {}), bytes);
        break;
      case 2: {
        const auto half = bytes.find('\1');
        model.tokens = read_vocab_json(bytes.substr(0, half), "fuzz");
        model.merges = read_merges(half == std::string::npos ? "" : bytes.substr(half + 1), model.tokens, "fuzz");
        try_spec(gpt2_spec(std::move(model), true, {}), bytes);
        break;
      }
      case 3:
        try_spec(sentencepiece_spec(bytes, "fuzz", {}, {}), bytes);
        break;
      default:
        static const Tokenizer small[] = {Tokenizer(small_spec(0)), Tokenizer(small_spec(1)), Tokenizer(small_spec(2))};
        for (const auto& tokenizer : small) try_text(tokenizer, bytes);
    }
  } catch (const Error&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
