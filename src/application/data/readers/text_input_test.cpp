#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "application/data/readers/byte_input.h"
#include "application/data/readers/csv.h"
#include "application/data/readers/json_stream.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline readers {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TextInput : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const {
    std::ofstream(folder_ / "input", std::ios::binary | std::ios::trunc) << bytes;
    return folder_ / "input";
  }
  std::filesystem::path zipped(const std::vector<std::string>& members) const {
    std::filesystem::remove(folder_ / "input.gz");
    for (const std::string& member : members) {
      const gzFile out = gzopen((folder_ / "input.gz").c_str(), "ab");
      gzwrite(out, member.data(), static_cast<unsigned>(member.size()));
      gzclose(out);
    }
    return folder_ / "input.gz";
  }
  static std::vector<std::string> lines_of(const std::filesystem::path& path) {
    LineReader reader(path);
    std::vector<std::string> lines;
    for (std::string_view line; reader.next(line);) lines.emplace_back(line);
    return lines;
  }
  std::vector<std::vector<std::string>> rows_of(const std::string& bytes, char delimiter, bool quotes) const {
    RowReader reader(write(bytes), delimiter, quotes);
    std::vector<std::vector<std::string>> rows;
    for (std::vector<std::string> row; reader.next(row);) rows.push_back(row);
    return rows;
  }

  TemporaryFolder folder_;
};

TEST_F(TextInput, UnpacksByContentNotByName) {
  const auto read_all = [](const std::filesystem::path& path) {
    ByteInput input(path);
    std::string all;
    char piece[7];  // smaller than anything
    for (std::size_t got = 0; (got = input.read(piece, sizeof piece)) > 0;) all.append(piece, got);
    return all;
  };
  EXPECT_EQ(read_all(write("plain text")), "plain text");
  EXPECT_EQ(read_all(write("")), "");
  EXPECT_EQ(read_all(zipped({"one ", "two ", "three"})), "one two three") << "members follow each other";
  std::filesystem::rename(zipped({"hidden"}), folder_ / "plain.txt");
  EXPECT_EQ(read_all(folder_ / "plain.txt"), "hidden");
  EXPECT_EQ(file_head(folder_ / "plain.txt", 3), "hid");
  EXPECT_EQ(file_head(folder_.path()), "");
  EXPECT_THROW(ByteInput(folder_ / "none"), DataError);
  EXPECT_THROW(ByteInput(folder_.path()), DataError);
}

TEST_F(TextInput, LinesOfEverySystem) {
  EXPECT_THAT(lines_of(write("")), IsEmpty());
  EXPECT_THAT(lines_of(write("\n")), ElementsAre(""));
  EXPECT_THAT(lines_of(write("a\r\nb\n\nc")), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(lines_of(write("\xEF\xBB\xBF"
                             "a\n")),
              ElementsAre("a"));
  EXPECT_THAT(lines_of(write("a\rb\n")), ElementsAre("a\rb"));
  // Lines around the size of the buffer (2^18), with the end of line at every place beside it.
  for (int more = -2; more <= 2; ++more) {
    const std::string first(static_cast<std::size_t>((1 << 18) + more), 'x');
    EXPECT_THAT(lines_of(write(first + "\r\nsecond\n")), ElementsAre(first, "second")) << more;
  }
}

TEST_F(TextInput, BrokenUtf8IsReplacedAndCounted) {
  LineReader reader(write("caf\xE9\nok\n\xEF\xBF\xBD\n\xC3\n"));
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  EXPECT_THAT(lines, ElementsAre("caf\uFFFD", "ok", "\uFFFD", "\uFFFD"));
  EXPECT_EQ(reader.replaced(), 2U) << "a U+FFFD that was there is none of ours";
  EXPECT_EQ(reader.line(), 4U);
  ReadReport report;
  note_replaced(report, "f.txt", 0);
  EXPECT_THAT(report.notes, IsEmpty());
  note_replaced(report, "f.txt", 1);
  note_replaced(report, "f.txt", 2);
  EXPECT_EQ(report.replaced_bytes, 3U);
  EXPECT_THAT(report.notes,
              ElementsAre(HasSubstr("1 invalid UTF-8 sequence was"), HasSubstr("2 invalid UTF-8 sequences were")));
}

TEST_F(TextInput, OtherEncodingsAreNamed) {
  for (const std::string& bytes : {std::string("\xFF\xFE"
                                               "a\0",
                                               4),
                                   std::string("\xFE\xFF\0a", 4), std::string("\0\0\xFE\xFF\0\0\0a", 8)}) {
    EXPECT_THAT(message_of<DataError>([&] { (void)lines_of(write(bytes)); }), HasSubstr("iconv"));
  }
  EXPECT_THAT(message_of<DataError>([&] { (void)lines_of(write(std::string("a\nb\0c\n", 6))); }),
              AllOf(HasSubstr("input:2"), HasSubstr("zero byte")));
}

// Expected: Python's csv.reader without empty rows.
TEST_F(TextInput, RowsAreThoseOfRfc4180) {
  using Rows = std::vector<std::vector<std::string>>;
  const std::pair<std::string, Rows> cases[] = {{"a,b\nc,d\n", {{"a", "b"}, {"c", "d"}}},
                                                {"\"a,1\",b\n", {{"a,1", "b"}}},
                                                {"\"x\"\"y\",\"\"\n", {{"x\"y", ""}}},
                                                {"\"two\nlines\",z\n", {{"two\nlines", "z"}}},
                                                {",\n", {{"", ""}}},
                                                {"a,\"b\" \n", {{"a", "b "}}},
                                                {"\n\na\n", {{"a"}}},
                                                {"\"\",\"\",x", {{"", "", "x"}}},
                                                {"a\"b,c\n", {{"a\"b", "c"}}}};
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(rows_of(bytes, ',', true), expected) << bytes;
  // Without quotes every byte counts.
  EXPECT_EQ(rows_of("\"a\tb\"\n", '\t', false), (Rows{{"\"a", "b\""}}));
  EXPECT_EQ(rows_of("a;b,c\n", ';', true), (Rows{{"a", "b,c"}}));
}

TEST_F(TextInput, ARowKnowsWhereItBegan) {
  RowReader reader(write("a\n\n\"b\nb\"\nc\n\"open\n\n"), ',', true);
  std::vector<std::string> row{"left", "over"};
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(row, ElementsAre("a"));
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(reader.where(), HasSubstr("input:3"));
  ASSERT_TRUE(reader.next(row));
  EXPECT_THAT(reader.where(), HasSubstr("input:5"));
  EXPECT_THAT(message_of<DataError>([&] { (void)reader.next(row); }),
              AllOf(HasSubstr("input:6"), HasSubstr("not closed")));
}

TEST_F(TextInput, JsonThatIsNotWhatIsAskedForIsNamedByLine) {
  const auto refused = [&](const std::string& text, const auto& walk) {
    return message_of<DataError>([&] {
      JsonStream json(write(text));
      walk(json);
    });
  };
  std::string key;
  const auto object = [&](JsonStream& json) {
    json.enter('{');
    while (json.next_key(key)) json.skip();
    json.expect_end();
  };
  const auto list = [&](JsonStream& json) {
    json.enter('[');
    while (json.next_element()) (void)json.value();
    json.expect_end();
  };
  EXPECT_EQ(refused("{}", object), kNothingThrown);
  EXPECT_EQ(refused("[ ]\n", list), kNothingThrown);
  EXPECT_EQ(refused(R"({"a": [1, {"b": "]}\""}], "c": -1.5e3})", object), kNothingThrown);
  for (const char* text : {"[]", "", "5", "{\"a\" 1}", "{\"a\": 1 \"b\": 2}", "{a: 1}", "{\"a\": 1", "{\"a\": [1}",
                           "{\"a", "{\"a\":", "{\"a\": 1}\n\n{}"}) {
    EXPECT_THAT(refused(text, object), HasSubstr("input:")) << text;
  }
  for (const char* text : {"{}", "[1", "[1 2]", "[\"x", "[[1]", "[] x"}) {
    EXPECT_THAT(refused(text, list), HasSubstr("input:")) << text;
  }
  EXPECT_THAT(refused("{\n\"a\": 1,\n\n\"b\" 2}", object), HasSubstr("input:4"));
}

