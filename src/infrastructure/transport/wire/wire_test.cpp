#include "infrastructure/transport/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "core/base/rng.h"
#include "message.pb.h"

namespace chorus {
namespace {

Request example() {
  Request request{"train", 12, {}};
  request.body.tensors["model"] = torch::arange(7, at::kFloat) / 3;
  request.body.tensors["matrix"] = torch::arange(6, at::kLong).reshape({2, 3}).t();
  request.body.tensors["half"] = torch::ones({3}, at::kHalf);
  request.body.tensors["empty"] = torch::zeros({0, 4}, at::kDouble);
  request.body.tensors["scalar"] = torch::scalar_tensor(3.5, at::kDouble);
  request.body.numbers["mu"] = 0.1;
  request.body.texts["who"] = "ἀρχή";
  return request;
}

TEST(Wire, RequestsAndRepliesComeBackBitForBit) {
  const Request request = example();
  const auto decoded = decode_request(encode_request(request));
  ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
  EXPECT_EQ(decoded.value().procedure, "train");
  EXPECT_EQ(decoded.value().round, 12U);
  EXPECT_EQ(decoded.value().body.numbers, request.body.numbers);
  EXPECT_EQ(decoded.value().body.texts, request.body.texts);
  ASSERT_EQ(decoded.value().body.tensors.size(), request.body.tensors.size());
  for (const auto& [name, tensor] : request.body.tensors) {
    const at::Tensor& back = decoded.value().body.tensor(name);
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(back.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(torch::equal(back, tensor)) << name;
  }
  const auto reply = decode_reply(encode_reply({7, 3, request.body, "no battery"}));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply.value().client, 7U);
  EXPECT_EQ(reply.value().slot, 3U);
  EXPECT_EQ(reply.value().failure, "no battery");
}

TEST(Wire, RefusesWhatDoesNotFit) {
  const auto refuse = [](const std::function<void(wire::Request&)>& change, const std::string& part) {
    wire::Request message;
    ASSERT_TRUE(message.ParseFromString(encode_request(example())));
    change(message);
    const auto decoded = decode_request(message.SerializeAsString());
    ASSERT_FALSE(decoded.ok()) << part;
    EXPECT_THAT(decoded.failure().message, testing::HasSubstr(part));
  };
  const auto model = [](wire::Request& m) -> wire::Tensor& { return (*m.mutable_body()->mutable_tensors())["model"]; };
  refuse([&](wire::Request& m) { model(m).set_shape(0, 8); }, "does not fit");
  refuse([&](wire::Request& m) { model(m).set_shape(0, -7); }, "does not fit");
  refuse([&](wire::Request& m) { model(m).set_shape(0, std::int64_t{1} << 62); }, "does not fit");
  refuse([&](wire::Request& m) { model(m).add_shape(std::int64_t{1} << 62); }, "does not fit");
  refuse([&](wire::Request& m) { model(m).set_data("abc"); }, "does not fit");
  refuse([&](wire::Request& m) { model(m).set_type(static_cast<wire::Tensor::Type>(99)); }, "unknown type 99");
  refuse(
      [&](wire::Request& m) {
        for (int i = 0; i < 9; ++i) model(m).add_shape(1);
      },
      "too many dimensions");
  refuse([&](wire::Request& m) { m.set_version(9); }, "version 9");
  EXPECT_FALSE(decode_request("not a message").ok());
  EXPECT_FALSE(decode_reply(std::string(3, '\xff')).ok());
}

TEST(Wire, NeverCrashesOnDamagedBytes) {
  const std::string good = encode_request(example());
  RandomStream stream({.seed = 1, .purpose = "test"});
  for (int trial = 0; trial < 3000; ++trial) {
    std::string bad = good.substr(0, trial % 3 == 0 ? stream.below(good.size()) : good.size());
    for (std::uint64_t i = 0; i < 1 + stream.below(4) && !bad.empty(); ++i) {
      bad[stream.below(bad.size())] = static_cast<char>(stream.below(256));
    }
    (void)decode_request(bad).ok();
    (void)decode_reply(bad).ok();
  }
}

}  // namespace
}  // namespace chorus
