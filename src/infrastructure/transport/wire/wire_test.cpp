#include "infrastructure/transport/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>
#include <fstream>

#include "core/base/rng.h"
#include "message.pb.h"

namespace chorus::inline transport_wire {
namespace {

Request example() {
  Request request{.procedure = "train", .round = 12, .ask = 3, .session = 5, .run = 77, .layout = 99};
  request.body.tensors["model"] = torch::arange(7, at::kFloat) / 3;
  request.body.tensors["matrix"] = torch::arange(6, at::kLong).reshape({2, 3}).t();
  request.body.tensors["half"] = torch::ones({3}, at::kHalf);
  request.body.tensors["empty"] = torch::zeros({0, 4}, at::kDouble);
  request.body.tensors["scalar"] = torch::scalar_tensor(3.5, at::kDouble);
  request.body.numbers["mu"] = 0.1;
  request.body.texts["who"] = "ἀρχή";
  return request;
}

template <typename T>
T round_trip(const T& frame) {
  auto decoded = decode_frame(encode_frame(frame));
  EXPECT_TRUE(decoded.ok());
  return std::get<T>(std::move(decoded).value());
}

void expect_same(const Message& a, const Message& b) {
  EXPECT_EQ(a.numbers, b.numbers);
  EXPECT_EQ(a.texts, b.texts);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : b.tensors) {
    const at::Tensor& back = a.tensor(name);
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(back.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(torch::equal(back, tensor)) << name;
  }
}

TEST(Wire, EveryFrameRoundTripsBitForBit) {
  const RequestFrame request = round_trip(RequestFrame{4, example()});
  EXPECT_EQ(request.number, 4U);
  EXPECT_EQ(request.request.procedure, "train");
  EXPECT_EQ(request.request.round, 12U);
  EXPECT_EQ(request.request.ask, 3U);
  EXPECT_EQ(request.request.session, 5U);
  EXPECT_EQ(request.request.run, 77U);
  EXPECT_EQ(request.request.layout, 99U);
  expect_same(request.request.body, example().body);

  const CohortFrame cohort = round_trip(CohortFrame{4, {{7, 0, {}}, {9, 1, example().body}}});
  ASSERT_EQ(cohort.members.size(), 2U);
  EXPECT_EQ(cohort.members[1].client, 9U);
  EXPECT_EQ(cohort.members[1].slot, 1U);
  expect_same(cohort.members[1].own, example().body);

  Reply sent{7, 3, example().body, "no battery"};
  sent.seconds = 1.5;
  const ReplyFrame reply = round_trip(ReplyFrame{8, sent});
  EXPECT_EQ(reply.number, 8U);
  EXPECT_EQ(reply.reply.client, 7U);
  EXPECT_EQ(reply.reply.slot, 3U);
  EXPECT_EQ(reply.reply.failure, "no battery");
  EXPECT_EQ(reply.reply.seconds, 1.5);
  expect_same(reply.reply.body, sent.body);

  const HelloFrame hello =
      round_trip(HelloFrame{{{.id = 3, .name = "ward 7", .examples = 12, .model = "mini"}, {.id = 4}}});
  ASSERT_EQ(hello.clients.size(), 2U);
  EXPECT_EQ(hello.clients[0].name, "ward 7");
  EXPECT_EQ(hello.clients[0].examples, 12);
  EXPECT_EQ(hello.clients[0].model, "mini");
  EXPECT_FALSE(hello.clients[1].examples.has_value());
  EXPECT_EQ(round_trip(AcceptFrame{5, 6}).slot, 6U);
  EXPECT_EQ(round_trip(CancelFrame{5}).number, 5U);
  EXPECT_EQ(round_trip(EndSessionFrame{11}).session, 11U);
  EXPECT_EQ(round_trip(SyncFrame{12}).number, 12U);
}

Request large_example() {
  Request request = example();
  request.body.tensors["large"] = torch::arange(50'000, at::kFloat);
  request.body.tensors["longs"] = torch::arange(30'001, at::kLong).reshape({1, 30'001});
  return request;
}

TEST(Wire, LargeTensorsAreViewsOfTheFrame) {
  const auto bytes = std::make_shared<const std::string>(encode_frame(RequestFrame{4, large_example()}));
  for (const bool view : {false, true}) {
    auto decoded = view ? decode_frame(bytes) : decode_frame(*bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    const Message& body = std::get<RequestFrame>(decoded.value()).request.body;
    expect_same(body, large_example().body);
    const auto* data = static_cast<const char*>(body.tensor("large").data_ptr());
    EXPECT_EQ(data >= bytes->data() && data < bytes->data() + bytes->size(), view);
    EXPECT_EQ((data - bytes->data()) % 64 == 0, view);
  }
  EXPECT_EQ(bytes.use_count(), 1);
  // The frame is a message of proto/message.proto, as any program can read it.
  wire::Frame message;
  ASSERT_TRUE(message.ParseFromString(*bytes));
  const wire::Tensor& large = message.request().body().tensors().at("large");
  float last = 0;
  std::memcpy(&last, message.tail().data() + large.at() + large.size() - sizeof last, sizeof last);
  EXPECT_EQ(last, 49'999);
  EXPECT_TRUE(decode_frame(message.SerializeAsString()).ok());
}

TEST(Wire, RefusesTensorsOutsideTheTail) {
  const auto refuse = [](const std::function<void(wire::Frame&, wire::Tensor&)>& change) {
    wire::Frame message;
    ASSERT_TRUE(message.ParseFromString(encode_frame(RequestFrame{1, large_example()})));
    change(message, (*message.mutable_request()->mutable_body()->mutable_tensors())["large"]);
    EXPECT_FALSE(decode_frame(message.SerializeAsString()).ok());
  };
  refuse([](wire::Frame&, wire::Tensor& t) { t.set_at(1ULL << 40U); });
  refuse([](wire::Frame&, wire::Tensor& t) { t.set_at(~0ULL); });
  refuse([](wire::Frame&, wire::Tensor& t) { t.set_size(~0ULL); });
  refuse([](wire::Frame&, wire::Tensor& t) { t.set_size(t.size() - 4); });
  refuse([](wire::Frame&, wire::Tensor& t) { t.set_data("both"); });
  refuse([](wire::Frame& m, wire::Tensor&) { m.clear_tail(); });
  refuse([](wire::Frame& m, wire::Tensor&) { m.mutable_tail()->resize(m.tail().size() - 1); });
  // Many tensors of one place would need more memory than was sent.
  refuse([](wire::Frame& m, wire::Tensor& t) {
    for (int i = 0; i < 10; ++i) (*m.mutable_request()->mutable_body()->mutable_tensors())["t" + std::to_string(i)] = t;
  });
}

TEST(Wire, RefusesInconsistentFrames) {
  const auto refuse = [](const std::function<void(wire::Frame&)>& change, const std::string& part) {
    wire::Frame message;
    ASSERT_TRUE(message.ParseFromString(encode_frame(RequestFrame{1, example()})));
    change(message);
    const auto decoded = decode_frame(message.SerializeAsString());
    ASSERT_FALSE(decoded.ok()) << part;
    EXPECT_THAT(decoded.failure().message, testing::HasSubstr(part));
  };
  const auto model = [](wire::Frame& m) -> wire::Tensor& {
    return (*m.mutable_request()->mutable_body()->mutable_tensors())["model"];
  };
  refuse([&](wire::Frame& m) { model(m).set_shape(0, 8); }, "does not fit");
  refuse([&](wire::Frame& m) { model(m).set_shape(0, -7); }, "does not fit");
  refuse([&](wire::Frame& m) { model(m).set_shape(0, std::int64_t{1} << 62); }, "does not fit");
  refuse([&](wire::Frame& m) { model(m).add_shape(std::int64_t{1} << 62); }, "does not fit");
  refuse([&](wire::Frame& m) { model(m).set_data("abc"); }, "does not fit");
  // No elements, in a shape larger than the address space.
  refuse(
      [&](wire::Frame& m) {
        model(m).clear_data();
        model(m).set_shape(0, 0);
        for (int i = 0; i < 2; ++i) model(m).add_shape(std::int64_t{1} << 62);
      },
      "does not fit");
  refuse([&](wire::Frame& m) { model(m).set_type(static_cast<wire::Tensor::Type>(99)); }, "unknown type 99");
  refuse(
      [&](wire::Frame& m) {
        for (int i = 0; i < 9; ++i) model(m).add_shape(1);
      },
      "too many dimensions");
  refuse([&](wire::Frame& m) { m.set_version(9); }, "version 9");
  refuse([&](wire::Frame& m) { m.clear_what(); }, "says nothing");
  EXPECT_FALSE(decode_frame("not a message").ok());
  EXPECT_FALSE(decode_frame(std::string(3, '\xff')).ok());
}

double peak_mebibytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes / 1024;
  }
  return 0;
}

// Case 22 of the list of hostile inputs: what a protobuf message can do to its reader.
TEST(WireCase22, TruncatedMessagesAreRefused) {
  const std::string good = encode_frame(RequestFrame{1, example()});
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_FALSE(decode_frame(good.substr(0, size)).ok()) << size;
}

TEST(WireCase22, NestedGroupsAreRefused) {
  EXPECT_FALSE(decode_frame("\x08\x04" + std::string(100'000, '\x7b')).ok());  // field 15, a group begins
}

TEST(WireCase22, LengthsThatAreNotThereAllocateNothing) {
  const double before = peak_mebibytes();
  for (const char* tag : {"\x12", "\x2a", "\x52", "\x7a"}) {  // hello, reply, control, tail
    EXPECT_FALSE(decode_frame(std::string("\x08\x04") + tag + "\xff\xff\xff\xff\x07").ok());
  }
  EXPECT_LT(peak_mebibytes() - before, 16);
}

TEST(WireCase22, ManyEmptyElementsAreRefusedBeforeTheyAreMade) {
  std::string clients = std::string("\x08\x04\x12", 3);
  std::string length;
  for (std::uint32_t left = 80'000'000; left > 0; left >>= 7U) {
    length.push_back(static_cast<char>((left & 0x7fU) | (left >= 0x80U ? 0x80U : 0U)));
  }
  clients += length;
  const std::size_t head = clients.size();
  clients.resize(head + 80'000'000);
  for (std::size_t i = head; i < clients.size(); i += 2) clients[i] = '\x0a';  // 40 million clients without anything
  std::string unknown("\x08\x04", 2);
  unknown.resize(80'000'002);
  for (std::size_t i = 2; i < unknown.size(); i += 2) unknown[i] = '\x60';  // 40 million fields 12
  const double before = peak_mebibytes();
  for (const std::string* bytes : {&clients, &unknown}) {
    const auto frame = decode_frame(*bytes);
    ASSERT_FALSE(frame.ok());
    EXPECT_THAT(frame.failure().message, testing::HasSubstr("too many parts"));
  }
  EXPECT_LT(peak_mebibytes() - before, 16);
}

TEST(WireCase22, TextsAreUtf8) {
  wire::Frame message;
  message.set_version(kWireVersion);
  message.mutable_reply()->set_failure("ok");
  std::string bytes = message.SerializeAsString();
  bytes[bytes.size() - 1] = '\xff';
  EXPECT_FALSE(decode_frame(bytes).ok());
}

TEST(Wire, NeverCrashesOnDamagedBytes) {
  for (const bool large : {false, true}) {
    const std::string good = encode_frame(RequestFrame{1, large ? large_example() : example()});
    RandomStream stream({.seed = 1, .purpose = "test"});
    for (int trial = 0; trial < (large ? 300 : 3000); ++trial) {
      std::string bad = good.substr(0, trial % 3 == 0 ? stream.below(good.size()) : good.size());
      for (std::uint64_t i = 0; i < 1 + stream.below(4) && !bad.empty(); ++i) {
        const std::uint64_t at = stream.below(large ? std::min<std::uint64_t>(bad.size(), 500) : bad.size());
        bad[at] = static_cast<char>(stream.below(256));
      }
      (void)decode_frame(bad).ok();
      (void)decode_frame(std::make_shared<const std::string>(bad)).ok();
    }
  }
}

TEST(Wire, ALargeTensorThatOnlyTheFrameHoldsIsNotCopied) {
  const auto address_in = [](const FrameBytes& bytes, const at::Tensor& tensor) {
    for (const std::string_view part : bytes.parts()) {
      if (part.data() == tensor.data_ptr() && part.size() == tensor.nbytes()) return true;
    }
    return false;
  };
  Reply reply;
  reply.body.tensors["update"] = torch::arange(100'000, torch::kFloat);
  const Frame frame = ReplyFrame{1, std::move(reply)};
  const at::Tensor& update = std::get<ReplyFrame>(frame).reply.body.tensors.at("update");
  const FrameBytes own = encode_parts(frame);
  EXPECT_TRUE(address_in(own, update));
  const at::Tensor shared = update;
  const FrameBytes copied = encode_parts(frame);
  EXPECT_FALSE(address_in(copied, shared));
  EXPECT_EQ(copied.flat(), own.flat());
}

TEST(Wire, AReplySaysWhetherItsClientHasStateToKeep) {
  for (const bool keeps : {true, false}) {
    auto decoded = decode_frame(encode_frame(ReplyFrame{1, {}, keeps}));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(std::get<ReplyFrame>(decoded.value()).keeps, keeps);
  }
}

}  // namespace
}  // namespace chorus::inline transport_wire
