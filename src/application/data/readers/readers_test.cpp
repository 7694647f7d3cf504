#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "application/data/readers/format.h"
#include "application/data/readers/json_stream.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "application/data/readers/open_dataset.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline readers {
namespace {

namespace fs = std::filesystem;

const std::string kFixtures = std::string(CHORUS_SOURCE_DIR) + "/tests/fixtures/data/";

/// A folder, removed after the test.
class Readers : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("chorus_readers_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path.string();
  }

  fs::path folder_;
};

Dataset read(const std::string& path, DataConfig config = {}) {
  config.train = {path};
  return open_dataset(config);
}

Dataset fixture(const std::string& name, DataConfig config = {}) { return read(kFixtures + name, std::move(config)); }

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

std::string gzip(const std::string& text) {
  std::string packed(text.size() + 1000, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string label(const Dataset& data, std::size_t i) { return std::string(data.labels().at(data.at(i).label)); }

TEST_F(Readers, Jsonl) {
  const Dataset data = fixture("reviews.jsonl");
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.formulation(), Formulation::kTextClassification);
  EXPECT_EQ(data.at(0).text, "Grüße aus Köln");
  EXPECT_EQ(data.at(1).text, "bad \"day\"");
  EXPECT_EQ(data.at(0).id, "a1");
  EXPECT_EQ(label(data, 1), "neg");
  EXPECT_EQ(data.clients().at(data.at(1).client), "bob");
  EXPECT_EQ(data.sources().at(data.at(0).source), "de");
  EXPECT_EQ(data.at(0).time, 1100480400);
  EXPECT_EQ(data.at(1).time, 1100480401);

  EXPECT_EQ(fixture("pairs.jsonl").formulation(), Formulation::kPairClassification);
  EXPECT_EQ(fixture("pairs.jsonl").at(1).second, "d");
  const Dataset ner = fixture("ner.jsonl");
  EXPECT_EQ(ner.formulation(), Formulation::kSequenceTagging);
  EXPECT_EQ(ner.at(1).words[0], "it");
  EXPECT_EQ(ner.tags().at(ner.at(0).tags[1]), "I-LOC");

  const Dataset qa = fixture("qa.jsonl");
  EXPECT_EQ(qa.formulation(), Formulation::kSpanExtraction);
  EXPECT_EQ(qa.at(0).answers[0].begin, 2);
  EXPECT_EQ(qa.at(0).answers[0].end, 5);
  EXPECT_EQ(qa.at(1).answers[1].text, "Ä");

  const Dataset summaries = fixture("summaries.jsonl");
  EXPECT_EQ(summaries.formulation(), Formulation::kSeq2Seq);
  EXPECT_EQ(summaries.at(0).text, "One. Two.");
  EXPECT_EQ(summaries.at(0).second, "1");
  EXPECT_EQ(summaries.at(0).answers[0].text, "one");
  EXPECT_EQ(summaries.at(0).answers[0].begin, -1);
}

TEST_F(Readers, JsonlFieldsByNameAndPointer) {
  const std::string path = write("x.jsonl", R"({"a": "title", "b": {"c": "body"}, "k": 3})");
  DataConfig config;
  config.columns.text = "a+/b/c";
  config.columns.label = "k";
  config.formulation = "text_classification";
  const Dataset data = read(path, config);
  EXPECT_EQ(data.at(0).text, "title body");
  EXPECT_EQ(label(data, 0), "3");
  config.columns.label = "nope";
  const std::string error = message_of<Error>([&] { read(path, config); });
  EXPECT_HAS(error, "unknown column 'nope'");
  EXPECT_HAS(error, "a, b, k");
}

TEST_F(Readers, AllNineGlueTasks) {
  const Dataset cola = fixture("glue/CoLA/train.tsv");
  ASSERT_EQ(cola.size(), 2U);
  EXPECT_EQ(cola.at(0).text, "The \"sailors rode.");
  EXPECT_EQ(label(cola, 1), "0");
  EXPECT_EQ(fixture("glue/CoLA/test.tsv").at(0).label, -1);
  EXPECT_EQ(fixture("glue/SST-2/train.tsv").at(1).text, "fine \" ");
  const Dataset mrpc = fixture("glue/MRPC/train.tsv");
  EXPECT_EQ(mrpc.at(0).second, "So , he said .");
  EXPECT_EQ(label(mrpc, 0), "1");
  const Dataset stsb = fixture("glue/STS-B/dev.tsv");
  EXPECT_EQ(stsb.formulation(), Formulation::kPairRegression);
  EXPECT_DOUBLE_EQ(stsb.at(0).score, 4.75);
  EXPECT_EQ(label(fixture("glue/MNLI/dev_matched.tsv"), 0), "entailment");
  const Dataset qqp = fixture("glue/QQP/train.tsv");
  ASSERT_EQ(qqp.size(), 2U);
  EXPECT_EQ(qqp.at(0).text, "q \"a");
  ASSERT_EQ(qqp.report().notes.size(), 1U);
  EXPECT_HAS(qqp.report().notes[0], "1 rows with missing fields");
  EXPECT_EQ(fixture("glue/QNLI/dev.tsv").at(0).text, "q?");
  EXPECT_EQ(label(fixture("glue/RTE/train.tsv"), 0), "entailment");
  EXPECT_EQ(label(fixture("glue/WNLI/train.tsv"), 0), "1");

  EXPECT_HAS(message_of<Error>([&] { read(write("RTE/dev.tsv", "index\tsentence1\tlabel\n0\ta\t1\n")); }),
             "the column 'sentence2', which GLUE's rte needs, is missing; the columns are index, sentence1, label");
  EXPECT_HAS(message_of<Error>([&] { read(write("RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\n")); }),
             "dev.tsv:2: 2 fields");
  DataConfig config;
  config.format = "glue";
  EXPECT_HAS(message_of<Error>([&] { read(write("dev.tsv", "sentence\tlabel\n"), config); }), "which GLUE task");
}

TEST_F(Readers, Conll) {
  const Dataset data = fixture("news.conll");
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.at(0).words[0], "U.N.");
  EXPECT_EQ(data.tags().at(data.at(1).tags[0]), "B-LOC");
  EXPECT_EQ(data.at(1).words[1], "#");
  DataConfig config;
  config.tag_column = 1;
  EXPECT_EQ(fixture("news.conll", config).tags().at(0), "NNP");
  const Dataset tweets = fixture("tweets.conll");
  ASSERT_EQ(tweets.size(), 2U);
  EXPECT_EQ(tweets.at(0).words[1], "New York");
  EXPECT_HAS(message_of<Error>([&] { read(write("a.conll", "a O\nb\n\n")); }), "a.conll:2: the line has 1 column");
}

