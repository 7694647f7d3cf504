// Encoded data in memory, in files, and in the cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "application/tasks/causal_lm_task.h"
#include "application/tasks/classification_task.h"
#include "application/tasks/encode_split.h"
#include "application/tasks/encoded_file.h"
#include "application/tasks/masked_lm_task.h"
#include "application/tasks/seq2seq_task.h"
#include "application/tasks/span_task.h"
#include "application/tasks/tagging_task.h"
#include "application/tasks/tiny_world_test.h"
#include "core/base/error.h"
#include "core/files/cache_folder.h"
#include "core/files/files.h"

namespace chorus::inline tasks {
namespace {

using testing::HasSubstr;

class EncodedCache : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "chorus-encoded-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(folder_, ignored);
  }
  EncodeConfig config() const { return {.cache = folder_.string()}; }

  std::filesystem::path folder_;
};

void expect_equal(const EncodedDataset& a, const EncodedDataset& b) {
  EncodedColumns<ColumnView>::visit([&](const char* name, auto member, ColumnUnit, bool) {
    const auto x = a.columns().*member;
    const auto y = b.columns().*member;
    ASSERT_EQ(x.size(), y.size()) << name;
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size_bytes()), 0) << name;
  });
}

TEST_F(EncodedCache, SecondOpenUsesTheFile) {
  for (const Formulation formulation :
       {Formulation::kTextClassification, Formulation::kPairRegression, Formulation::kSequenceTagging,
        Formulation::kSpanExtraction, Formulation::kSeq2Seq}) {
    const Dataset data = tiny::dataset(formulation, 50, 10);
    const auto task = Tasks::make(name_of(formulation), TaskInput::of(data, tiny::tokenizer(data)));
    const EncodedSplit plain = encode_split(*task, data, Split::kTrain, {.cache = "none"});
    EXPECT_FALSE(plain.data->mapped());
    EXPECT_TRUE(plain.file.empty());
    const EncodedSplit first = encode_split(*task, data, Split::kTrain, config());
    EXPECT_FALSE(first.from_cache);
    EXPECT_TRUE(first.data->mapped());
    const EncodedSplit second = encode_split(*task, data, Split::kTrain, config());
    EXPECT_TRUE(second.from_cache);
    EXPECT_EQ(second.file, first.file);
    expect_equal(*plain.data, *first.data);
    expect_equal(*plain.data, *second.data);
    // An open dataset stays valid even if its file is removed.
    std::filesystem::remove(first.file);
    EXPECT_EQ(first.data->examples()[0], data.split(Split::kTrain)[0]);
  }
}

TEST_F(EncodedCache, NumberOfThreadsDoesNotMatter) {
  const Dataset data = tiny::dataset(Formulation::kSpanExtraction, 5000, 0);
  const SpanTask task({.max_length = 32, .doc_stride = 8}, {.tokenizer = tiny::tokenizer(data)});
  const auto one = encode_split(task, data, Split::kTrain, {.cache = "none", .threads = 1});
  const auto three = encode_split(task, data, Split::kTrain, {.cache = "none", .threads = 3});
  expect_equal(*one.data, *three.data);
  EXPECT_EQ(one.data->examples().size(), 5000U);
  EXPECT_EQ(one.data->example_of(one.data->rows_of(4321).first), 4321U);
  EXPECT_THROW(one.data->rows_of(5000), DataError);
}

TEST_F(EncodedCache, KeyChangesWithEverythingThatMatters) {
  const Dataset data = tiny::dataset(Formulation::kTextClassification, 20, 5);
  const Dataset more = tiny::dataset(Formulation::kTextClassification, 21, 5);
  const auto tokenizer = tiny::tokenizer(data);
  const auto other = tiny::tokenizer(data, 60);
  std::set<std::string> keys;
  std::size_t expected = 0;
  const auto add = [&](const Task& task, const Dataset& from, Split split = Split::kTrain) {
    keys.insert(encoding_fingerprint(task, from, split).hex());
    EXPECT_EQ(keys.size(), ++expected) << task.name() << " " << task.encoding_key();
  };
  const auto input = TaskInput::of(data, tokenizer);
  const auto classify = [&](const ClassificationConfig& config, const TaskInput& with) {
    return ClassificationTask(config, Formulation::kTextClassification, with);
  };
  add(classify({}, input), data);
  add(classify({}, input), more);
  add(classify({}, input), data, Split::kTest);
  add(classify({.max_length = 17}, input), data);
  add(classify({.fednlp_attend_padding = true}, input), data);
  add(classify({}, TaskInput::of(data, other)), data);
  add(classify({}, {.tokenizer = tokenizer, .labels = {"sky", "money", "sport"}}), data);
  add(MaskedLmTask({}, input), data);
  add(CausalLmTask({}, input), data);
  add(CausalLmTask({.add_bos = true}, input), data);
  add(CausalLmTask({.add_eos = false}, input), data);
  add(CausalLmTask({.block_length = 64}, input), data);
  add(TaggingTask({}, input), data);
  add(TaggingTask({.label_all_pieces = true}, input), data);
  add(SpanTask({}, input), data);
  add(SpanTask({.doc_stride = 64}, input), data);
  add(SpanTask({.max_query_length = 32}, input), data);
  add(SpanTask({.ask_cls = false}, input), data);
  add(SpanTask({.fednlp_skip_tokens = true}, input), data);
  add(Seq2SeqTask({}, input), data);
  add(Seq2SeqTask({.max_target_length = 64}, input), data);
  add(Seq2SeqTask({.source_prefix = "summarize: "}, input), data);
  // Options that matter only later do not change the key.
  EXPECT_EQ(SpanTask({}, input).encoding_key(), SpanTask({.n_best = 5, .no_answer = true}, input).encoding_key());
  EXPECT_EQ(MaskedLmTask({}, input).encoding_key(), MaskedLmTask({.mask_probability = 0.5}, input).encoding_key());
  EXPECT_EQ(CausalLmTask({.block_length = 8}, input).encoding_key(),
            CausalLmTask({.max_length = 7, .block_length = 9}, input).encoding_key());
}