TEST_F(TextInput, JsonValuesLongerThanTheBuffer) {
  const std::string long_text(700'000, 'z');
  JsonStream json(write("[\"" + long_text + "\", 1]"));
  json.enter('[');
  ASSERT_TRUE(json.next_element());
  EXPECT_EQ(json.value().size(), long_text.size() + 2);
  ASSERT_TRUE(json.next_element());
  EXPECT_EQ(json.value(), "1");
  EXPECT_FALSE(json.next_element());
}

TEST(JsonValue, CellsAndWords) {
  const auto text = [](const char* json) { return json_text(parse_json(json, "f:1"), "f:1"); };
  EXPECT_EQ(text("\"a b\""), "a b");
  EXPECT_EQ(text("1.50"), "1.5");
  EXPECT_EQ(text("true"), "true");
  EXPECT_EQ(text("null"), "");
  EXPECT_EQ(text(R"(["a", 2, null, "b"])"), "a 2  b");
  EXPECT_THROW((void)text("{}"), DataError);
  EXPECT_THROW((void)text(R"([{"a": 1}])"), DataError);
  const auto words = [](const char* json) { return json_words(parse_json(json, "f:1"), "f:1"); };
  EXPECT_THAT(words("\" a  b \""), ElementsAre("a", "b"));
  EXPECT_THAT(words(R"(["a b", 3])"), ElementsAre("a b", "3"));
  EXPECT_THROW((void)words(R"([["a"]])"), DataError);
  EXPECT_THROW((void)words("5"), DataError);
  EXPECT_EQ(json_string("\"a\\u00e9\"", "f:1"), "aé");
  EXPECT_THAT(message_of<DataError>([] { (void)json_string("5", "f:1"); }), HasSubstr("f:1"));
  EXPECT_THAT(message_of<DataError>([] { (void)parse_json("{\"a\":", "f:9"); }), HasSubstr("f:9: malformed JSON"));
  EXPECT_EQ(json_keys(parse_json(R"({"b": 1, "a": 2})", "")), "a, b");
}

TEST(JsonValue, TimesAndScores) {
  // Python's datetime.fromisoformat.
  EXPECT_EQ(parse_time("1969-12-31T23:59:59Z", ""), -1);
  EXPECT_EQ(parse_time("2000-02-29T12:30", ""), 951827400);
  EXPECT_EQ(parse_time("2023-03-26 02:30:00-05:30", ""), 1679817600);
  EXPECT_EQ(parse_time("-5", ""), -5);
  for (const char* wrong : {"1900-02-29", "2000-00-10", "2000-01-01T", "2000-01-01T12", "2000-01-01T12:00Q", "2000-1-1",
                            "2000-01-01T12:00+25:00", "1e20", "--1"}) {
    EXPECT_THROW((void)parse_time(wrong, "f:1"), DataError) << wrong;
  }
  EXPECT_DOUBLE_EQ(parse_score("-2.5e-1", ""), -0.25);
  for (const char* wrong : {"", "x", "1x", "nan", "inf", "1e999"})
    EXPECT_THROW((void)parse_score(wrong, "f:1"), DataError);
}

}  // namespace
}  // namespace chorus::inline readers
