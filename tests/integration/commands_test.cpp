// The commands around a run, as a user types them: data, partitions, tokenizers, models, scores.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/program.h"
#include "tests/support.h"

namespace chorus::inline integration {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Commands : public testing::Test {
 protected:
  /// Standard output; with `errors` standard error as well.
  Outcome chorus(const std::string& arguments, const std::string& input = "", bool errors = true) const {
    return run_program("XDG_CACHE_HOME=" + path("cache") + " " CHORUS_PROGRAM,
                       arguments + (errors ? " 2>&1" : " 2>/dev/null"), input);
  }
  json answer(const std::string& arguments, const std::string& input = "") const {
    const Outcome outcome = chorus(arguments, input, false);
    EXPECT_EQ(outcome.status, 0) << arguments;
    return json::parse(outcome.output, nullptr, false);
  }
  /// The command ends with this status and prints `why`.
  void expect_refused(const std::string& arguments, int status, const std::string& why) const {
    const Outcome outcome = chorus(arguments);
    EXPECT_EQ(outcome.status, status) << arguments;
    EXPECT_THAT(outcome.output, HasSubstr(why)) << arguments;
    EXPECT_THAT(outcome.output, Not(HasSubstr("terminate"))) << arguments;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  std::string text_of(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  std::string make_data(const std::string& name, int examples = 60, const std::string& options = "") const {
    const Outcome made = chorus("data make -f text_classification --labels 3 -n " + std::to_string(examples) + " -o " +
                                path(name) + " " + options);
    EXPECT_EQ(made.status, 0) << made.output;
    return path(name);
  }

  TemporaryFolder folder_;
};

TEST_F(Commands, AGeneratedExampleDependsOnSeedAndIndexOnly) {
  make_data("a.jsonl");
  make_data("b.jsonl");
  make_data("c.jsonl", 60, "--seed 2");
  make_data("short.jsonl", 10);
  EXPECT_EQ(text_of("a.jsonl"), text_of("b.jsonl"));
  EXPECT_NE(text_of("a.jsonl"), text_of("c.jsonl"));
  EXPECT_THAT(text_of("a.jsonl"), StartsWith(text_of("short.jsonl")));
  expect_refused("data make -f poetry -n 3 -o " + path("x"), 2, "unknown formulation 'poetry'");
  expect_refused("data make -f seq2seq -n 3 -o " + path("no/such/folder/x"), 3, "no/such/folder");
}

TEST_F(Commands, DataIsCountedByLabelAndSplit) {
  const std::string train = make_data("train.jsonl"), test = make_data("test.jsonl", 24, "--split test");
  const json info = answer("data info " + train + " " + test + " --json");
  EXPECT_EQ(info["formulation"], "text_classification");
  EXPECT_EQ(info["examples"]["train"], 60);
  EXPECT_EQ(info["examples"]["test"], 24);
  int labelled = 0;
  std::set<std::string> names;
  for (const json& label : info["labels"]) {
    labelled += label["train"].get<int>();
    names.insert(label["name"]);
  }
  EXPECT_EQ(labelled, 60);
  EXPECT_EQ(names.size(), 3U);
  expect_refused("data info " + path("missing.jsonl"), 3, "missing.jsonl: no such file");
  expect_refused("data info " + write("bad.jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \n"), 3,
                 "bad.jsonl:2");
}

TEST_F(Commands, SamplesAreExamplesOfTheData) {
  const std::string data = make_data("a.jsonl");
  const Outcome two = chorus("data sample " + data + " -n 2");
  EXPECT_EQ(two.status, 0) << two.output;
  std::istringstream lines(two.output);
  int shown = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) continue;
    ++shown;
    const std::string id = line.substr(line.find("id: ") + 4);
    EXPECT_THAT(text_of("a.jsonl"), HasSubstr("\"id\":\"" + id + "\""));
  }
  EXPECT_EQ(shown, 2);
}

TEST_F(Commands, EncodedDataIsFoundInTheCache) {
  const std::string command =
      "data encode --data " + make_data("train.jsonl") + " --tokenizer models/chorus-mini --max-length 16";
  const Outcome first = chorus(command), second = chorus(command);
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_EQ(second.status, 0) << second.output;
  std::size_t files = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "cache")) files += item.is_regular_file() ? 1 : 0;
  EXPECT_GE(files, 1U);
  EXPECT_EQ(
      chorus("data encode --data " + path("train.jsonl") + " --tokenizer models/chorus-mini --max-length 24").status,
      0);
  std::size_t more = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder_ / "cache")) more += item.is_regular_file() ? 1 : 0;
  EXPECT_GT(more, files) << "another length is another encoding";
  expect_refused("data encode --data " + path("train.jsonl") + " --tokenizer " + path("nothing"), 3, "no such folder");
}