TEST_F(Readers, Slots) {
  const Dataset data = fixture("slots.iob");
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.at(0).words.size(), 3U);
  EXPECT_EQ(data.tags().at(data.at(0).tags[2]), "B-music_item");
  EXPECT_EQ(label(data, 1), "GetWeather");
  DataConfig config;
  config.formulation = "text_classification";
  EXPECT_EQ(fixture("slots.iob", config).at(0).text, "add this song");
  EXPECT_HAS(message_of<Error>([&] { read(write("a.iob", "BOS a EOS\tO O x\nBOS a b EOS\tO O x\n")); }),
             "a.iob:2: 4 words");
}

TEST_F(Readers, Semeval) {
  const Dataset data = fixture("relations.txt");
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data.at(0).text, "The <e1>cat</e1> of the <e2>house</e2>.");
  EXPECT_EQ(label(data, 0), "Component-Whole(e2,e1)");
  EXPECT_EQ(label(data, 1), "Other");
  EXPECT_EQ(data.at(2).label, -1);
}

TEST_F(Readers, SquadAndMrqa) {
  const Dataset data = fixture("squad.json");
  ASSERT_EQ(data.size(), 3U);
  EXPECT_EQ(data.at(0).second, "Wo?");
  EXPECT_EQ(data.at(0).answers.size(), 2U);
  EXPECT_EQ(data.at(0).answers[0].end, 18);
  EXPECT_EQ(data.at(1).id, "7");
  EXPECT_TRUE(data.at(1).answers.empty());
  EXPECT_EQ(data.sources().at(data.at(2).source), "T2");

  const Dataset mrqa = fixture("mrqa.jsonl.gz");
  ASSERT_EQ(mrqa.size(), 2U);
  EXPECT_EQ(mrqa.at(0).answers[0].text, "Rome");
  EXPECT_EQ(mrqa.at(1).answers[0].end, 4);
  EXPECT_EQ(mrqa.sources().at(mrqa.at(0).source), "NewsQA");

  EXPECT_HAS(
      message_of<Error>([&] { read(write("a.json", R"({"data": [{"paragraphs": [{"context": "a", "qas": [)")); }),
      "is not closed");
  EXPECT_HAS(message_of<Error>([&] { read(write("a.json", R"({"data": [{"paragraphs": [{"qas": [{}]}]}]})")); }),
             "no \"context\"");
}

