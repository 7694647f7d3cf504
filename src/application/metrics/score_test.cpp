#include "application/metrics/score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace chorus::inline metrics {
namespace {

using testing::HasSubstr;

class ScoreFiles : public testing::Test {
 protected:
  ScoreFiles() : folder_(std::filesystem::temp_directory_path() / ("chorus_score_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~ScoreFiles() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string write_gzip(const std::string& name, const std::string& text, std::size_t cut = 0) const {
    const std::string path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    if (cut > 0) std::filesystem::resize_file(path, std::filesystem::file_size(path) - cut);
    return path;
  }
  ScoreOptions ask(ScoreTask task, const std::string& predictions, const std::string& references) const {
    ScoreOptions options;
    options.task = task;
    options.predictions = write("p", predictions);
    options.references = write("r", references);
    return options;
  }
  Scores scores(ScoreTask task, const std::string& predictions, const std::string& references) const {
    return score_files(ask(task, predictions, references)).all.scores;
  }
  static std::string complaint(const ScoreOptions& options) {
    try {
      score_files(options);
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  }
  std::string complaint(ScoreTask task, const std::string& predictions, const std::string& references) const {
    return complaint(ask(task, predictions, references));
  }

  std::filesystem::path folder_;
};

TEST_F(ScoreFiles, PlainAndJsonLinesAgree) {
  const Scores plain = scores(ScoreTask::kClassification, "a\nb\nb\n",
                              "\xEF\xBB\xBF"
                              "a\r\na\r\nb");
  const Scores lines = scores(ScoreTask::kClassification, R"({"id": 2, "prediction": "b"}
{"id": 3, "prediction": "b"}
{"id": 1, "prediction": "a"})",
                              R"({"id": 1, "label": "a"}

{"id": 2, "label": "a"}
{"id": 3, "label": "b"}
)");
  EXPECT_EQ(plain, lines);
  EXPECT_DOUBLE_EQ(plain.at("accuracy"), 2.0 / 3);
}

TEST_F(ScoreFiles, BinaryScoresOfZeroAndOne) {
  EXPECT_DOUBLE_EQ(scores(ScoreTask::kClassification, "1\n1\n0\n", "1\n0\n0\n").at("f1"), 2.0 / 3);
  EXPECT_FALSE(scores(ScoreTask::kClassification, "1\n1\n2\n", "1\n0\n0\n").contains("f1"));
}

TEST_F(ScoreFiles, EveryTaskReadsItsFormats) {
  EXPECT_NEAR(
      scores(ScoreTask::kRegression, "1\n2\n4", "{\"score\": 1}\n{\"score\": 2}\n{\"score\": 4.0}\n").at("pearson"), 1,
      1e-12);
  EXPECT_DOUBLE_EQ(
      scores(ScoreTask::kTagging, "-DOCSTART- O\n\nx B-PER\ny O\n\n\nz O\n", "x NN B-PER\ny NN I-PER\n\nz NN O\n")
          .at("f1"),
      0);
  EXPECT_DOUBLE_EQ(scores(ScoreTask::kTagging, "{\"tags\": [\"B-PER\", \"O\"]}", "B-PER\nO\n").at("f1"), 1);
  EXPECT_DOUBLE_EQ(scores(ScoreTask::kQuestionAnswering, R"({"q": "the Paris"})",
                          R"({"data": [{"paragraphs": [{"qas": [{"id": "q", "answers": [{"text": "paris."}]}]}]}]})")
                       .at("exact_match"),
                   1);
  EXPECT_DOUBLE_EQ(scores(ScoreTask::kQuestionAnswering, R"({"id": "q", "prediction": "Paris"})",
                          R"({"id": "q", "answers": {"text": ["x", "paris"], "answer_start": [0, 1]}})")
                       .at("f1"),
                   1);
  EXPECT_DOUBLE_EQ(
      scores(ScoreTask::kGeneration, "a cat\n\n", "{\"target\": [\"x\", \"a cat\"]}\n{\"target\": \"y\"}\n")
          .at("rouge1"),
      0.5);
  ScoreOptions lm = ask(ScoreTask::kLanguageModel, "4\t2\n{", "");
  lm.references.clear();
  EXPECT_THAT(complaint(lm), HasSubstr("p:2:"));
  lm.predictions = write_gzip("p.gz", "4\t2\n2\t1\n");
  EXPECT_DOUBLE_EQ(score_files(lm).all.scores.at("perplexity"), std::exp(2.0));
}

TEST_F(ScoreFiles, WrongFilesAreNamedWithTheirLine) {
  using enum ScoreTask;
  EXPECT_THAT(complaint(kClassification, "a\n", "a\nb\n"), HasSubstr("r:2: there are more references"));
  EXPECT_THAT(complaint(kClassification, "a\nb\nc\n", "a\n"), HasSubstr("p:2: there are more predictions"));
  EXPECT_THAT(complaint(kClassification, "a\n\nb\n", "a\nb\nc\n"), HasSubstr("p:2: the line is empty"));
  EXPECT_THAT(complaint(kClassification, "", "a\n"), HasSubstr("p: the file is empty"));
  EXPECT_THAT(complaint(kClassification, "a\n\xFF\n", "a\nb\n"), HasSubstr("p:2: the line is not UTF-8"));
  EXPECT_THAT(complaint(kClassification, "{\"label\": 1}\n{\"lable\": 2}\n", "1\n2\n"),
              HasSubstr("p:2: the object has no"));
  EXPECT_THAT(complaint(kClassification, "{\"label\": 1}\n{\"label\n", "1\n2\n"),
              HasSubstr("p:2: the line is not a JSON"));
  EXPECT_THAT(complaint(kClassification, "{\"label\": [1]}\n", "1\n"), HasSubstr("p:1: \"label\" is neither"));
  EXPECT_THAT(complaint(kRegression, "1\nnan\n", "1\n2\n"), HasSubstr("p:2: 'nan' is not a finite number"));
  EXPECT_THAT(complaint(kRegression, "1\n2x\n", "1\n2\n"), HasSubstr("p:2:"));
  EXPECT_THAT(complaint(kTagging, "O\nO\n", "O\n"), HasSubstr("p:1: the sentence has 2 tags"));
  EXPECT_THAT(complaint(kTagging, "x O\n", "y O\n"), HasSubstr("same sentences"));
  EXPECT_THAT(complaint(kGeneration, "", ""), HasSubstr("the file has no references"));
  EXPECT_THAT(complaint(kGeneration, "a\n", "{\"target\": []}\n"), HasSubstr("r:1:"));
  ScoreOptions strict = ask(kTagging, "x O\ny E-PER\n", "x O\ny O\n");
  strict.strict = true;
  EXPECT_THAT(complaint(strict), HasSubstr("p:2: the tag 'E-PER' is not IOB2"));
  ScoreOptions missing = ask(kClassification, "a\n", "a\n");
  missing.predictions += "x";
  EXPECT_THAT(complaint(missing), HasSubstr("no such file"));
  missing.predictions = folder_;
  EXPECT_THAT(complaint(missing), HasSubstr("folder"));
  missing.predictions = write_gzip("cut.gz", std::string(100000, 'a') + "\n", 9);
  EXPECT_THAT(complaint(missing), HasSubstr("damaged"));
}

TEST_F(ScoreFiles, IdsMustMatch) {
  using enum ScoreTask;
  const std::string squad =
      R"({"data": [{"title": "T", "paragraphs": [{"qas": [{"id": "1", "answers": [{"text": "x"}]}, {"id": "2", "answers": []}]}]}]})";
  EXPECT_THAT(complaint(kQuestionAnswering, R"({"1": "x"})", squad), HasSubstr("the id '2' has no prediction"));
  EXPECT_THAT(complaint(kQuestionAnswering, R"({"1": "x", "2": "", "3": ""})", squad),
              HasSubstr("the id '3' is not in the references"));
  EXPECT_THAT(complaint(kQuestionAnswering, "{\n\"1\": \"x\",\n", squad), HasSubstr("p:2: not valid JSON"));
  EXPECT_THAT(complaint(kQuestionAnswering, R"({"1": 1.5})", squad), HasSubstr("question '1'"));
  EXPECT_THAT(complaint(kQuestionAnswering, R"({"1": "x"})", "[]"), HasSubstr("not SQuAD JSON"));
  EXPECT_THAT(complaint(kQuestionAnswering, R"({"1": "x"})", R"({"data": [3]})"), HasSubstr("\"paragraphs\""));
  EXPECT_THAT(
      complaint(kClassification, "{\"id\": 1, \"label\": 1}\n{\"id\": 1, \"label\": 1}", "{\"id\": 1, \"label\": 1}"),
      HasSubstr("p:2: the id '1' was already predicted at"));
  EXPECT_THAT(
      complaint(kClassification, "{\"id\": 1, \"label\": 1}", "{\"id\": 1, \"label\": 1}\n{\"id\": 1, \"label\": 1}"),
      HasSubstr("r:2: the id '1' is repeated, first at"));
  ScoreOptions options = ask(kQuestionAnswering, R"({"1": "x"})", squad);
  options.allow_missing = true;
  EXPECT_DOUBLE_EQ(score_files(options).all.scores.at("f1"), 0.5);
  options.predictions = write("p", R"({"1": "x", "2": ""})");
  options.no_answer = true;
  options.by_group = true;
  const ScoreReport report = score_files(options);
  EXPECT_DOUBLE_EQ(report.all.scores.at("no_answer_f1"), 1);
  ASSERT_EQ(report.by_group.size(), 1U);
  EXPECT_EQ(report.by_group[0].name, "T");
}

TEST_F(ScoreFiles, ClientsDecilesAndIntervals) {
  std::string losses, names;
  for (int c = 0; c < 20; ++c)
    for (int i = 0; i <= c; ++i) {
      losses += std::to_string(c) + "\t1\n";
      names += "user " + std::to_string(c) + "\n";
    }
  ScoreOptions options = ask(ScoreTask::kLanguageModel, losses, "");
  options.references.clear();
  options.by_decile = true;
  EXPECT_THAT(complaint(options), HasSubstr("p:1: the example has no client"));
  options.clients = write("c", names);
  options.by_client = true;
  options.resample_clients = true;
  options.bootstrap = BootstrapOptions{.resamples = 100};
  const ScoreReport report = score_files(options);
  EXPECT_EQ(report.all.clients, 20U);
  EXPECT_EQ(report.by_client.size(), 20U);
  ASSERT_EQ(report.by_decile.size(), 10U);
  EXPECT_DOUBLE_EQ(report.by_decile[0].scores.at("loss"), 2.0 / 3);
  EXPECT_LT(report.all.intervals.at("loss").low, report.all.scores.at("loss"));

  const auto parsed = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(parsed.at("task"), "lm");
  EXPECT_EQ(parsed.at("by_decile").size(), 10U);
  EXPECT_EQ(parsed.at("intervals").at("loss").size(), 2U);
  EXPECT_THAT(to_text(report), HasSubstr("decile 10"));

  options.clients = write("c", names + "one more\n");
  EXPECT_THAT(complaint(options), HasSubstr("more names than examples"));
  options.clients = write("c", "one\n");
  EXPECT_THAT(complaint(options), HasSubstr("fewer names than examples"));
}

TEST_F(ScoreFiles, LongLinesAndFednlpBatches) {
  const std::string line(10'000'000, 'x');
  ScoreOptions options = ask(ScoreTask::kGeneration, line + "\na\na\n", line + "\na\nb\n");
  options.fednlp_batch = 2;
  const Scores all = score_files(options).all.scores;
  EXPECT_DOUBLE_EQ(all.at("rouge1"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(all.at("fednlp_rougeL_batched"), 0.5);
}

TEST(ScoreTasks, NamesAreKnown) {
  EXPECT_EQ(score_task_named("seq2seq"), ScoreTask::kGeneration);
  EXPECT_STREQ(name_of(ScoreTask::kQuestionAnswering), "qa");
  EXPECT_THROW(score_task_named("taging"), ConfigError);
}

}  // namespace
}  // namespace chorus::inline metrics