/// Every client's training examples in a partition file.
std::vector<std::vector<int>> clients_of(const json& file, const std::string& group) {
  std::vector<std::vector<int>> clients;
  for (const json& client : file["partitions"][group]["clients"]) clients.push_back(client["train"]);
  return clients;
}

TEST_F(Commands, APartitionHasEveryExampleOnceAndFollowsItsSeed) {
  const std::string data = make_data("a.jsonl");
  const std::string group = "niid_label_clients=5_alpha=0.5";
  const auto make = [&](const std::string& out, const std::string& seed) {
    const Outcome made =
        chorus("partition make --data " + data + " --clients 5 --alpha 0.5 --seed " + seed + " --out " + path(out));
    EXPECT_EQ(made.status, 0) << made.output;
    return clients_of(json::parse(text_of(out)), group);
  };
  const auto first = make("p.json", "1");
  EXPECT_EQ(first, make("q.json", "1"));
  EXPECT_NE(first, make("r.json", "2"));
  std::set<int> seen;
  std::size_t examples = 0;
  for (const auto& client : first) {
    seen.insert(client.begin(), client.end());
    examples += client.size();
  }
  EXPECT_EQ(first.size(), 5U);
  EXPECT_EQ(examples, 60U);
  EXPECT_EQ(seen.size(), 60U);
  EXPECT_EQ(*seen.rbegin(), 59);
}

TEST_F(Commands, SeveralPartitionsShareAFile) {
  const std::string data = make_data("a.jsonl"), file = path("p.json");
  EXPECT_EQ(chorus("partition make --data " + data + " --clients 4 --alpha 1,10 --out " + file).status, 0);
  EXPECT_EQ(chorus("partition make --data " + data + " --method uniform --clients 6 --out " + file).status, 0);
  const json groups = json::parse(text_of("p.json"))["partitions"];
  EXPECT_EQ(groups.size(), 3U);
  EXPECT_TRUE(groups.contains("niid_label_clients=4_alpha=10"));
  EXPECT_TRUE(groups.contains("uniform_clients=6"));
  const Outcome shown = chorus("partition show " + file);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("niid_label_clients=4_alpha=1 "), HasSubstr("uniform_clients=6")));
  const json one = answer("partition show " + file + " --group uniform_clients=6 --json");
  EXPECT_EQ(one["clients"], 6);
  expect_refused("partition show " + file + " --group nothing", 3, "nothing");
  expect_refused("partition make --data " + data + " --method nothing --clients 4 --out " + file, 2,
                 "unknown partitioner 'nothing'");
  EXPECT_EQ(json::parse(text_of("p.json"))["partitions"], groups) << "a mistake leaves the file as it was";
}

TEST_F(Commands, TokensOffsetsAndWindowsFitTheText) {
  const std::string with = "tokenize --tokenizer models/chorus-mini ";
  const json plain = answer(with + "--json", "She opened the door");
  EXPECT_EQ(plain["tokens"], json({"[CLS]", "she", "opened", "the", "door", "[SEP]"}));
  EXPECT_EQ(plain["offsets"][2], json({4, 10}));
  const json bare = answer(with + "--json --no-special", "She opened the door");
  EXPECT_EQ(bare["tokens"].size(), 4U);
  // Decoding gives the normalized text back.
  std::string ids;
  for (const json& id : plain["ids"]) ids += std::to_string(id.get<int>()) + " ";
  EXPECT_EQ(chorus(with + "--decode", ids).output, "she opened the door\n");

  const json cut = answer(with + "--json --max-length 5 --stride 1", "one two three four five six");
  EXPECT_EQ(cut["tokens"], json({"[CLS]", "one", "two", "three", "[SEP]"}));
  ASSERT_EQ(cut["overflow"].size(), 2U);
  EXPECT_EQ(cut["overflow"][0]["tokens"][1], "three") << "windows overlap by one token";
  EXPECT_EQ(cut["overflow"][1]["tokens"], json({"[CLS]", "five", "six", "[SEP]"}));
  expect_refused(with + "--max-length 0", 2, "max-length");
  expect_refused("tokenize --tokenizer " + path("nothing"), 3, "no such folder");
}

