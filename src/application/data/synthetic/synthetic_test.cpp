#include "application/data/synthetic/synthetic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "application/data/readers/open_dataset.h"
#include "application/data/synthetic/record_json.h"
#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/base/utf8.h"

namespace chorus::inline synthetic {
namespace {

using testing::HasSubstr;

constexpr std::array kAll{Formulation::kTextClassification, Formulation::kPairClassification,
                          Formulation::kPairRegression,     Formulation::kSequenceTagging,
                          Formulation::kSpanExtraction,     Formulation::kSeq2Seq,
                          Formulation::kLanguageModel};

/// One hash per formulation, over 500 training and 50 test examples of the default configuration.
constexpr const char* kGolden =
    "text_classification bf47dc63b362ef11\n"
    "pair_classification 1b0099d37de1dd1e\n"
    "pair_regression 96e8f4f15f79b595\n"
    "seq_tagging a2530d29467c29a2\n"
    "span_extraction c93be5f153489bdc\n"
    "seq2seq 9f5f5147a0cf2ad7\n"
    "language_model 8b8028e794e39494\n";

/// Every field of a record, to detect any difference.
std::string flat(const Record& record) {
  std::string out = fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", record.id, record.text, record.second, record.label,
                                record.score, record.client, record.source, record.time);
  for (const auto& word : record.words) out += "|" + word;
  for (const auto& tag : record.tags) out += "|" + tag;
  for (const auto& answer : record.answers) out += fmt::format("|{} {} {}", answer.text, answer.begin, answer.end);
  return out;
}

std::vector<Record> read_all(const SyntheticConfig& config) {
  std::vector<Record> records;
  const auto reader = synthetic_corpus(config);
  for (Record record; reader->next(record);) records.push_back(record);
  return records;
}

std::string message_of(SyntheticConfig config) {
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The text at [begin, end), counted in code points.
std::string cut_code_points(std::string_view text, std::int64_t begin, std::int64_t end) {
  std::string out;
  std::int64_t at = -1;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) ++at;
    if (at >= begin && at < end) out += c;
  }
  return out;
}

class EachFormulation : public testing::TestWithParam<Formulation> {};

TEST_P(EachFormulation, SameSeedSameBytesOtherSeedOthers) {
  const SyntheticConfig config{.formulation = GetParam(), .examples = 200, .test_examples = 20, .seed = 5};
  SyntheticConfig other = config;
  other.seed = 6;
  const auto first = read_all(config);
  const auto again = read_all(config);
  const auto different = read_all(other);
  ASSERT_EQ(first.size(), 220U);
  int equal = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(flat(first[i]), flat(again[i]));
    equal += flat(first[i]) == flat(different[i]) ? 1 : 0;
  }
  EXPECT_EQ(equal, 0);
}

TEST_P(EachFormulation, AnExampleDoesNotDependOnTheOthers) {
  const auto large = read_all({.formulation = GetParam(), .examples = 300, .test_examples = 30});
  const auto small = read_all({.formulation = GetParam(), .examples = 40, .test_examples = 10});
  for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(flat(small[i]), flat(large[i]));
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(flat(small[40 + i]), flat(large[300 + i]));

  const SyntheticCorpus corpus({.formulation = GetParam()});
  Record record;
  for (const std::uint64_t i : {250U, 3U, 299U, 3U}) {
    corpus.make(Split::kTrain, i, record);
    EXPECT_EQ(flat(record), flat(large[i]));
  }
}

TEST_P(EachFormulation, SplitsShareNoExample) {
  const auto records = read_all(
      {.formulation = GetParam(), .examples = 500, .validation_examples = 100, .test_examples = 100, .clients = 1000});
  std::set<std::string> train;
  std::array<int, kSplits> count{};
  std::size_t repeated = 0;
  for (const Record& record : records) {
    ASSERT_TRUE(record.split.has_value());
    ++count[static_cast<std::size_t>(*record.split)];
    EXPECT_TRUE(record.id.starts_with(name_of(*record.split)));
    const std::string content = fmt::format("{} {} {}", record.text, record.second, fmt::join(record.words, " "));
    if (*record.split == Split::kTrain) {
      train.insert(content);
    } else {
      repeated += train.count(content);
    }
  }
  EXPECT_EQ(count, (std::array<int, kSplits>{500, 100, 100}));
  // Short messages ("Thanks, friend.") may repeat, but one split must not repeat the other.
  EXPECT_LT(repeated, 30U);
}

