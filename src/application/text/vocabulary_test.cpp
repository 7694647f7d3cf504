#include "application/text/vocabulary.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "application/text/trie.h"
#include "application/text/vocab_files.h"
#include "application/text/word_cache.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline text {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Vocabulary, FindsEveryTokenAndNothingElse) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 5000; ++i) tokens.push_back(fmt::format("t{}", i * i));
  tokens[17].clear();  // an id without a token
  const Vocabulary vocabulary(tokens);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (id != 17) {
      EXPECT_EQ(vocabulary.find(tokens[id]), static_cast<std::int32_t>(id));
    }
  }
  EXPECT_EQ(vocabulary.find("t289"), Vocabulary::kNone) << "289 = 17 * 17";
  EXPECT_EQ(vocabulary.find("t2"), Vocabulary::kNone);
  EXPECT_EQ(vocabulary.find(""), Vocabulary::kNone);
  EXPECT_EQ(vocabulary.size(), 5000U);
  EXPECT_EQ(vocabulary.longest(), std::string("t24990001").size());
}

TEST(Vocabulary, OfEqualTokensTheLastCounts) {
  const Vocabulary vocabulary({"a", "b", "a"});
  EXPECT_EQ(vocabulary.find("a"), 2);
  EXPECT_EQ(vocabulary.find("b"), 1);
  EXPECT_EQ(Vocabulary().find("a"), Vocabulary::kNone);
}

TEST(Vocabulary, BytesBeyondEightAreHashedToo) {
  // Same first eight bytes, same length.
  EXPECT_NE(hash_bytes("12345678a"), hash_bytes("12345678b"));
  EXPECT_NE(hash_bytes("a"), hash_bytes(std::string("a\0", 2)));
  EXPECT_EQ(hash_bytes("12345678a"), hash_bytes("12345678a"));
}

TEST(Trie, WalksPrefixes) {
  const Trie trie({"a", "abc", "", "b", "abc", "\xC3\xA9"});
  const auto id_of = [&](std::string_view text) {
    std::uint32_t node = 0;
    for (const char c : text) {
      node = trie.step(node, static_cast<unsigned char>(c));
      if (node == 0) return -2;  // no such path
    }
    return static_cast<int>(trie.id(node));
  };
  EXPECT_EQ(id_of("a"), 0);
  EXPECT_EQ(id_of("ab"), Trie::kNone) << "on the way, but no string";
  EXPECT_EQ(id_of("abc"), 4) << "of two equal ones the last counts";
  EXPECT_EQ(id_of("abcd"), -2);
  EXPECT_EQ(id_of("b"), 3);
  EXPECT_EQ(id_of("\xC3\xA9"), 5);
  EXPECT_EQ(id_of("\xC3"), Trie::kNone);
  EXPECT_EQ(trie.id(0), Trie::kNone) << "the empty string is left out";
  EXPECT_EQ(Trie().step(0, 'a'), 0U);
}

TEST(WordCache, RemembersWordsByAllTheirBytes) {
  WordCache cache;
  const std::vector<Piece> pieces{{3, 0, 2}, {9, 2, 5}};
  const auto [slot, found] = cache.find("hello");
  ASSERT_FALSE(found);
  cache.store(*slot, "hello", pieces);
  const auto [again, known] = cache.find("hello");
  ASSERT_TRUE(known);
  ASSERT_EQ(again->count, 2);
  EXPECT_EQ(again->ids[1], 9);
  EXPECT_EQ(again->begin[1], 2);
  EXPECT_EQ(again->end[1], 5);
  // Its beginning with zeros behind has the same key, but another length.
  EXPECT_FALSE(cache.find(std::string("hello\0", 6)).second);
  EXPECT_FALSE(cache.find("hell").second);
  const std::string longest(WordCache::kMaxBytes, 'x');
  const auto [place, there] = cache.find(longest);
  EXPECT_FALSE(there);
  cache.store(*place, longest, {{1, 0, 24}});
  EXPECT_TRUE(cache.find(longest).second);
}