TEST_F(Readers, MisalignedAnswersByPolicy) {
  const std::string path = write("bad.json", R"({"data": [{"paragraphs": [{"context": "cat sat. A cat ran.", "qas": [
    {"id": "1", "question": "q", "answers": [{"text": " cat ", "answer_start": 12}]},
    {"id": "2", "question": "q", "answers": [{"text": "dog", "answer_start": 99}]},
    {"id": "3", "question": "q", "answers": [{"text": "dog", "answer_start": -5}, {"text": "sat", "answer_start": 4}]}]}]}]})");
  EXPECT_HAS(message_of<Error>([&] { read(path); }), "(question 1): the answer \" cat \" is not at character 12");
  DataConfig config;
  config.misaligned = Misaligned::kRealign;
  const Dataset moved = read(path, config);
  ASSERT_EQ(moved.size(), 2U);
  EXPECT_EQ(moved.at(0).answers[0].begin, 11);
  EXPECT_EQ(moved.at(0).answers[0].text, "cat");
  EXPECT_EQ(moved.at(1).answers.size(), 1U);
  EXPECT_EQ(moved.report().misaligned, 3U);
  EXPECT_EQ(moved.report().realigned, 1U);
  EXPECT_EQ(moved.report().unaligned, 2U);
  config.misaligned = Misaligned::kSkip;
  EXPECT_EQ(read(path, config).size(), 1U);
}

TEST_F(Readers, PlainAndParallelText) {
  EXPECT_EQ(fixture("corpus.txt").size(), 3U);
  DataConfig config;
  config.paragraphs = true;
  const Dataset paragraphs = fixture("corpus.txt", config);
  ASSERT_EQ(paragraphs.size(), 2U);
  EXPECT_EQ(paragraphs.at(0).text, "first line\nsecond line");

  config = {};
  config.format = "parallel";
  const std::string both = kFixtures + "corpus.en," + kFixtures + "corpus.de";
  EXPECT_EQ(read(both, config).at(1).second, "zwei");
  const std::string error =
      message_of<Error>([&] { read(write("a.txt", "1\n2\n3\n") + "," + write("b.txt", "1\n"), config); });
  EXPECT_HAS(error, "b.txt ends after 1 lines");
}

