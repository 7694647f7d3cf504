// The parts of a tokenizer, each alone, against the Hugging Face library's (tests/golden/make_text_parts.py).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "application/text/decoder.h"
#include "application/text/hugging_face.h"
#include "application/text/normalizer.h"
#include "application/text/pre_tokenizer.h"
#include "application/text/subword_model.h"
#include "application/text/truncation.h"
#include "application/text/vocab_files.h"
#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/files/files.h"

namespace chorus::inline text {
namespace {

using nlohmann::json;

const json& golden_parts() {
  static const json parts = json::parse(read_file(CHORUS_SOURCE_DIR "/tests/golden/text_parts.json"));
  return parts;
}

std::vector<NormalizerStep> normalizer_named(const std::string& name) {
  using Kind = NormalizerStep::Kind;
  NormalizerStep step;
  if (name == "bert_cased" || name == "bert_cased_stripped" || name == "bert_raw") step.lowercase = false;
  if (name == "bert_accents") step.strip_accents = false;
  if (name == "bert_cased_stripped") step.strip_accents = true;
  if (name == "bert_raw") step.clean_text = step.handle_chinese_chars = false;
  if (name.starts_with("bert")) return {step};
  const std::map<std::string, Kind> kinds{{"lowercase", Kind::kLowercase}, {"nfd", Kind::kNfd},
                                          {"nfkd", Kind::kNfkd},           {"strip_accents", Kind::kStripAccents},
                                          {"strip", Kind::kStrip},         {"strip_left", Kind::kStrip},
                                          {"replace", Kind::kReplace},     {"prepend", Kind::kPrepend}};
  if (name == "albert") {
    std::vector<NormalizerStep> steps(3);
    steps[0].kind = Kind::kNfkd;
    steps[1].kind = Kind::kStripAccents;
    steps[2].kind = Kind::kLowercase;
    return steps;
  }
  step.kind = kinds.at(name);
  step.strip_right = name != "strip_left";
  step.pattern = "an";
  step.content = name == "prepend" ? "\u2581" : "--é";
  return {step};
}

TEST(TextParts, NormalizersEqualHuggingFaces) {
  std::size_t cases = 0;
  for (const json& one : golden_parts().at("normalized")) {
    const Normalizer normalizer(normalizer_named(one.at("step")));
    const std::string text = one.at("text"), expected = one.at("out");
    EXPECT_EQ(normalizer.run(text), expected) << one.at("step") << " of " << text;
    // With offsets the bytes are the same, and every byte maps to code points of the original.
    AlignedText aligned, spare;
    const std::uint32_t characters = aligned.assign(text, 0, true);
    normalizer.run(aligned, spare);
    EXPECT_EQ(aligned.bytes, expected);
    ASSERT_EQ(aligned.begin.size(), expected.size());
    ASSERT_EQ(aligned.end.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(aligned.begin[i], aligned.end[i]);
      EXPECT_LE(aligned.end[i], characters);
    }
    ++cases;
  }
  EXPECT_GT(cases, 400U);
}

PreTokenizerStep splitter_named(const std::string& name) {
  using Kind = PreTokenizerStep::Kind;
  using Prepend = PreTokenizerStep::Prepend;
  PreTokenizerStep step;
  if (name == "white_space") step.kind = Kind::kWhitespaceSplit;
  if (name.starts_with("gpt2")) step.kind = Kind::kByteLevel;
  step.add_prefix_space = name == "gpt2_prefix";
  step.use_regex = name != "gpt2_whole";
  if (name.starts_with("meta")) step.kind = Kind::kMetaspace;
  if (name == "meta_never") step.prepend = Prepend::kNever;
  if (name == "meta_whole") {
    step.prepend = Prepend::kFirst;
    step.split = false;
  }
  return step;
}

TEST(TextParts, PreTokenizersEqualHuggingFaces) {
  std::size_t words_seen = 0;
  for (const json& one : golden_parts().at("split")) {
    const std::string name = one.at("step"), text = one.at("text");
    const PreTokenizer splitter({splitter_named(name)});
    EXPECT_EQ(splitter.byte_level(), name.starts_with("gpt2"));
    AlignedText aligned, spare;
    aligned.assign(text, 0, true);
    std::vector<WordSpan> spans;
    splitter.run(aligned, spare, spans, true);
    std::vector<json> words;
    for (const WordSpan span : spans) {
      const std::string word = aligned.bytes.substr(span.begin, span.end - span.begin);
      words.push_back({splitter.byte_level() ? spell_bytes(word) : word, aligned.begin.at(span.begin),
                       aligned.end.at(span.end - 1)});
    }
    EXPECT_EQ(json(words), one.at("words")) << name << " of " << text;
    words_seen += words.size();
  }
  EXPECT_GT(words_seen, 700U);
}

// "ab<c>cd" for every code point c but U+0000 and the surrogates, in blocks: which ones differ from the digests of
// tests/golden/make_code_points.py. `put` appends what is digested of a text.
template <typename Put>
std::vector<std::string> different_blocks(const json& expected, Put put) {
  constexpr char32_t kBlock = 16384;
  std::vector<std::string> different;
  std::string text, bytes;
  for (char32_t block = 0; block < 0x110000 / kBlock; ++block) {
    bytes.clear();
    for (char32_t code = block * kBlock; code < (block + 1) * kBlock; ++code) {
      if (code == 0 || (code >= 0xD800 && code < 0xE000)) continue;
      text = "ab";
      utf8::append(text, code);
      text += "cd";
      put(text, bytes);
    }
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
    if (crc != expected.at(block).get<std::uint32_t>()) {
      different.push_back(fmt::format("U+{:04X}", static_cast<std::uint32_t>(block * kBlock)));
    }
  }
  return different;
}

const json& golden_code_points() {
  static const json points = json::parse(read_file(CHORUS_SOURCE_DIR "/tests/golden/code_points.json"));
  return points;
}

TEST(EveryCodePoint, IsNormalizedAsByHuggingFace) {
  for (const auto& [name, digests] : golden_code_points().at("normalized").items()) {
    const Normalizer normalizer(normalizer_named(name));
    AlignedText aligned, spare;
    const auto put = [&](const std::string& text, std::string& bytes) {
      aligned.assign(text, 0, false);
      normalizer.run(aligned, spare);
      bytes += aligned.bytes + "\x1e";
    };
    EXPECT_THAT(different_blocks(digests, put), testing::IsEmpty()) << name;
  }
}

TEST(EveryCodePoint, IsSplitAsByHuggingFace) {
  for (const auto& [name, digests] : golden_code_points().at("split").items()) {
    const PreTokenizer splitter({splitter_named(name)});
    AlignedText aligned, spare;
    std::vector<WordSpan> spans;
    const auto put = [&](const std::string& text, std::string& bytes) {
      aligned.assign(text, 0, true);
      splitter.run(aligned, spare, spans, true);
      for (const WordSpan span : spans) {
        const std::string word = aligned.bytes.substr(span.begin, span.end - span.begin);
        fmt::format_to(std::back_inserter(bytes), "{}\x1f{}\x1f{}\x1e",
                       splitter.byte_level() ? spell_bytes(word) : word, aligned.begin[span.begin],
                       aligned.end[span.end - 1]);
      }
    };
    EXPECT_THAT(different_blocks(digests, put), testing::IsEmpty()) << name;
  }
}

TEST(EveryCodePoint, HasTheIdsOfHuggingFace) {
  const std::string folder = CHORUS_SOURCE_DIR "/../shared/data/vocab/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "there is no " << folder;
  for (const auto& [name, digests] : golden_code_points().at("ids").items()) {
    const auto tokenizer = load_tokenizer(folder + name);
    std::vector<std::int32_t> ids;
    const auto put = [&](const std::string& text, std::string& bytes) {
      ids.assign(1, 0);
      tokenizer->encode_ids(text, ids);
      ids[0] = static_cast<std::int32_t>(ids.size() - 1);
      bytes.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(ids[0]));
    };
    EXPECT_THAT(different_blocks(digests, put), testing::IsEmpty()) << name;
  }
}

TEST(TextParts, DecodersEqualHuggingFaces) {
  using Kind = DecoderSpec::Kind;
  for (const json& one : golden_parts().at("joined")) {
    const std::string name = one.at("decoder");
    DecoderSpec spec;
    spec.kind = name.starts_with("wordpiece") ? Kind::kWordPiece
                : name == "bytes"             ? Kind::kByteLevel
                                              : Kind::kMetaspace;
    if (name == "wordpiece_raw") {
      spec.prefix = "@@";
      spec.cleanup = false;
    }
    spec.strip_first = name != "meta_never";
    const std::vector<std::string> tokens = one.at("tokens");
    EXPECT_EQ(join_tokens(spec, {tokens.begin(), tokens.end()}), one.at("out").get<std::string>())
        << name << " " << one.at("tokens");
  }
}

ModelSpec model_of(const json& one) {
  ModelSpec spec;
  spec.tokens = one.at("tokens").get<std::vector<std::string>>();
  spec.unknown = 0;
  spec.byte_fallback = one.value("byte_fallback", false);
  if (one.at("model") == "wordpiece") spec.max_word_characters = one.at("max_word");
  if (one.at("model") == "bpe") {
    spec.kind = ModelSpec::Kind::kBpe;
    spec.fuse_unknown = one.value("fuse_unk", false);
    spec.ignore_merges = one.value("ignore_merges", false);
    std::vector<TokenPair> pairs;
    for (const json& merge : one.at("merges")) pairs.emplace_back(merge.at(0), merge.at(1));
    spec.merges = resolve_merges(pairs, spec.tokens, "golden", 1);
  }
  if (one.at("model") == "unigram") {
    spec.kind = ModelSpec::Kind::kUnigram;
    spec.scores = one.at("scores").get<std::vector<double>>();
  }
  return spec;
}

TEST(TextParts, ModelsEqualHuggingFaces) {
  std::size_t cases = 0;
  for (const json& one : golden_parts().at("cut")) {
    const auto model = make_model(model_of(one), false);
    for (const json& pair : one.at("cases")) {
      const std::string word = pair.at(0);
      std::vector<Piece> pieces{{-7, 0, 0}};  // existing pieces stay
      model->cut(word, pieces);
      ASSERT_EQ(pieces.front().id, -7);
      std::vector<std::int32_t> ids;
      std::uint32_t behind = 0;
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        ids.push_back(pieces[i].id);
        // The pieces cover the word from left to right; those of byte fallback share one range.
        EXPECT_TRUE(pieces[i].begin == behind || (pieces[i].begin == pieces[i - 1].begin && i > 1)) << word;
        behind = pieces[i].end;
      }
      EXPECT_EQ(behind, word.size()) << word;
      EXPECT_EQ(json(ids), pair.at(1)) << one.at("model") << " of " << word;
      ++cases;
    }
  }
  EXPECT_GT(cases, 130U);
}