TEST(WordCache, WordsOfManyPiecesAreNotKept) {
  WordCache cache;
  const std::vector<Piece> many(WordCache::kMaxPieces + 1, Piece{1, 0, 1});
  const auto [slot, found] = cache.find("abcdefg");
  ASSERT_FALSE(found);
  cache.store(*slot, "abcdefg", many);
  EXPECT_FALSE(cache.find("abcdefg").second);
}

TEST(VocabFiles, ReadsOneTokenPerLine) {
  EXPECT_THAT(read_vocab_txt("[PAD]\nthe\r\n##s\n", "v"), ElementsAre("[PAD]", "the", "##s"));
  EXPECT_THAT(read_vocab_txt("a\n\nb", "v"), ElementsAre("a", "", "b")) << "an empty line is an id without a token";
  EXPECT_THAT(read_vocab_txt(" a \n", "v"), ElementsAre(" a "));
  EXPECT_THAT(message_of<DataError>([] { (void)read_vocab_txt("", "vocab.txt"); }), HasSubstr("vocab.txt: is empty"));
  EXPECT_THAT(message_of<DataError>([] { (void)read_vocab_txt("a\n\xff\n", "vocab.txt"); }),
              AllOf(HasSubstr("vocab.txt:2"), HasSubstr("UTF-8")));
}

TEST(VocabFiles, ReadsAndRefusesJson) {
  EXPECT_THAT(read_vocab_json(R"({"b": 1, "a": 0, "d": 3})", "v"), ElementsAre("a", "b", "", "d"));
  const std::pair<const char*, const char*> bad[] = {{"[]", "object"},
                                                     {"{}", "empty"},
                                                     {R"({"a": "0"})", "not a number"},
                                                     {R"({"a": 1.5})", "not a number"},
                                                     {R"({"a": -1})", "invalid id"},
                                                     {R"({"a": 4194304})", "invalid id"},
                                                     {R"({"a": 99999999999})", "invalid id"},
                                                     {R"({"a": 0)", "v.json"}};
  for (const auto& [text, what] : bad) {
    EXPECT_THAT(message_of<DataError>([&, t = text] { (void)read_vocab_json(t, "v.json"); }), HasSubstr(what)) << text;
  }
}

TEST(VocabFiles, ReadsAndRefusesMerges) {
  const std::vector<std::string> tokens{"a", "b", "ab", "c", "abc"};
  for (const std::string head : {"", "#version: 0.2\n"}) {
    const auto merges = read_merges(head + "a b\nab c\r\n", tokens, "m");
    ASSERT_EQ(merges.size(), 2U);
    EXPECT_THAT(std::vector({merges[1].left, merges[1].right, merges[1].result}), ElementsAre(2, 3, 4));
  }
  EXPECT_TRUE(read_merges("", tokens, "m").empty());
  const std::pair<const char*, const char*> bad[] = {{"a b\n\nab c", "m:2: empty line"},
                                                     {"#version: 0.2\na", "m:2: a merge is two tokens"},
                                                     {"a b c", "m:1: a merge is two tokens"},
                                                     {"a b\na x", "m:2: the merge names 'x'"},
                                                     {"#version: 0.2\na b\nb a", "m:3: the merge names 'ba'"},
                                                     {" b", "m:1: the merge names ''"}};
  for (const auto& [text, what] : bad) {
    EXPECT_THAT(message_of<DataError>([&, t = text] { (void)read_merges(t, tokens, "m"); }), HasSubstr(what)) << text;
  }
}

TEST(VocabFiles, WhatIsWrittenIsReadAgain) {
  const std::vector<std::string> tokens{"a", "\"quoted\\\"", "é\n", "", "▁x"};
  EXPECT_EQ(read_vocab_json(write_vocab_json(tokens), "v"), tokens);
  const std::vector<std::string> lines{"a", "##b", "é"};
  EXPECT_EQ(read_vocab_txt(write_vocab_txt(lines), "v"), lines);
  ModelSpec model;
  model.tokens = {"a", "b", "ab"};
  model.merges = {{0, 1, 2}};
  EXPECT_EQ(write_merges(model), "#version: 0.2\na b\n");
  EXPECT_EQ(read_merges(write_merges(model), model.tokens, "m").size(), 1U);
}

}  // namespace
}  // namespace chorus::inline text