TEST_F(Readers, LeafClincAndClientFolder) {
  const Dataset leaf = fixture("leaf.json");
  ASSERT_EQ(leaf.size(), 3U);
  EXPECT_EQ(leaf.clients().at(leaf.at(2).client), "u3");
  EXPECT_EQ(leaf.at(2).text, "so sad today");
  EXPECT_EQ(label(leaf, 0), "t");
  DataConfig config;
  config.formulation = "language_model";
  EXPECT_EQ(fixture("leaf.json", config).at(1).text, "or notb");
  EXPECT_HAS(message_of<Error>([&] {
               read(write("l.json",
                          R"({"users": ["u"], "num_samples": [1], "user_data": {"u": {"x": ["a", "b"], "y": [1]}}})"));
             }),
             "the user u has 2 texts but 1 labels");
  EXPECT_HAS(
      message_of<Error>([&] {
        read(write("l.json", R"({"users": ["u"], "num_samples": [9], "user_data": {"u": {"x": ["a"], "y": [1]}}})"));
      }),
      "num_samples is 9");

  const Dataset clinc = fixture("intents.json");
  EXPECT_EQ(clinc.split(Split::kTrain).size(), 3U);
  EXPECT_EQ(clinc.split(Split::kValidation).size(), 2U);
  EXPECT_EQ(clinc.split(Split::kTest).size(), 1U);
  EXPECT_EQ(clinc.labels().at(0), "greet");

  const Dataset clients = fixture("clients");
  ASSERT_EQ(clients.size(), 3U);
  EXPECT_EQ(clients.at(0).text, "zero");
  EXPECT_EQ(clients.clients().at(clients.at(1).client), "2");
  EXPECT_EQ(clients.clients().at(clients.at(2).client), "named");
}

TEST_F(Readers, GzipByContentWholeBrokenAndCutShort) {
  const std::string text = "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n";
  const std::string packed = gzip(text);
  EXPECT_EQ(read(write("no_gz_in_name.jsonl", packed)).size(), 2U);
  EXPECT_EQ(read(write("twice.jsonl", packed + packed)).size(), 4U);
  EXPECT_EQ(read(write("plain.jsonl.gz", text)).size(), 2U);
  EXPECT_HAS(message_of<Error>([&] { read(write("cut.jsonl.gz", packed.substr(0, packed.size() - 12))); }),
             "ends too early");
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 0x55);
  EXPECT_HAS(message_of<Error>([&] { read(write("bad.jsonl.gz", damaged)); }), "damaged");
}

TEST_F(Readers, MixedEncodings) {
  const Dataset data =
      read(write("latin.jsonl", "{\"text\": \"caf\xE9 ok\"}\n{\"text\": \"\xC3\xA9t\xC3\xA9 \xFF\xFE\"}\n"));
  EXPECT_EQ(data.at(0).text, "caf\xEF\xBF\xBD ok");
  EXPECT_EQ(data.at(1).text, "été \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(data.report().replaced_bytes, 3U);
  ASSERT_EQ(data.report().notes.size(), 1U);
  EXPECT_HAS(data.report().notes[0], "latin.jsonl: 3 invalid UTF-8 sequences were replaced");
  EXPECT_HAS(message_of<Error>([&] { read(write("wide.csv", std::string("\xFF\xFEt\0e\0", 6))); }), "UTF-16");
  EXPECT_HAS(message_of<Error>([&] { read(write("binary.csv", std::string("text\na\0b\n", 9))); }),
             "binary.csv:2: contains a zero byte");
}

TEST_F(Readers, ATenMegabyteLineAndNoText) {
  const std::string big(10'000'000, 'x');
  const Dataset data = read(write("big.jsonl", "{\"text\": \"" + big + "\"}\n{\"text\": \"\"}\n{\"text\": \"z\"}"));
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data.at(0).text.size(), big.size());
  EXPECT_EQ(data.at(1).text, "z");
  EXPECT_EQ(data.report().empty, 1U);
  DataConfig config;
  config.empty = EmptyText::kError;
  EXPECT_HAS(message_of<Error>([&] { read(write("e.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\"}\n"), config); }),
             "e.jsonl:2");
}

