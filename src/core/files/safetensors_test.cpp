#include "core/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/base/error.h"
#include "core/files/safetensors_header.h"

namespace chorus::inline files {
namespace {

using testing::HasSubstr;

const std::filesystem::path kFixtures = CHORUS_SOURCE_DIR "/tests/fixtures/checkpoints";

/// An empty folder, removed after the test.
class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() { std::filesystem::create_directories(folder_); }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("chorus_safetensors_" + std::to_string(getpid()));
};

/// The tensors of tests/fixtures/checkpoints/make_safetensors.py.
std::vector<NamedTensor> every_type() {
  const at::Tensor values = torch::tensor({0.0, 1.0, -2.0, 3.5, -4.25, 100.0}, at::kDouble).view({2, 3});
  return {{"f64", values},
          {"f32", values.to(at::kFloat)},
          {"f16", values.to(at::kHalf)},
          {"bf16", values.to(at::kBFloat16)},
          {"i64", torch::tensor({-(int64_t{1} << 40), int64_t{7}})},
          {"i32", torch::tensor({-70000, 7}, at::kInt)},
          {"i16", torch::tensor({-300, 7}, at::kShort)},
          {"i8", torch::tensor({-100, 7, 3}, at::kChar)},
          {"u8", torch::tensor({200}, at::kByte)},
          {"bool", torch::tensor({1, 0, 1}, at::kBool)},
          {"scalar", torch::tensor(2.5F)},
          {"empty", torch::zeros({3, 0, 2})},
          {"grüße \"\n語😀", torch::tensor({1.0F})}};
}

std::string file_of(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "U8") {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string complaint(const std::string& bytes) {
  try {
    parse_safetensors_header(std::as_bytes(std::span(bytes)), "x.safetensors");
  } catch (const DataError& e) {
    return e.what();
  }
  return "accepted";
}

TEST_F(SafetensorsTest, ReadsWhatPythonWrote) {
  const auto file = SafetensorsFile::open(kFixtures / "every_type.safetensors");
  const auto expected = every_type();
  ASSERT_EQ(file.entries().size(), expected.size());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto& [name, value] : expected) {
    const TensorEntry* entry = file.find(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->dtype, value.scalar_type()) << name;
    EXPECT_EQ(at::IntArrayRef(entry->shape), value.sizes()) << name;
    EXPECT_TRUE(file.read(*entry).equal(value)) << name;
  }
  EXPECT_EQ(file.find("f3"), nullptr);
}

TEST_F(SafetensorsTest, WritesTheBytesThatPythonWrites) {
  const char* kept = std::getenv("CHORUS_TEST_OUTPUT");  // for bench/peers/check_safetensors.py
  const auto path = (kept ? std::filesystem::path(kept) : folder_) / "every_type.safetensors";
  std::filesystem::create_directories(path.parent_path());
  write_safetensors(path, every_type(), {{"format", "pt"}});
  EXPECT_EQ(read_file(path), read_file(kFixtures / "every_type.safetensors"));
}

TEST_F(SafetensorsTest, WritesNothingAtAllAsPythonDoes) {
  write_safetensors(folder_ / "none.safetensors", {});
  EXPECT_EQ(read_file(folder_ / "none.safetensors"), file_of("{}      "));
  EXPECT_TRUE(SafetensorsFile::open(folder_ / "none.safetensors").entries().empty());
}

TEST_F(SafetensorsTest, WritesStridedTensorsInOrder) {
  const at::Tensor whole = torch::arange(24, at::kFloat).view({4, 6});
  const std::vector<NamedTensor> tensors = {
      {"t", whole.t()}, {"s", whole.slice(1, 1, 6, 2)}, {"e", whole[0].expand({3, 6})}};
  write_safetensors(folder_ / "a.safetensors", tensors);
  const auto file = SafetensorsFile::open(folder_ / "a.safetensors");
  for (const auto& [name, value] : tensors) EXPECT_TRUE(file.read(*file.find(name)).equal(value)) << name;
}

TEST_F(SafetensorsTest, ConvertsIntoSlicesOfAFlatBuffer) {
  const auto file = SafetensorsFile::open(kFixtures / "every_type.safetensors");
  const at::Tensor expected = every_type()[1].second;
  for (const char* name : {"f64", "f32", "f16", "bf16"}) {
    const at::Tensor flat = torch::full({10}, 9.0F).requires_grad_();
    file.read_into(*file.find(name), flat.slice(0, 2, 8).view({2, 3}));
    EXPECT_TRUE(flat.slice(0, 2, 8).view({2, 3}).equal(expected)) << name;
    EXPECT_EQ(flat[1].item<float>(), 9.0F);
    EXPECT_EQ(flat[8].item<float>(), 9.0F);
  }
  at::Tensor strided = torch::zeros({3, 2}).t();
  file.read_into(*file.find("f16"), strided);
  EXPECT_TRUE(strided.equal(expected));
  at::Tensor numbers = torch::zeros({2});
  file.read_into(*file.find("i32"), numbers);
  EXPECT_TRUE(numbers.equal(torch::tensor({-70000.0F, 7.0F})));
  at::Tensor flags = torch::zeros({3});
  file.read_into(*file.find("bool"), flags);
  EXPECT_TRUE(flags.equal(torch::tensor({1.0F, 0.0F, 1.0F})));
}

TEST_F(SafetensorsTest, RefusesAnotherShapeAndLossOfFractions) {
  const auto file = SafetensorsFile::open(kFixtures / "every_type.safetensors");
  try {
    file.read_into(*file.find("f32"), torch::zeros({3, 2}));
    FAIL();
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), HasSubstr("tensor 'f32' has shape [2, 3], but [3, 2] is needed"));
  }
  EXPECT_THROW(file.read_into(*file.find("f32"), torch::zeros({2, 3}, at::kLong)), InternalError);
}

