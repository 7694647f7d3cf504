// Lists of filters, and messages that pass through them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "algorithm/compression/compression_config.h"
#include "algorithm/compression/message_filters.h"
#include "core/config/config.h"

namespace chorus::inline compression {
namespace {

using testing::HasSubstr;

FilterList list_of(const std::string& yaml) {
  CompressionConfig config;
  ConfigDocument::parse("up: " + yaml, "test").fill([&](ConfigVisitor& visitor) { config.describe(visitor); });
  return config.up;
}

bool has_zstd() {
  const RegistryEntry* entry = RegistryIndex::global().find("filter", "zstd");
  return entry != nullptr && entry->unavailable.empty();
}

Numbers some_numbers(std::size_t count, std::uint64_t seed) {
  RandomStream stream({.seed = seed, .purpose = "test"});
  Numbers values(count);
  for (float& value : values) value = static_cast<float>(std::pow(stream.normal(), 3));
  return values;
}

FilterChain::Input input_of(std::size_t count, std::uint64_t round, ClientState* memory = nullptr) {
  FilterChain::Input input;
  input.shape = {static_cast<std::int64_t>(count)};
  input.context.key = {.seed = 9, .purpose = "test chain", .round = round};
  input.context.memory = memory;
  input.context.place = "filters/train/update/";
  return input;
}

std::vector<std::string> many_chains() {
  std::vector<std::string> chains{"[]",
                                  "[fp16]",
                                  "[bf16]",
                                  "[uniform]",
                                  "[{name: uniform, bits: 4, scale: range}]",
                                  "[{name: qsgd, bits: 2}]",
                                  "[{name: ecq, bits: 4}]",
                                  "[sign]",
                                  "[{name: top_k, k: 0.1}]",
                                  "[{name: random_k, k: 0.1}, fp16]",
                                  "[{name: top_k, k: 0.2}, {name: uniform, bits: 4}]",
                                  "[power_sgd, {name: top_k, k: 0.5}, {name: qsgd, bits: 8}]"};
  if (has_zstd()) {
    chains.insert(chains.end(), {"[zstd]", "[{name: top_k, k: 0.1}, {name: uniform, bits: 2}, zstd]", "[sign, zstd]",
                                 "[power_sgd, zstd]"});
  }
  return chains;
}

const std::vector<FilterBlock>& blocks_of_1500() {
  static const std::vector<FilterBlock> blocks{{0, {60}}, {60, {30, 48}}};
  return blocks;
}

TEST(FilterChain, EveryListDecodesWithTheReportedError) {
  const Numbers values = some_numbers(1500, 1);
  for (const std::string& yaml : many_chains()) {
    const FilterChain chain(list_of(yaml));
    FilterChain::Input input = input_of(1500, 1);
    input.context.blocks = blocks_of_1500();
    input.shape = {30, 50};
    const Packed packed = chain.encode(values, input);
    const Filter::Bytes& bytes = packed.bytes;
    EXPECT_EQ(bytes, chain.encode(values, input).bytes) << yaml;  // the same draws
    const Unpacked back = chain.decode(bytes, 1500);
    ASSERT_EQ(back.values.size(), 1500U) << yaml;
    EXPECT_EQ(back.shape, (std::vector<std::int64_t>{30, 50}));
    double norm2 = 0, error2 = 0;
    for (std::size_t i = 0; i < 1500; ++i) {
      norm2 += std::pow(values[i], 2);
      error2 += std::pow(values[i] - back.values[i], 2);
    }
    EXPECT_EQ(back.norm2, packed.norm2);
    EXPECT_EQ(back.error2, packed.error2);
    EXPECT_NEAR(back.norm2, norm2, 1e-5 * norm2) << yaml;
    EXPECT_NEAR(back.error2, error2, 1e-5 * norm2) << yaml;
    EXPECT_LE(error2, (yaml.find("bits: 2") != std::string::npos ? 20 : 1) * norm2) << yaml;
    EXPECT_EQ(chain.lossless(), back.values == values) << yaml;
    EXPECT_THROW(chain.decode(bytes, 1499), DataError);
  }
}

TEST(FilterChain, SizesAddUp) {
  const Numbers values = some_numbers(10000, 2);
  const auto size = [&](const std::string& yaml) {
    return FilterChain(list_of(yaml)).encode(values, input_of(10000, 1)).bytes.size();
  };
  const std::size_t head = 4 + 1 + 2 + 8 + 16;  // magic, length of names, flags and dimensions, shape, measures
  EXPECT_EQ(size("[]"), head + 40000);
  EXPECT_EQ(size("[fp16]"), head + 4 + 20000);
  EXPECT_EQ(size("[{name: uniform, bits: 4, bucket: 1000}]"), head + 7 + 8 + 40 + 5000);
  EXPECT_EQ(size("[{name: random_k, k: 0.01}]"), head + 8 + 8 + 8 + 400);
  EXPECT_EQ(size("[{name: random_k, k: 0.01}, {name: qsgd, bits: 4, bucket: 104}]"), head + 13 + 8 + 8 + 8 + 4 + 50);
  if (!has_zstd()) return;
  // Zeros cost almost nothing, and incompressible data grows by only a few bytes.
  const Numbers zeros(10000, 0.0F);
  EXPECT_LT(FilterChain(list_of("[zstd]")).encode(zeros, input_of(10000, 1)).bytes.size(), 100U);
  EXPECT_LT(size("[{name: uniform, bits: 2}, zstd]"), size("[{name: uniform, bits: 2}]"));
}

TEST(FilterChain, ErrorFeedbackKeepsWhatWasLost) {
  const FilterChain chain(list_of("[{name: top_k, k: 0.1}, {name: uniform, bits: 4}]"));
  EXPECT_TRUE(chain.remembers());
  ClientState memory;
  std::vector<double> sent(500, 0), wanted(500, 0);
  for (std::uint64_t round = 0; round < 20; ++round) {
    const Numbers values = some_numbers(500, 100 + round);
    const Unpacked back = chain.decode(chain.encode(values, input_of(500, round, &memory)).bytes, 500);
    for (std::size_t i = 0; i < 500; ++i) {
      wanted[i] += values[i];
      sent[i] += back.values[i];
    }
    // Sum of inputs = sum of what was sent + memory.
    ASSERT_EQ(memory.size(), 1U);
    const at::Tensor error = memory.at("filters/train/update/error");
    for (std::int64_t i = 0; i < 500; ++i) {
      ASSERT_NEAR(wanted[static_cast<std::size_t>(i)], sent[static_cast<std::size_t>(i)] + error[i].item<double>(),
                  1e-3);
    }
  }
  // A memory of another size is discarded.
  const Numbers grown = some_numbers(600, 7);
  ClientState fresh;
  EXPECT_EQ(chain.encode(grown, input_of(600, 1, &memory)).bytes, chain.encode(grown, input_of(600, 1, &fresh)).bytes);
  EXPECT_EQ(memory.at("filters/train/update/error").numel(), 600);
  // A value that is not finite changes nothing.
  Numbers broken = grown;
  broken[3] = NAN;
  const at::Tensor before = memory.at("filters/train/update/error").clone();
  EXPECT_THROW(chain.encode(broken, input_of(600, 2, &memory)), DataError);
  EXPECT_TRUE(torch::equal(before, memory.at("filters/train/update/error")));
}

TEST(FilterChain, EcqAppliesCompensationAndDecay) {
  ClientState memory{{"filters/train/update/error", torch::full({64}, 8.0F)}};
  const Numbers zeros(64, 0.0F);
  const FilterChain chain(list_of("[{name: ecq, bits: 8, bucket: 64, compensation: 0.5, decay: 0.25}]"));
  const Unpacked back = chain.decode(chain.encode(zeros, input_of(64, 1, &memory)).bytes, 64);
  for (const float value : back.values) EXPECT_NEAR(value, 4, 1e-5);  // alpha e
  // e' = beta e + x - sent = 2 + 0 - 4
  EXPECT_NEAR(memory.at("filters/train/update/error").min().item<double>(), -2, 1e-5);
  EXPECT_NEAR(memory.at("filters/train/update/error").max().item<double>(), -2, 1e-5);
}

// Two clients want +-100 in the first coordinate, which cancels, and 1 in all others. The first coordinate is always
// the largest, so without feedback nothing else is ever sent.
double distance_after(const std::string& filter, int rounds) {
  const FilterChain chain(list_of(filter));
  Numbers model(20, 0.0F);
  ClientState memory[2];
  for (int round = 0; round < rounds; ++round) {
    Numbers mean(20, 0.0F);
    for (int client = 0; client < 2; ++client) {
      Numbers update(20);
      for (std::size_t i = 0; i < 20; ++i) {
        const float target = i > 0 ? 1.0F : client == 0 ? 100.0F : -100.0F;
        update[i] = 1e-3F * (target - model[i]);
      }
      const Filter::Bytes bytes =
          chain.encode(update, input_of(20, static_cast<std::uint64_t>(round), &memory[client])).bytes;
      const Unpacked back = chain.decode(bytes, 20);
      for (std::size_t i = 0; i < 20; ++i) mean[i] += back.values[i] / 2;
    }
    for (std::size_t i = 0; i < 20; ++i) model[i] += mean[i];
  }
  double far = std::pow(model[0], 2);
  for (std::size_t i = 1; i < 20; ++i) far += std::pow(model[i] - 1, 2);
  return std::sqrt(far);
}

TEST(FilterChain, ErrorFeedbackConvergesWherePlainTopKDoesNot) {
  const double start = std::sqrt(19.0);
  EXPECT_NEAR(distance_after("[{name: top_k, k: 0.05, error_feedback: false}]", 4000), start, 1e-6);
  EXPECT_LT(distance_after("[{name: top_k, k: 0.05}]", 20000), 0.1 * start);
  EXPECT_LT(distance_after("[{name: random_k, k: 0.2}]", 20000), 0.1 * start);
}

TEST(FilterChain, DamagedBytesAreRefusedInOneSentence) {
  const Numbers values = some_numbers(1500, 5);
  RandomStream stream({.seed = 1, .purpose = "damage"});
  for (const std::string& yaml : many_chains()) {
    const FilterChain chain(list_of(yaml));
    FilterChain::Input input = input_of(1500, 1);
    input.context.blocks = blocks_of_1500();
    const Filter::Bytes good = chain.encode(values, input).bytes;
    int refused = 0;
    for (int trial = 0; trial < 1500; ++trial) {
      Filter::Bytes bad = good;
      if (trial % 3 == 0) bad.resize(stream.below(good.size()));
      if (trial % 7 == 0) bad.resize(bad.size() + 1 + stream.below(9));
      for (std::uint64_t i = 0; i < 1 + stream.below(4) && !bad.empty(); ++i) {
        // Mostly in the headers, where the lengths are.
        const std::size_t most = trial % 2 == 0 ? std::min<std::size_t>(bad.size(), 120) : bad.size();
        bad[stream.below(most)] = static_cast<std::byte>(stream.below(256));
      }
      try {
        const Unpacked back = chain.decode(bad, 4000);
        EXPECT_LE(back.values.size(), 4000U);
      } catch (const DataError& error) {
        ++refused;
        EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      }
    }
    EXPECT_GT(refused, 500) << yaml;  // every truncation
  }
  // Other filters, or the same with other options.
  const FilterChain mine(list_of("[{name: uniform, bits: 8}]")), other(list_of("[{name: uniform, bits: 4}]")),
      qsgd(list_of("[qsgd]"));
  EXPECT_THROW(mine.decode(qsgd.encode(values, input_of(1500, 1)).bytes, 1500), DataError);
  EXPECT_THROW(mine.decode(other.encode(values, input_of(1500, 1)).bytes, 1500), DataError);
  // A scale that is not finite.
  Filter::Bytes bytes = mine.encode(values, input_of(1500, 1)).bytes;
  const float bad = NAN;
  std::memcpy(bytes.data() + 31 + 7 + 8, &bad, 4);
  try {
    mine.decode(bytes, 1500);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a scale of the filter uniform is not a number"));
  }
}

TEST(CompressionConfig, MistakesAreReported) {
  const auto refuse = [](const std::string& yaml, const std::string& part) {
    CompressionConfig config;
    try {
      ConfigDocument::parse(yaml, "test").fill([&](ConfigVisitor& visitor) { config.describe(visitor); });
      FAIL() << yaml;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr(part)) << yaml;
    }
  };
  refuse("up: [{name: uniform, bits: 3}]", "bits");
  refuse("up: [{name: uniform, bucket: 12}]", "multiple of 8");
  refuse("up: [{name: top_k, k: 1.5}]", "k");
  refuse("up: [{name: top_k, k: 0}]", "k");
  refuse("up: [topk]", "top_k");
  refuse("up: [uniform, top_k]", "top_k cannot come after uniform");
  refuse("up: [uniform, qsgd]", "qsgd cannot follow uniform");
  refuse("up: [top_k, power_sgd]", "power_sgd must come first");
  refuse("down: [top_k]", "error_feedback: false");
  refuse("down: [{name: power_sgd, rank: 0}]", "rank");
  if (has_zstd()) {
    refuse("up: [zstd, uniform]", "uniform cannot come after zstd");
    refuse("up: [{name: zstd, level: 50}]", "level");
  }
}

const GateMoment kMoment{.procedure = "train", .round = 1};

TEST(MessageFilters, PacksLargeFloatsAndNothingElse) {
  MessageFiltersInput input;
  input.filters = list_of("[{name: uniform, bits: 8}]");
  input.reference = torch::ones({2000});
  const MessageFilters filters(input);
  Message message;
  message.tensors["model"] = torch::ones({2000}) + 1e-3 * torch::randn({2000});
  message.tensors["logits"] = torch::randn({40, 30});
  message.tensors["small"] = torch::randn({1023});
  message.tensors["rows"] = torch::randn({2000}, at::kDouble);
  const Message before = message;
  const GateTotals sent = filters.pack(message, kMoment);
  EXPECT_TRUE(message.has_tensor("model.packed"));
  EXPECT_TRUE(message.has_tensor("logits.packed"));
  EXPECT_FALSE(message.has_tensor("model"));
  EXPECT_TRUE(message.has_tensor("small"));
  EXPECT_TRUE(message.has_tensor("rows"));
  EXPECT_EQ(sent.raw, 4 * 3200);
  EXPECT_EQ(sent.packed,
            static_cast<double>(message.tensor("model.packed").numel() + message.tensor("logits.packed").numel()));
  const GateTotals got = filters.unpack(message, kMoment, {2000});
  EXPECT_EQ(got.raw, sent.raw);
  EXPECT_EQ(got.packed, sent.packed);
  EXPECT_EQ(got.error(), sent.error());
  EXPECT_EQ(message.tensor("logits").sizes(), before.tensor("logits").sizes());
  // The model's error is 1/127 of the largest difference from the reference, not of the largest weight.
  EXPECT_LT((message.tensor("model") - before.tensor("model")).abs().max().item<double>(), 5e-5);
  EXPECT_GT(got.error(), 0);
  EXPECT_LT(got.error(), 0.02);

  filters.pack(message, kMoment);
  Message twice = message;
  twice.tensors["model"] = torch::ones({3});
  EXPECT_THROW(filters.unpack(twice, kMoment, {2000}), DataError);
  Message strange = message;
  strange.tensors["model.packed"] = torch::ones({3});
  EXPECT_THROW(filters.unpack(strange, kMoment, {2000}), DataError);
  MessageFiltersInput without = input;
  without.reference = torch::ones({1999});
  EXPECT_THROW(MessageFilters(without).unpack(message, kMoment, {2000}), DataError);
  EXPECT_THROW(MessageFilters(MessageFiltersInput{}).unpack(message, kMoment, {2000}), DataError);
}

}  // namespace
}  // namespace chorus::inline compression