TEST_F(Commands, ATrainedTokenizerReadsItsOwnText) {
  const std::string texts = write("texts", "low lower lowest\nnew newer newest\nlow new\nlower newer\n");
  for (const std::string type : {"wordpiece", "bpe"}) {
    const std::string folder = path(type);
    const Outcome trained = chorus("tokenizer train --type " + type + " --vocab-size " +
                                   (type == "bpe" ? "300" : "60") + " --min-frequency 1 --out " + folder + " " + texts);
    ASSERT_EQ(trained.status, 0) << trained.output;
    const json read = answer("tokenize --tokenizer " + folder + " --json --no-special", "newer low");
    std::string ids;
    for (const json& id : read["ids"]) ids += std::to_string(id.get<int>()) + " ";
    EXPECT_EQ(chorus("tokenize --tokenizer " + folder + " --decode", ids).output, "newer low\n") << type;
    EXPECT_LT(read["ids"].size(), 9U) << "words that occur often are few tokens";
  }
  expect_refused("tokenizer train --type wordpiece --out " + path("x") + " " + path("missing"), 3, "cannot read");
}

TEST_F(Commands, ClassificationScoresFollowFromTheCounts) {
  const std::string files =
      " --predictions " + write("p", "a\nb\nb\na\n") + " --references " + write("r", "a\nb\na\na\n");
  const json scores = answer("score --task classification --json" + files)["scores"];
  EXPECT_EQ(scores["accuracy"], 0.75);
  EXPECT_DOUBLE_EQ(scores["f1/a"], 0.8);  // 2 correct of 2 predicted and 3 actual
  EXPECT_DOUBLE_EQ(scores["macro_f1"], (0.8 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(scores["matthews"], 1 / std::sqrt(3.0));
  const json by_client =
      answer("score --task classification --json --by client --clients " + write("c", "x\nx\ny\ny\n") + files);
  EXPECT_THAT(by_client.dump(), AllOf(HasSubstr("\"x\""), HasSubstr("\"y\"")));
  expect_refused("score --task classification --predictions " + write("short", "a\n") + " --references " + path("r"), 3,
                 "more references than predictions (1)");
  expect_refused("score --task poetry" + files, 2, "unknown task 'poetry'");
}

TEST_F(Commands, OtherTasksAreScoredByTheirMetrics) {
  const json regression = answer("score --task regression --json --predictions " + write("p", "1\n2\n3\n") +
                                 " --references " + write("r", "2\n4\n7\n"))["scores"];
  EXPECT_NEAR(regression["pearson"].get<double>(), 5 / std::sqrt(2 * 114.0 / 9), 1e-12);
  EXPECT_NEAR(regression["spearman"].get<double>(), 1, 1e-12);
  const json generation = answer("score --task generation --json --predictions " + write("p", "the cat sat\n") +
                                 " --references " + write("r", "the cat sat down\n"))["scores"];
  EXPECT_DOUBLE_EQ(generation["rouge1"], 2 * 1.0 * 0.75 / 1.75);
  EXPECT_DOUBLE_EQ(generation["rouge2"], 2 * 1.0 * (2.0 / 3) / (5.0 / 3));
  const json tagging =
      answer("score --task tagging --json --predictions " + write("p", "Ann B-PER\nleft O\nParis B-LOC\n") +
             " --references " + write("r", "Ann B-PER\nleft O\nParis B-PER\n"))["scores"];
  EXPECT_DOUBLE_EQ(tagging["f1"], 0.5);  // one of two entities has the right type
  const json perplexity = answer("score --task lm --json --predictions " + write("p", "6\t3\n4\t2\n"))["scores"];
  EXPECT_NEAR(perplexity["perplexity"].get<double>(), std::exp(2.0), 1e-9);
  expect_refused("score --task regression --predictions " + write("p", "one\n") + " --references " + write("r", "1\n"),
                 3, "p:1");
}

TEST_F(Commands, AConvertedModelGivesTheSameVectors) {
  EXPECT_EQ(chorus("model convert models/chorus-mini " + path("half") + " --dtype bfloat16").status, 0);
  const json info = answer("model info " + path("half") + " --json");
  EXPECT_EQ(info["model_type"], "bert");
  EXPECT_EQ(info["parameters"], 5462784);
  EXPECT_LT(fs::file_size(folder_ / "half" / "model.safetensors"), 2 * 5462784 + 20000U);
  // Eight bits of precision change a vector only slightly.
  const auto vector_of = [&](const std::string& model) {
    std::istringstream numbers(chorus("embed --model " + model, "hello there", false).output);
    return std::vector<double>(std::istream_iterator<double>(numbers), {});
  };
  const auto whole = vector_of("models/chorus-mini"), half = vector_of(path("half"));
  ASSERT_EQ(whole.size(), half.size());
  ASSERT_GT(whole.size(), 100U);
  double difference = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) difference = std::max(difference, std::abs(whole[i] - half[i]));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.1);
  EXPECT_EQ(chorus("model convert models/chorus-mini " + path("shards") + " --shard-mb 10").status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "shards" / "model.safetensors.index.json"));
  EXPECT_EQ(vector_of(path("shards")), whole);
  expect_refused("model info " + path("nothing"), 3, "nothing");
}