TEST_F(SafetensorsTest, ReadsTensorsThatAreNotAligned) {
  std::string data(1, '\x05');
  const float value = 1.5F;
  data.append(reinterpret_cast<const char*>(&value), 4);
  write_file(folder_ / "odd.safetensors",
             file_of("{" + tensor("a", "[1]", "[0,1]") + "," + tensor("b", "[1,1]", "[1,5]", "F32") + "}", data));
  const auto file = SafetensorsFile::open(folder_ / "odd.safetensors");
  EXPECT_EQ(file.read(*file.find("b")).item<float>(), 1.5F);
  EXPECT_EQ(file.read(*file.find("a")).item<int>(), 5);
}

TEST_F(SafetensorsTest, ReadsAnyByteAsABool) {
  write_file(folder_ / "b.safetensors",
             file_of("{" + tensor("a", "[3]", "[0,3]", "BOOL") + "}", std::string("\0\x01\xff", 3)));
  const auto file = SafetensorsFile::open(folder_ / "b.safetensors");
  EXPECT_TRUE(file.read(file.entries()[0]).equal(torch::tensor({0, 1, 1}, at::kBool)));
}

TEST(SafetensorsHeader, RefusesFilesThatAreNot) {
  EXPECT_THAT(complaint(""), HasSubstr("x.safetensors: 0 bytes are too few"));
  EXPECT_THAT(complaint(std::string("\x02\0\0", 3)), HasSubstr("too few"));
  EXPECT_THAT(complaint(std::string("\x40\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("should be 64 bytes long but the file ends after 2"));
  EXPECT_THAT(complaint(std::string(20, '\xff')), HasSubstr("more than the 100000000 allowed"));
  EXPECT_THAT(complaint(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8)), HasSubstr("100000001 bytes long, more than"));
  for (const char* bad : {"", "[]", "3", " {}", "null"})
    EXPECT_THAT(complaint(file_of(bad)), HasSubstr("not a JSON object")) << bad;
  EXPECT_THAT(complaint(file_of(std::string("{}\0", 3))), HasSubstr("not a JSON object"));
  EXPECT_THAT(complaint(file_of("{\"a\":")), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint(file_of("{\"\xff\":{}}")), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint(file_of("{\"a\":" + std::string(100000, '['))), HasSubstr("nested too deeply"));
}

TEST(SafetensorsHeader, AcceptsPaddingAndOddButValidThings) {
  EXPECT_EQ(complaint(file_of("{}  ")), "accepted");
  EXPECT_EQ(complaint(file_of(R"({"__metadata__":null})")), "accepted");
  EXPECT_EQ(complaint(file_of("{" + tensor("", "[]", "[0,1]") + "}", "x")), "accepted");
  EXPECT_EQ(complaint(file_of("{" + tensor("a", "[0,5]", "[0,0]") + "," + tensor("b", "[1]", "[0,1]") + "}", "x")),
            "accepted");
}

TEST(SafetensorsHeader, RefusesWrongTensors) {
  const auto one = [](const std::string& shape, const std::string& offsets, const std::string& dtype = "U8") {
    return complaint(file_of("{" + tensor("w", shape, offsets, dtype) + "}", "abcd"));
  };
  EXPECT_EQ(one("[4]", "[0,4]"), "accepted");
  EXPECT_THAT(one("[4]", "[0,4]", "F7"), HasSubstr("tensor 'w' has dtype F7, which Chorus cannot read"));
  EXPECT_THAT(one("[-4]", "[0,4]"), HasSubstr("shape that is not a list of sizes"));
  EXPECT_THAT(one("[4.0]", "[0,4]"), HasSubstr("shape that is not a list of sizes"));
  EXPECT_THAT(one("4", "[0,4]"), HasSubstr("shape that is not a list of sizes"));
  EXPECT_THAT(one("[99999999999999999999]", "[0,4]"), HasSubstr("shape that is not a list of sizes"));
  EXPECT_THAT(one("[4294967296,4294967296]", "[0,4]"), HasSubstr("impossible shape"));
  EXPECT_THAT(one("[4611686018427387904,4,0]", "[0,0]"), HasSubstr("impossible shape"));
  EXPECT_THAT(one("[4]", "[4,0]"), HasSubstr("data_offsets"));
  EXPECT_THAT(one("[4]", "[-4,0]"), HasSubstr("data_offsets"));
  EXPECT_THAT(one("[4]", "[0]"), HasSubstr("data_offsets"));
  EXPECT_THAT(one("[4]", "[0,4,4]"), HasSubstr("data_offsets"));
  EXPECT_THAT(one("[2]", "[0,4]"), HasSubstr("of shape [2] and dtype U8 needs 2 bytes, but its data_offsets give 4"));
  EXPECT_THAT(one("[2]", "[0,4]", "F32"), HasSubstr("needs 8 bytes"));
  EXPECT_THAT(one("[8]", "[0,8]"),
              HasSubstr("ends at byte 8 but the file holds only 4 after its header; it is truncated"));
  EXPECT_THAT(one("[4]", "[9223372036854775800,9223372036854775804]"), HasSubstr("truncated"));
  EXPECT_THAT(one("[3]", "[0,3]"), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(one("[3]", "[1,4]"), HasSubstr("1 bytes before tensor 'w'"));
  EXPECT_THAT(complaint(file_of(R"({"w":{"dtype":"U8"}})")), HasSubstr("tensor 'w' lacks one of"));
  EXPECT_THAT(complaint(file_of(R"({"w":3})")), HasSubstr("tensor 'w' lacks one of"));
  EXPECT_THAT(complaint(file_of(R"({"w":{"dtype":1,"shape":[],"data_offsets":[0,1]}})")), HasSubstr("not a string"));
  EXPECT_THAT(complaint(file_of(R"({"__metadata__":{"a":1}})")), HasSubstr("__metadata__ 'a' is not a text"));
  EXPECT_THAT(complaint(file_of(R"({"__metadata__":[]})")), HasSubstr("__metadata__ is not an object"));
}

TEST(SafetensorsHeader, RefusesTensorsThatShareBytesOrNames) {
  const auto two = [](const std::string& a, const std::string& b) {
    return complaint(file_of("{" + a + "," + b + "}", "abcd"));
  };
  EXPECT_EQ(two(tensor("b", "[2]", "[2,4]"), tensor("a", "[2]", "[0,2]")), "accepted");
  EXPECT_THAT(two(tensor("a", "[3]", "[0,3]"), tensor("b", "[2]", "[2,4]")), HasSubstr("tensors 'a' and 'b' overlap"));
  EXPECT_THAT(two(tensor("a", "[4]", "[0,4]"), tensor("b", "[4]", "[0,4]")), HasSubstr("overlap"));
  EXPECT_THAT(two(tensor("a", "[1]", "[0,1]"), tensor("b", "[2]", "[2,4]")), HasSubstr("1 bytes before tensor 'b'"));
  EXPECT_THAT(two(tensor("a", "[2]", "[0,2]"), tensor("a", "[2]", "[2,4]")), HasSubstr("names \"a\" twice"));
  EXPECT_THAT(complaint(file_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})")),
              HasSubstr("twice"));
}

TEST_F(SafetensorsTest, EveryTruncationIsRefused) {
  const std::string whole = read_file(kFixtures / "every_type.safetensors");
  for (size_t size = 0; size < whole.size(); ++size) ASSERT_NE(complaint(whole.substr(0, size)), "accepted") << size;
  EXPECT_EQ(complaint(whole), "accepted");
}

TEST_F(SafetensorsTest, ReportsAFullDiskAndKeepsTheOldFile) {
  const std::vector<NamedTensor> small = {{"w", torch::ones({4})}};
  const std::vector<NamedTensor> large = {{"w", torch::ones({1 << 18})}};
  EXPECT_THROW(write_safetensors("/dev/full", large), WorldError);

  const auto path = folder_ / "kept.safetensors";
  write_safetensors(path, small);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  std::string sentence;
  try {
    write_safetensors(path, large);
  } catch (const WorldError& e) {
    sentence = e.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(sentence, HasSubstr("kept.safetensors"));
  const auto file = SafetensorsFile::open(path);
  EXPECT_TRUE(file.read(file.entries().at(0)).equal(small[0].second));
  const auto files = std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator());
  EXPECT_EQ(files, 1) << "the unfinished file was left behind";
}

TEST_F(SafetensorsTest, RefusesNamesAndTypesThatTheFormatLacks) {
  const at::Tensor value = torch::ones({1});
  const auto write = [&](const std::vector<NamedTensor>& tensors) {
    write_safetensors(folder_ / "bad.safetensors", tensors);
  };
  EXPECT_THROW(write({{"a", value}, {"a", value}}), InternalError);
  EXPECT_THROW(write({{"__metadata__", value}}), InternalError);
  EXPECT_THROW(write({{"\xff", value}}), InternalError);
  EXPECT_THROW(write({{"a", at::Tensor()}}), InternalError);
  EXPECT_THROW(write({{"a", torch::ones({1}, at::kComplexFloat)}}), InternalError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "bad.safetensors"));
  EXPECT_THROW(write_safetensors(folder_ / "no" / "folder.safetensors", {}), DataError);
}

TEST(FirstNonFinite, FindsNaNAndInfinityButNotOverflow) {
  const float infinity = std::numeric_limits<float>::infinity();
  at::Tensor bad = torch::ones({1000});
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
    bad[777] = value;
    for (const auto type : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
      const std::vector<NamedTensor> tensors = {{"good", torch::ones({3})}, {"bad", bad.to(type)}, {"worse", bad}};
      EXPECT_EQ(first_non_finite(tensors), "bad");
    }
  }
  bad[776] = infinity;
  bad[777] = -infinity;
  EXPECT_FALSE(all_finite(bad));
  const std::vector<NamedTensor> good = {{"overflows", torch::full({100}, 3e38F)},
                                         {"half", torch::full({100}, 6e4F).to(at::kHalf)},
                                         {"ids", torch::ones({3}, at::kLong)},
                                         {"empty", torch::zeros({0})}};
  EXPECT_EQ(first_non_finite(good), std::nullopt);
}

}  // namespace
}  // namespace chorus::inline files
