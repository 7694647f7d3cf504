#include "core/files/pickle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support.h"

namespace chorus::inline files {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = Pickle::Value::Kind;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

Pickle parse(const std::string& bytes) {
  return parse_pickle(
      std::as_bytes(std::span(bytes)), [](std::string_view name) { return name == "collections.OrderedDict"; },
      "x.bin");
}

/// As Python prints it, with dropped values as None.
std::string shown(const Pickle& pickle, Pickle::Ref ref) {
  const Pickle::Value& value = pickle[ref];
  const auto list = [&](std::string_view open, std::string_view close) {
    std::string text(open);
    for (const Pickle::Ref item : value.items) text += shown(pickle, item) + ",";
    return text + std::string(close);
  };
  switch (value.kind) {
    case Kind::kNothing:
      return "None";
    case Kind::kInt:
      return std::to_string(value.number);
    case Kind::kText:
      return "'" + value.text + "'";
    case Kind::kGlobal:
      return value.text;
    case Kind::kTuple:
      return list("(", ")");
    case Kind::kList:
      return list("[", "]");
    case Kind::kDict:
      return list("{", "}");
    case Kind::kCall:
      return shown(pickle, value.parts[0]) + shown(pickle, value.parts[1]) + list("{", "}");
    case Kind::kPersistent:
      return "@" + shown(pickle, value.parts[0]);
  }
  return "?";
}

std::string shown(const std::string& bytes) {
  const Pickle pickle = parse(bytes);
  return shown(pickle, pickle.root);
}

TEST(Pickle, ReadsWhatPythonWrote) {
  // pickle.dumps({'a': 1, 'list': [1, -2, 70000, 2**40], 't': (1, 2, 3, 4), 'none': None}, protocol=2 and 4)
  const char* expected = "{'a',1,'list',[1,-2,70000,1099511627776,],'t',(1,2,3,4,),'none',None,}";
  EXPECT_EQ(
      shown(from_hex("80027d71002858010000006171014b0158040000006c69737471025d7103284b014afeffffff4a701101008a0600"
                     "0000000001655801000000747104284b014b024b034b0474710558040000006e6f6e6571064e752e")),
      expected);
  EXPECT_EQ(
      shown(from_hex("80049541000000000000007d94288c0161944b018c046c697374945d94284b014afeffffff4a701101008a0600000"
                     "0000001658c017494284b014b024b034b0474948c046e6f6e65944e752e")),
      expected);
  // pickle.dumps(collections.OrderedDict([('x', 5)]), protocol=2): a call, and an item that is set in its result.
  EXPECT_EQ(
      shown(from_hex("800263636f6c6c656374696f6e730a4f726465726564446963740a71002952710158010000007871024b05732e")),
      "collections.OrderedDict(){'x',5,}");
}

TEST(Pickle, LongIntegersAreSigned) {
  struct Case {
    const char* bytes;  // of LONG1: little-endian two's complement, as long as it must be
    std::int64_t expected;
  };
  const Case cases[] = {{"00", 0},
                        {"017f", 127},
                        {"0180", -128},
                        {"02ff00", 255},
                        {"02ff7f", 32767},
                        {"020080", -32768},
                        {"08ffffffffffffff7f", std::numeric_limits<std::int64_t>::max()},
                        {"080000000000000080", std::numeric_limits<std::int64_t>::min()}};
  for (const Case& one : cases) {
    EXPECT_EQ(shown(from_hex("80028a" + std::string(one.bytes) + "2e")), std::to_string(one.expected)) << one.bytes;
  }
  EXPECT_THAT(message_of<DataError>([] {
                (void)parse(
                    from_hex("80028a0900000000000000000100"
                             "2e"));
              }),
              HasSubstr("64 bits"));
}

TEST(Pickle, APickleMayReferToItself) {
  // l = []; l.append(l): memo 0 is the list, which is put into itself.
  const Pickle pickle = parse(from_hex("80025d71006800612e"));
  EXPECT_EQ(pickle[pickle.root].kind, Kind::kList);
  ASSERT_EQ(pickle[pickle.root].items.size(), 1U);
  EXPECT_EQ(pickle[pickle.root].items[0], pickle.root);
}

TEST(Pickle, RefusesNamesThatAreNotAllowed) {
  // cos\nsystem\n(X..."true"tR. : what a malicious file would run
  const std::string message =
      message_of<DataError>([] { (void)parse("cos\nsystem\n(X\x04" + std::string(3, '\0') + "truetR."); });
  EXPECT_THAT(message, AllOf(StartsWith("x.bin: "), HasSubstr("'os.system'"), HasSubstr("malicious"),
                             EndsWith(std::string(kConvertPickle))));
  // The same by STACK_GLOBAL.
  EXPECT_THAT(message_of<DataError>([] { (void)parse(from_hex("80048c026f738c0673797374656d932e")); }),
              HasSubstr("'os.system'"));
}

TEST(Pickle, DamageIsNamed) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "ends in the middle"},
      {from_hex("8002"), "ends in the middle"},
      {from_hex("80024b"), "ends in the middle"},
      {from_hex("800258ffffffff61"), "ends in the middle"},  // a text of 4 GB
      {from_hex("8006"), "protocol above 5"},
      {from_hex("80022e"), "empty stack"},
      {from_hex("800271002e"), "empty stack"},    // memoize nothing
      {from_hex("800268002e"), "never stored"},   // recall nothing
      {from_hex("8002742e"), "lacks a mark"},     // a tuple without its beginning
      {from_hex("80024b01284b02852e"), nullptr},  // what is left below a mark does not matter
      {from_hex("80024b014b02612e"), "not a list"},
      {from_hex("80025d4b014b02732e"), "not a dictionary"},
      {from_hex("80027d284b01752e"), "not a dictionary"},  // a key without its value
      {from_hex("80024b014b02932e"), "not a string"},
      {from_hex("800269612e"), "instruction 0x69"},  // INST, which calls anything
      {from_hex("80028128"
                "2e"),
       "instruction 0x81"}};
  for (const auto& [bytes, what] : cases) {
    const std::string message = message_of<DataError>([&, &b = bytes] { (void)parse(b); });
    if (what == nullptr) {
      EXPECT_EQ(message, kNothingThrown);
    } else {
      EXPECT_THAT(message, AllOf(StartsWith("x.bin: "), HasSubstr(what)));
    }
  }
}

TEST(Pickle, EveryTruncationIsRefused) {
  const std::string whole =
      from_hex("80027d71002858010000006171014b0158040000006c69737471025d7103284b014afeffffff65752e");
  (void)parse(whole);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW((void)parse(whole.substr(0, size)), DataError) << size;
  }
}

TEST(Pickle, AMarkGuardsWhatLiesBelowIt) {
  // 1, MARK, then TUPLE1 would take the 1 from below the mark.
  EXPECT_THAT(message_of<DataError>([] { (void)parse(from_hex("80024b0128852e")); }), HasSubstr("empty stack"));
}

}  // namespace
}  // namespace chorus::inline files