TEST_F(Commands, GapsAreFilledWithTheLikeliestTokensFirst) {
  const json filled = answer("fill --model models/chorus-mini --json", "The [MASK] is here");
  ASSERT_EQ(filled["gaps"].size(), 1U);
  double before = 1, sum = 0;
  for (const json& guess : filled["gaps"][0]) {
    const double probability = guess["probability"];
    EXPECT_LE(probability, before);
    before = probability;
    sum += probability;
  }
  EXPECT_LE(sum, 1);
  expect_refused("fill --model tests/fixtures/parity/gpt2-lm", 2, "");
}

TEST_F(Commands, NamesAreListedAndDescribed) {
  const json algorithms = answer("list algorithm --json");
  std::set<std::string> names;
  for (const json& entry : algorithms) {
    EXPECT_EQ(entry["kind"], "algorithm");
    EXPECT_NE(entry["summary"], "");
    names.insert(entry["name"]);
  }
  for (const char* name : {"fedavg", "fedprox", "fedopt", "scaffold", "adafl"})
    EXPECT_TRUE(names.contains(name)) << name;
  expect_refused("list nonsense", 2, "unknown kind 'nonsense' (known: aggregation, algorithm");
  const Outcome described = chorus("describe fedprox");
  EXPECT_THAT(described.output, AllOf(HasSubstr("Li et al. 2020"), HasSubstr("mu "), HasSubstr("at least 0")));
  expect_refused("describe nothing", 2, "unknown name 'nothing'");
}

TEST_F(Commands, AWrongOptionPointsToTheHelpOfItsCommand) {
  expect_refused("data make --examples 3", 2, "Try 'chorus data make --help'.");
  expect_refused("tokenizer train", 2, "Try 'chorus tokenizer train --help'.");
  expect_refused("fill", 2, "Try 'chorus fill --help'.");
  expect_refused("--nonsense", 2, "Try 'chorus --help'.");
}

TEST_F(Commands, AllMistakesOfAConfigurationAreReportedAtOnce) {
  const Outcome outcome = chorus("validate configs/demo.yaml rounds=0 trainer.clp=1");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("2 mistakes"), HasSubstr("rounds: '0' is out of range"),
                                    HasSubstr("did you mean 'clip'?")));
}

TEST(ShippedConfigurations, AreValid) {
  int files = 0;
  for (const auto& item : fs::recursive_directory_iterator(CHORUS_SOURCE_DIR "/configs")) {
    if (item.path().extension() != ".yaml") continue;
    ++files;
    const Outcome outcome = run_program(CHORUS_PROGRAM, "validate " + item.path().string() + " 2>&1");
    // Data and models outside the repository may be missing; there must be no other mistake.
    std::istringstream lines(outcome.output);
    for (std::string line; outcome.status != 0 && std::getline(lines, line);) {
      EXPECT_THAT(line, AnyOf(HasSubstr("does not exist"), HasSubstr("no such file"), HasSubstr("mistakes")))
          << item.path();
    }
    if (!outcome.output.ends_with("(experiment)\n")) continue;
    std::string first;
    std::ifstream in(item.path());
    std::getline(in, first);
    EXPECT_THAT(first, StartsWith("# build/chorus ")) << item.path() << ": its first line is the command that runs it";
  }
  EXPECT_GE(files, 5);
}

}  // namespace
}  // namespace chorus::inline integration