TEST_P(EachFormulation, RecordsAreSignedDatedAndValid) {
  const auto records = read_all({.formulation = GetParam(), .examples = 3000, .test_examples = 0, .clients = 50});
  std::set<std::string> sources;
  std::set<std::string> clients;
  std::array<int, 12> months{};
  for (const Record& record : records) {
    EXPECT_EQ(record.client.size(), 5U);
    sources.insert(record.source);
    clients.insert(record.client);
    EXPECT_GE(record.time, 1672531200);  // 2023-01-01
    EXPECT_LT(record.time, 1704067200);  // 2024-01-01
    ++months[static_cast<std::size_t>(record.time - 1672531200) * 12 / (365 * 86400)];
    for (const std::string* text : {&record.text, &record.second}) {
      EXPECT_TRUE(utf8::valid(*text)) << *text;
      EXPECT_EQ(text->find_first_of("{}"), std::string::npos) << *text;
      EXPECT_EQ(text->find("  "), std::string::npos) << *text;
    }
    EXPECT_FALSE(record.text.empty() && record.words.empty());
  }
  EXPECT_EQ(sources.size(), 8U);
  EXPECT_GT(clients.size(), 35U);
  for (const int month : months) EXPECT_NEAR(month, 250, 80);
}

TEST_P(EachFormulation, SkewSetsSourcesApart) {
  const auto spread = [](double skew) {
    const auto records = read_all({.formulation = GetParam(), .examples = 6000, .test_examples = 0, .skew = skew});
    std::map<std::string, std::map<std::string, double>> words;
    std::map<std::string, double> total;
    for (const Record& record : records) {
      const std::string text = record.words.empty() ? record.text : fmt::format("{}", fmt::join(record.words, " "));
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        words[record.source][text.substr(begin, end - begin)] += 1;
        total[record.source] += 1;
        begin = end + 1;
      }
    }
    // Mean total variation distance between the sources' word distributions.
    double sum = 0;
    int pairs = 0;
    for (auto a = words.begin(); a != words.end(); ++a) {
      for (auto b = std::next(a); b != words.end(); ++b, ++pairs) {
        std::set<std::string> all;
        for (const auto& [word, count] : a->second) all.insert(word);
        for (const auto& [word, count] : b->second) all.insert(word);
        double distance = 0;
        for (const auto& word : all) {
          distance += std::abs(a->second[word] / total[a->first] - b->second[word] / total[b->first]);
        }
        sum += distance / 2;
      }
    }
    return sum / pairs;
  };
  EXPECT_GT(spread(0.9), spread(0.0) + 0.03);
}