TEST_F(Readers, UnknownLabelInTheTestSet) {
  DataConfig config;
  config.train = {write("train.csv", "text,label\na,x\n")};
  config.test = {write("test.csv", "text,label\nb,x\nc,new\n")};
  EXPECT_HAS(message_of<Error>([&] { open_dataset(config); }), "test.csv:3: the label 'new' does not occur");
  config.labels = {"new", "x"};
  EXPECT_EQ(open_dataset(config).at(0).label, 1);
  config.labels = {"x"};
  EXPECT_HAS(message_of<Error>([&] { open_dataset(config); }),
             "test.csv:3: the label 'new' is not in the given vocabulary");
}

TEST_F(Readers, WrongFiles) {
  EXPECT_HAS(message_of<Error>([&] { read(write("empty.jsonl", "")); }), "is empty");
  EXPECT_HAS(message_of<Error>([&] { read("/no/such/file"); }), "no such file");
  EXPECT_HAS(message_of<Error>([&] { read(write("x.jsonl", "{\"text\": \"a\"}\n{\"text\": \n")); }),
             "x.jsonl:2: malformed JSON");
  EXPECT_HAS(message_of<Error>([&] { read(write("x.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\"}\n")); }),
             "x.jsonl:2: the field 'label' is missing; the fields are text");
  EXPECT_HAS(message_of<Error>([&] {
               read(write("x.bin", std::string("\x7f"
                                               "ELF\0\1",
                                               6)));
             }),
             "unknown format");
  DataConfig config;
  config.train = {kFixtures + "squad.json"};
  config.test = {kFixtures + "news.conll"};
  EXPECT_HAS(message_of<Error>([&] { open_dataset(config); }), "squad.json is span_extraction");
  EXPECT_HAS(message_of<Error>([] { open_dataset({}); }), "no data; set train");
  EXPECT_HAS(message_of<Error>([] { format_named("nope"); }), "the formats are clients, clinc, conll, csv");
}

TEST_F(Readers, SplitsFromNames) {
  write("set/train.tsv", "a");
  write("set/msr_train.txt", "a");
  write("set/dev_matched.tsv", "a");
  write("set/README.md", "a");
  const DataConfig config = config_of_paths({(folder_ / "set").string()});
  ASSERT_EQ(config.train.size(), 1U);
  EXPECT_TRUE(config.train[0].ends_with("set/train.tsv"));
  ASSERT_EQ(config.validation.size(), 1U);
  EXPECT_TRUE(config.test.empty());
}

TEST_F(Readers, JsonStreamWalksAndRefuses) {
  JsonStream json(write("a.json", "{\n \"a\": [1, \"x]\\\"\", {\"b\": [2]}], \"n\": 5,\n \"c\": true }  "));
  json.enter('{');
  std::string key;
  ASSERT_TRUE(json.next_key(key));
  json.enter('[');
  ASSERT_TRUE(json.next_element());
  EXPECT_EQ(json.value(), "1");
  ASSERT_TRUE(json.next_element());
  EXPECT_EQ(json.value(), "\"x]\\\"\"");
  ASSERT_TRUE(json.next_element());
  EXPECT_EQ(json.value(), "{\"b\": [2]}");
  EXPECT_FALSE(json.next_element());
  ASSERT_TRUE(json.next_key(key));
  json.skip();
  ASSERT_TRUE(json.next_key(key));
  EXPECT_EQ(json.value(), "true");
  EXPECT_HAS(json.where(), "a.json:3");
  EXPECT_FALSE(json.next_key(key));
  json.expect_end();
}

TEST_F(Readers, Times) {
  EXPECT_EQ(parse_time("2004-11-15", ""), 1100476800);
  EXPECT_EQ(parse_time("2004-11-15T03:00:00+02:00", ""), 1100480400);
  EXPECT_EQ(parse_time("2004-11-15 01:00:00.75", ""), 1100480400);
  EXPECT_EQ(parse_time("17.9", ""), 17);
  for (const char* wrong : {"", "soon", "2004-13-01", "2004-02-30", "2004-11-15T25:00", "1e99", "nan"}) {
    EXPECT_HAS(message_of<Error>([&] { parse_time(wrong, "f:1"); }), "f:1: '") << wrong;
  }
}