TEST(TextParts, TruncationEqualsHuggingFaces) {
  const std::map<std::string, Truncation> ways{{"longest_first", Truncation::kLongestFirst},
                                               {"only_first", Truncation::kOnlyFirst},
                                               {"only_second", Truncation::kOnlySecond}};
  std::size_t cases = 0;
  for (const json& one : golden_parts().at("truncated")) {
    if (one.at("lengths").is_null()) continue;  // refused there
    EncodeOptions options;
    options.max_length = one.at("limit");
    options.stride = one.at("stride");
    options.truncation = ways.at(one.at("strategy"));
    const std::size_t second = one.at("second");
    const Windows windows = cut_to_length(one.at("first"), second, second > 0, 0, options);
    const auto length = [](const std::vector<Window>& list) { return list.at(0).end - list.at(0).begin; };
    EXPECT_EQ(json({length(windows.first), length(windows.second)}), one.at("lengths")) << one;
    ++cases;
  }
  EXPECT_GT(cases, 150U);
}

TEST(Truncation, WindowsOverlapByTheStrideAndCoverEverything) {
  for (const std::size_t length : {1U, 5U, 6U, 7U, 23U, 100U}) {
    for (const std::size_t limit : {1U, 3U, 6U}) {
      for (std::size_t stride = 0; stride < limit; ++stride) {
        EncodeOptions options;
        options.max_length = limit + 2;
        options.stride = stride;
        options.overflow = true;
        const std::vector<Window> windows = cut_to_length(length, 0, false, 2, options).first;
        EXPECT_EQ(windows.front().begin, 0U);
        EXPECT_EQ(windows.back().end, length);
        for (std::size_t i = 0; i < windows.size(); ++i) {
          EXPECT_LE(windows[i].end - windows[i].begin, limit);
          if (i == 0) continue;
          EXPECT_EQ(windows[i].begin + stride, windows[i - 1].end);
        }
        if (length <= limit) {
          EXPECT_EQ(windows.size(), 1U);
        }
        options.overflow = false;
        EXPECT_EQ(cut_to_length(length, 0, false, 2, options).first.size(), 1U);
      }
    }
  }
}

TEST(Truncation, WhatCannotBeIsRefused) {
  EncodeOptions options;
  options.max_length = 2;
  EXPECT_THROW((void)cut_to_length(5, 0, false, 3, options), ConfigError) << "no room for the special tokens";
  options.max_length = 5;
  options.stride = 3;
  EXPECT_THROW((void)cut_to_length(9, 0, false, 2, options), ConfigError) << "no progress";
  options.stride = 0;
  options.truncation = Truncation::kOnlySecond;
  EXPECT_THROW((void)cut_to_length(9, 0, false, 2, options), ConfigError) << "there is no second text";
  EXPECT_THROW((void)cut_to_length(9, 1, true, 2, options), ConfigError) << "the second is too short to give way";
  options.truncation = Truncation::kOnlyFirst;
  EXPECT_THROW((void)cut_to_length(1, 9, true, 2, options), ConfigError);
  options.max_length = 0;  // no limit
  EXPECT_EQ(cut_to_length(9, 9, true, 2, options).second.at(0).end, 9U);
}

}  // namespace
}  // namespace chorus::inline text