INSTANTIATE_TEST_SUITE_P(All, EachFormulation, testing::ValuesIn(kAll),
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST(Synthetic, StaysTheSameForEver) {
  // Recorded from this program: a change of the generator changes every published result, and must be deliberate.
  std::string out;
  for (const Formulation formulation : kAll) {
    std::uint64_t hash = 0;
    for (const Record& record : read_all({.formulation = formulation, .examples = 500, .test_examples = 50})) {
      hash = mix(hash, hash_name(flat(record)));
    }
    out += fmt::format("{} {:016x}\n", name_of(formulation), hash);
  }
  EXPECT_EQ(out, kGolden);
}

TEST(Synthetic, AllLabelsOccurInBalance) {
  for (const std::uint64_t labels : {2U, 3U, 20U, 24U}) {
    const SyntheticConfig config{.examples = 6000, .test_examples = 0, .labels = labels};
    std::map<std::string, int> count;
    for (const Record& record : read_all(config)) ++count[record.label];
    ASSERT_EQ(count.size(), labels);
    for (const auto& [label, n] : count)
      EXPECT_NEAR(n, 6000.0 / static_cast<double>(labels), 5 * std::sqrt(6000.0 / static_cast<double>(labels)))
          << label;
    const SyntheticCorpus corpus(config);
    for (const std::string& label : corpus.labels()) EXPECT_EQ(count.count(label), 1U) << label;
  }
  for (const std::uint64_t labels : {2U, 3U}) {
    std::set<std::string> seen;
    for (const Record& record : read_all({.formulation = Formulation::kPairClassification,
                                .examples = 300,
                                .test_examples = 0,
                                .labels = labels})) {
      seen.insert(record.label);
    }
    EXPECT_EQ(seen.size(), labels);
  }
}

TEST(Synthetic, LabelNoiseIsWhatWasAskedFor) {
  // The noise is drawn after everything else, so the same text with and without it shows which labels were changed.
  SyntheticConfig config{.examples = 5000, .test_examples = 0, .label_noise = 0};
  const auto clean = read_all(config);
  config.label_noise = 0.2;
  const auto noisy = read_all(config);
  int changed = 0;
  for (std::size_t i = 0; i < clean.size(); ++i) {
    ASSERT_EQ(clean[i].text, noisy[i].text);
    changed += clean[i].label != noisy[i].label ? 1 : 0;
  }
  EXPECT_NEAR(changed, 1000, 120);
}

TEST(Synthetic, ClientsPreferSomeLabels) {
  const auto records = read_all({.examples = 20000, .test_examples = 0, .clients = 40, .skew = 0.9});
  std::map<std::string, std::map<std::string, int>> count;
  for (const Record& record : records) ++count[record.client][record.label];
  int uneven = 0;
  int large = 0;
  for (const auto& [client, labels] : count) {
    int total = 0;
    int most = 0;
    for (const auto& [label, n] : labels) {
      total += n;
      most = std::max(most, n);
    }
    if (total < 200) continue;
    ++large;
    uneven += most > 2 * total / 20 ? 1 : 0;  // over twice the uniform share
  }
  ASSERT_GT(large, 8);
  EXPECT_GT(uneven, large * 3 / 4);
}

TEST(Synthetic, TagsAreValidIob2) {
  for (const std::uint64_t labels : {0U, 1U, 3U}) {
    std::set<std::string> tags;
    std::map<std::string, std::set<std::string>> kinds_of_word;
    for (const Record& record :
         read_all({.formulation = Formulation::kSequenceTagging, .examples = 3000, .labels = labels})) {
      ASSERT_EQ(record.words.size(), record.tags.size());
      std::string before = "O";
      for (std::size_t i = 0; i < record.tags.size(); ++i) {
        const std::string& tag = record.tags[i];
        ASSERT_FALSE(record.words[i].empty());
        ASSERT_EQ(record.words[i].find(' '), std::string::npos);
        if (tag.starts_with("I-")) {
          ASSERT_NE(before, "O");
          ASSERT_EQ(before.substr(2), tag.substr(2));
        } else {
          ASSERT_TRUE(tag == "O" || tag.starts_with("B-")) << tag;
        }
        if (tag != "O") kinds_of_word[record.words[i]].insert(tag.substr(2));
        tags.insert(tag);
        before = tag;
      }
    }
    EXPECT_EQ(tags.size(), labels == 0 ? 11U : 1 + 2 * labels);
    // Names that only their context decides.
    if (labels == 0) {
      EXPECT_GE(kinds_of_word["Ford"].size(), 4U);
    }
  }
}

TEST(Synthetic, AnswersStandWhereTheySay) {
  int beyond_ascii = 0;
  std::set<std::string> questions;
  for (const Record& record : read_all({.formulation = Formulation::kSpanExtraction, .examples = 4000})) {
    ASSERT_EQ(record.answers.size(), 1U);
    const GoldAnswer& answer = record.answers.front();
    ASSERT_FALSE(answer.text.empty());
    ASSERT_EQ(cut_code_points(record.text, answer.begin, answer.end), answer.text) << record.text;
    ASSERT_TRUE(record.second.ends_with('?'));
    if (record.text.find(answer.text) != static_cast<std::size_t>(answer.begin)) ++beyond_ascii;
    questions.insert(record.second.substr(0, record.second.find(' ')));
  }
  EXPECT_GT(beyond_ascii, 100);  // otherwise bytes and code points could be mistaken for each other
  EXPECT_GE(questions.size(), 8U);
}

TEST(Synthetic, SimilarityCoversItsScale) {
  std::map<int, int> grades;
  for (const Record& record : read_all({.formulation = Formulation::kPairRegression, .examples = 3000})) {
    ASSERT_GE(record.score, 0);
    ASSERT_LE(record.score, 5);
    ++grades[static_cast<int>(record.score)];
  }
  for (int grade = 0; grade < 5; ++grade) EXPECT_GT(grades[grade], 100) << grade;
}

TEST(Synthetic, HeadlinesAreShorterThanTheirArticles) {
  for (const Record& record : read_all({.formulation = Formulation::kSeq2Seq, .examples = 1000})) {
    ASSERT_FALSE(record.second.empty());
    ASSERT_LT(record.second.size() * 5, record.text.size() * 4) << record.text << " -> " << record.second;
  }
}

TEST(Synthetic, UserActivityHasAHeavyTail) {
  const auto records =
      read_all({.formulation = Formulation::kLanguageModel, .examples = 100000, .test_examples = 0, .clients = 2000});
  std::map<std::string, int> count;
  for (const Record& record : records) ++count[record.client];
  std::vector<int> sizes;
  for (const auto& [client, n] : count) sizes.push_back(n);
  std::sort(sizes.rbegin(), sizes.rend());
  EXPECT_GE(sizes.front(), 1000 * sizes.back());
  // The most active tenth writes more than half of everything.
  int heavy = 0;
  for (std::size_t i = 0; i < sizes.size() / 10; ++i) heavy += sizes[i];
  EXPECT_GT(heavy, 50000);
}

TEST(Synthetic, NewWordsSpreadOverTheYear) {
  const auto share = [](double drift) {
    std::array<int, 2> with{};
    std::array<int, 2> all{};
    for (const Record& record : read_all(
             {.formulation = Formulation::kLanguageModel, .examples = 20000, .test_examples = 0, .drift = drift})) {
      const std::size_t half = record.time < 1672531200 + 90 * 86400    ? 0
                               : record.time > 1672531200 + 275 * 86400 ? 1
                                                                        : 2;
      if (half == 2) continue;
      ++all[half];
      with[half] += record.text.find("golden") != std::string::npos ? 1 : 0;
    }
    return std::pair(with[0] * 1000 / all[0], with[1] * 1000 / all[1]);
  };
  const auto [early, late] = share(0.5);
  EXPECT_EQ(early, 0);
  EXPECT_GT(late, 20);
  const auto [still_early, still_late] = share(0);
  EXPECT_EQ(still_early, still_late);
}

TEST(Synthetic, WrongConfigurationsSayWhatIsAllowed) {
  EXPECT_THAT(message_of({.labels = 1}), HasSubstr("labels is 1, but must be 2 to 24"));
  EXPECT_THAT(message_of({.labels = 25}), HasSubstr("labels is 25"));
  EXPECT_THAT(message_of({.formulation = Formulation::kPairClassification, .labels = 4}), HasSubstr("2 to 3"));
  EXPECT_THAT(message_of({.formulation = Formulation::kSeq2Seq, .labels = 4}), HasSubstr("seq2seq has no labels"));
  EXPECT_THAT(message_of({.clients = 0}), HasSubstr("clients is 0, but must be 1 to 10000000"));
  EXPECT_THAT(message_of({.sources = 11}), HasSubstr("sources is 11, but must be 1 to 10"));
  EXPECT_THAT(message_of({.activity = 9}), HasSubstr("activity is 9"));
  EXPECT_THAT(message_of({.skew = -0.1}), HasSubstr("skew is -0.1, but must be 0 to 1"));
  EXPECT_THAT(message_of({.overlap = 0.99}), HasSubstr("overlap is 0.99"));
  EXPECT_THAT(message_of({.label_noise = std::nan("")}), HasSubstr("label_noise is nan"));
  EXPECT_THAT(message_of({.typos = 2}), HasSubstr("typos"));
  EXPECT_THAT(message_of({.drift = 2}), HasSubstr("drift"));
  EXPECT_EQ(message_of({}), "");
  EXPECT_THROW(SyntheticCorpus({.clients = 0}), ConfigError);
}

TEST(Synthetic, ExtremesOfTheConfigurationWork) {
  for (const Formulation formulation : kAll) {
    for (const double end : {0.0, 1.0}) {
      const auto records = read_all({.formulation = formulation,
                                     .examples = 300,
                                     .test_examples = 0,
                                     .clients = 1,
                                     .sources = 10,
                                     .activity = 4 * end,
                                     .skew = end,
                                     .overlap = 0.95 * end,
                                     .label_noise = 0.5 * end,
                                     .typos = end,
                                     .drift = end});
      EXPECT_EQ(records.size(), 300U);
      EXPECT_EQ(records.back().client, "u0000");
    }
  }
  EXPECT_TRUE(read_all({.examples = 0, .test_examples = 0}).empty());
}

TEST(Synthetic, WritesTheFieldsThatTheReaderLooksFor) {
  const auto first_line = [](Formulation formulation) {
    std::string line;
    append_json_line(read_all({.formulation = formulation, .examples = 1}).front(), formulation, line);
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
    return line;
  };
  const auto has = [&](Formulation formulation, std::initializer_list<const char*> fields) {
    const std::string line = first_line(formulation);
    for (const char* field : fields) EXPECT_THAT(line, HasSubstr(fmt::format("\"{}\":", field)));
    for (const char* field : {"id", "client", "source", "time"})
      EXPECT_THAT(line, HasSubstr(fmt::format("\"{}\":", field)));
  };
  has(Formulation::kTextClassification, {"text", "label"});
  has(Formulation::kPairClassification, {"text", "second", "label"});
  has(Formulation::kPairRegression, {"text", "second", "score"});
  has(Formulation::kSequenceTagging, {"words", "tags"});
  has(Formulation::kSpanExtraction, {"context", "question", "answers", "answer_start"});
  has(Formulation::kSeq2Seq, {"text", "target"});
  has(Formulation::kLanguageModel, {"text"});
}

TEST(Synthetic, OpensAsADataset) {
  const Dataset topics =
      open_dataset({.format = "synthetic", .train = {"labels=4,examples=50,validation_examples=5,test_examples=10"}});
  EXPECT_EQ(topics.formulation(), Formulation::kTextClassification);
  EXPECT_EQ(topics.split(Split::kTrain).size(), 50U);
  EXPECT_EQ(topics.split(Split::kValidation).size(), 5U);
  EXPECT_EQ(topics.split(Split::kTest).size(), 10U);
  EXPECT_EQ(topics.labels().size(), 4U);
  EXPECT_EQ(topics.labels().at(0), "film");
  EXPECT_EQ(topics.times().size(), 65U);

  const Dataset tagged = open_dataset({.format = "synthetic", .train = {"formulation=seq_tagging,examples=30"}});
  EXPECT_EQ(tagged.formulation(), Formulation::kSequenceTagging);
  EXPECT_THROW(open_dataset({.format = "synthetic", .train = {"exmaples=30"}}), ConfigError);
  EXPECT_THROW(open_dataset({.format = "synthetic", .train = {"examples=99999999999999"}}), ConfigError);
  EXPECT_THROW(synthetic_corpus({.examples = 1'000'000'000, .test_examples = 1'000'000'000}), ConfigError);
}

TEST(Synthetic, ParsesItsShortForm) {
  const SyntheticConfig config = parse_synthetic("formulation=seq2seq,examples=12,seed=7,skew=0.25");
  EXPECT_EQ(config.formulation, Formulation::kSeq2Seq);
  EXPECT_EQ(config.examples, 12U);
  EXPECT_EQ(config.seed, 7U);
  EXPECT_EQ(config.skew, 0.25);
  EXPECT_EQ(config.test_examples, SyntheticConfig{}.test_examples);
  EXPECT_EQ(parse_synthetic("").examples, SyntheticConfig{}.examples);

  const auto complaint = [](std::string_view text) -> std::string {
    try {
      parse_synthetic(text);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("exmaples=3"), HasSubstr("unknown name 'exmaples'; did you mean 'examples'?"));
  EXPECT_THAT(complaint("examples"), HasSubstr("is not NAME=VALUE"));
  EXPECT_THAT(complaint("examples=-3"), HasSubstr("whole number"));
  EXPECT_THAT(complaint("examples=3x"), HasSubstr("'3x'"));
  EXPECT_THAT(complaint("skew=high"), HasSubstr("must be a number"));
  EXPECT_THAT(complaint("formulation=poetry"), HasSubstr("unknown formulation 'poetry'"));
  EXPECT_THAT(complaint("skew=7"), HasSubstr("skew is 7"));
}

}  // namespace
}  // namespace chorus::inline synthetic