/// ../shared/data, if it exists: every dataset loads with the number of records of its README.
struct RealSet {
  const char* path;
  std::size_t train, validation, test;
  const char* option = "";
};

class RealData : public testing::TestWithParam<RealSet> {};

TEST_P(RealData, HasTheCountsOfTheReadme) {
  const std::string root = std::string(CHORUS_SOURCE_DIR) + "/../shared/data/";
  if (!fs::exists(root)) GTEST_SKIP() << "there is no ../shared/data";
  const RealSet& set = GetParam();
  DataConfig config = config_of_paths({root + set.path});
  config.cache = "none";
  config.allow_new_labels = set.option == std::string("new labels");
  if (set.option == std::string("realign")) config.misaligned = Misaligned::kRealign;
  const Dataset data = open_dataset(config);
  EXPECT_EQ(data.split(Split::kTrain).size(), set.train);
  EXPECT_EQ(data.split(Split::kValidation).size(), set.validation);
  EXPECT_EQ(data.split(Split::kTest).size(), set.test);
  if (set.path == std::string("irc")) {
    EXPECT_EQ(data.clients().size(), 17776U);
  }
  if (set.path == std::string("shakespeare")) {
    EXPECT_EQ(data.clients().size(), 1567U);
  }
  if (set.path == std::string("covid_qa")) {
    EXPECT_EQ(data.report().misaligned, 234U);
  }
  if (set.path == std::string("20news")) {
    EXPECT_EQ(data.labels().size(), 20U);
  }
  if (set.path == std::string("semeval2010_task8")) {
    EXPECT_EQ(data.labels().size(), 19U);
  }
  if (set.path == std::string("wnut17")) {
    EXPECT_EQ(data.tags().size(), 13U);
  }
  if (set.path == std::string("clinc150")) {
    EXPECT_EQ(data.labels().size(), 151U);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, RealData,
                         testing::Values(RealSet{"20news", 11314, 0, 7532}, RealSet{"agnews", 19807, 0, 7600},
                                         RealSet{"semeval2010_task8", 8000, 0, 2717},
                                         RealSet{"wnut17", 3394, 1009, 1287}, RealSet{"snips", 13084, 700, 700},
                                         RealSet{"atis", 4478, 500, 893, "new labels"},
                                         RealSet{"squad_shifts/amazon_reviews_v1.0.json", 9885, 0, 0},
                                         RealSet{"squad_shifts/reddit_v1.0.json", 9803, 0, 0},
                                         RealSet{"squad_shifts/new_wiki_v1.0.json", 7938, 0, 0},
                                         RealSet{"squad/xquad.en.json", 1190, 0, 0},
                                         RealSet{"covid_qa", 1380, 0, 0, "realign"}, RealSet{"xlsum_title", 6127, 0, 0},
                                         RealSet{"scitldr", 1992, 619, 618}, RealSet{"glue/SST-2", 67349, 872, 1821},
                                         RealSet{"glue/CoLA", 8551, 1043, 1063}, RealSet{"glue/MRPC", 3667, 408, 1725},
                                         RealSet{"glue/RTE", 2490, 277, 3000}, RealSet{"glue/WNLI", 635, 71, 146},
                                         RealSet{"glue/STS-B", 5749, 1500, 1379}, RealSet{"glue/QNLI", 0, 5463, 5463},
                                         RealSet{"glue/QQP", 18153, 2059, 0}, RealSet{"glue/MNLI", 15745, 1716, 0},
                                         RealSet{"glue/diagnostic", 1104, 0, 0}, RealSet{"paws", 5800, 686, 0},
                                         RealSet{"imdb", 4999, 0, 4999}, RealSet{"irc", 221592, 0, 0},
                                         RealSet{"shakespeare", 32621, 0, 0}, RealSet{"clinc150", 15100, 3100, 5500}),
                         [](const auto& set) {
                           std::string name;
                           for (const char c : std::string(set.param.path))
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace chorus::inline readers