TEST_F(EncodedCache, DamageIsRepaired) {
  const Dataset data = tiny::dataset(Formulation::kSpanExtraction, 30, 0);
  const SpanTask task({}, {.tokenizer = tiny::tokenizer(data)});
  const EncodedSplit good = encode_split(task, data, Split::kTrain, config());
  const std::string bytes = read_file(good.file);
  const auto repaired = [&](const std::string& damaged) {
    std::filesystem::remove(good.file);  // a mapped file is never written to, only replaced
    write_file(good.file, damaged);
    EXPECT_THROW(open_encoded(good.file, encoding_fingerprint(task, data, Split::kTrain), task.limits()), DataError);
    testing::internal::CaptureStderr();
    const EncodedSplit again = encode_split(task, data, Split::kTrain, config());
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it is made again"));
    EXPECT_FALSE(again.from_cache);
    expect_equal(*again.data, *good.data);
    EXPECT_EQ(read_file(good.file), bytes);
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    repaired(bytes.substr(0, size));
  }
  repaired(bytes + "x");
  repaired(std::string(bytes.size(), '\xff'));
  // Any bit that matters: all of the header, and the columns without their padding.
  for (std::size_t at = 0; at < 1200; at += 37) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    repaired(changed);
  }
  std::string last = bytes;
  last.back() = static_cast<char>(last.back() ^ 1);
  repaired(last);
  // A complete file with other contents.
  const EncodedSplit other =
      encode_split(SpanTask({.doc_stride = 5}, {.tokenizer = tiny::tokenizer(data)}), data, Split::kTrain, config());
  repaired(read_file(other.file));
}

TEST_F(EncodedCache, NoPlaceIsNoFailure) {
  const Dataset data = tiny::dataset(Formulation::kTextClassification, 10, 0);
  const auto task = Tasks::make("text_classification", TaskInput::of(data, tiny::tokenizer(data)));
  write_file(folder_ / "file", "not a folder");
  for (const char* bad : {"file", "file/below"}) {
    testing::internal::CaptureStderr();
    const EncodedSplit result = encode_split(*task, data, Split::kTrain, {.cache = (folder_ / bad).string()});
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
    EXPECT_EQ(result.data->rows(), 10U);
    EXPECT_FALSE(result.data->mapped());
  }
  if (std::filesystem::exists("/dev/full")) {
    // A full disk: the file cannot be completed.
    std::filesystem::create_directories(folder_ / "full");
    const auto key = encoding_fingerprint(*task, data, Split::kTrain);
    std::filesystem::create_directories(folder_ / "full" / "encoded");
    std::filesystem::create_symlink("/dev/full",
                                    folder_ / "full" / "encoded" / ("text_classification-" + key.hex() + ".encoded"));
    testing::internal::CaptureStderr();
    const EncodedSplit result = encode_split(*task, data, Split::kTrain, {.cache = (folder_ / "full").string()});
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
    EXPECT_EQ(result.data->rows(), 10U);
  }
}

TEST_F(EncodedCache, FolderByEnvironment) {
  EXPECT_EQ(cache_folder("none"), "");
  EXPECT_EQ(cache_folder("/some/where"), "/some/where");
  const auto keep = [](const char* name) { return std::string(std::getenv(name) != nullptr ? std::getenv(name) : ""); };
  const std::string xdg = keep("XDG_CACHE_HOME"), home = keep("HOME");
  setenv("XDG_CACHE_HOME", "/x", 1);
  EXPECT_EQ(cache_folder("auto"), "/x/chorus");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the XDG specification: to be ignored
  setenv("HOME", "/h", 1);
  EXPECT_EQ(cache_folder("auto"), "/h/.cache/chorus");
  unsetenv("HOME");
  EXPECT_EQ(cache_folder("auto"), "");
  xdg.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST(EncodedDataset, RefusesColumnsThatDoNotFit) {
  const auto build = [](auto change) {
    EncodedPart part;
    part.ids = {1, 2, 3};
    part.row_end = {2, 3};
    part.labels = {0, -100};
    part.examples = {4, 9};
    part.example_end = {1, 2};
    change(part);
    return EncodedDataset(std::move(part), {.vocabulary = 4, .labels = 1}).rows();
  };
  EXPECT_EQ(build([](EncodedPart&) {}), 2U);
  EXPECT_THROW(build([](EncodedPart& p) { p.ids[1] = 4; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.ids[1] = -1; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.labels[0] = 1; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.labels.pop_back(); }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.row_end[0] = 4; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.row_end = {0, 3}; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.row_end[1] = 2; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.examples = {9, 9}; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.example_end[1] = 1; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.counts.clear(); }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) { p.starts = {2, 0}; }), DataError);
  EXPECT_THROW(build([](EncodedPart& p) {
                 p.context_begin = {0, 0};
                 p.context_end = {2, 2};
               }),
               DataError);
}

}  // namespace
}  // namespace chorus::inline tasks
