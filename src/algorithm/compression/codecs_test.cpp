// Every filter alone: sizes, round trips, means, bounds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>

#include "algorithm/compression/bit_packing.h"
#include "algorithm/compression/ecq.h"
#include "algorithm/compression/half.h"
#include "algorithm/compression/number_loops.h"
#include "algorithm/compression/owning_tensor.h"
#include "algorithm/compression/power_sgd.h"
#include "algorithm/compression/qsgd.h"
#include "algorithm/compression/sign.h"
#include "algorithm/compression/sparse.h"
#include "core/tensor/bfloat16.h"

namespace chorus::inline compression {
namespace {

Numbers normal_numbers(std::size_t count, std::uint64_t seed = 1) {
  RandomStream stream({.seed = seed, .purpose = "test"});
  Numbers values(count);
  for (float& value : values) value = static_cast<float>(stream.normal());
  return values;
}

FilterContext context_of(std::uint64_t round, std::span<const FilterBlock> blocks = {}) {
  FilterContext context;
  context.key = {.seed = 5, .purpose = "test filter", .round = round};
  context.blocks = blocks;
  return context;
}

Numbers round_trip(const Filter& filter, std::span<const float> values, const FilterContext& context) {
  Filter::Bytes bytes;
  Numbers left = filter.encode(values, bytes, context);
  EXPECT_TRUE(filter.stage() != Filter::Stage::kReduce || filter.left(bytes, values.size()) == left.size());
  return filter.decode(bytes, std::move(left), values.size());
}

double relative_error(std::span<const float> values, std::span<const float> back) {
  double norm = 0, error = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    norm += values[i] * values[i];
    error += (values[i] - back[i]) * (values[i] - back[i]);
  }
  return std::sqrt(error / norm);
}

TEST(OwningTensor, FreesItsVectorAlsoWithoutElements) {
  struct Watched : std::vector<float> {
    std::shared_ptr<int> alive = std::make_shared<int>();
  };
  for (const std::int64_t size : {0, 3}) {
    Watched values;
    values.resize(static_cast<std::size_t>(size));
    const std::weak_ptr<int> watch = values.alive;
    at::Tensor tensor = tensor_of(std::move(values), {size}, at::kFloat);
    EXPECT_EQ(tensor.numel(), size);
    tensor.reset();
    EXPECT_TRUE(watch.expired()) << size;
  }
}

TEST(BitPacking, CodesOfEveryWidthAndCountRoundTrip) {
  for (const Bits bits : {Bits::k1, Bits::k2, Bits::k4, Bits::k8}) {
    for (std::size_t count = 0; count < 70; ++count) {
      std::vector<std::uint8_t> codes(count), back(count);
      for (std::size_t i = 0; i < count; ++i) {
        codes[i] = static_cast<std::uint8_t>((i * 37 + 11) & ((1U << static_cast<int>(bits)) - 1));
      }
      Filter::Bytes packed(packed_bytes(count, bits));
      pack_codes(codes, bits, packed.data());
      unpack_codes(packed.data(), bits, back);
      ASSERT_EQ(codes, back) << static_cast<int>(bits) << " bits, " << count;
    }
  }
  EXPECT_EQ(packed_bytes(9, Bits::k1), 2U);
  EXPECT_EQ(packed_bytes(9, Bits::k2), 3U);
  EXPECT_EQ(packed_bytes(9, Bits::k4), 5U);
}

TEST(BitPacking, PositionsRoundTripNearTheirEntropy) {
  RandomStream stream({.seed = 3, .purpose = "test"});
  for (const double share : {0.0, 0.0001, 0.01, 0.1, 0.5, 0.99, 1.0}) {
    constexpr std::size_t kSize = 200000;
    std::vector<std::uint32_t> positions;
    for (std::uint32_t i = 0; i < kSize; ++i) {
      if (stream.uniform() < share) positions.push_back(i);
    }
    Filter::Bytes bytes;
    append_positions(positions, kSize, bytes);
    EXPECT_EQ(read_positions(bytes, positions.size(), kSize), positions);
    if (share == 0.01) {  // entropy 8.08 bits per position
      EXPECT_LT(static_cast<double>(bytes.size()) * 8 / static_cast<double>(positions.size()), 8.3);
    }
  }
  // One far position: a long run of ones.
  Filter::Bytes bytes;
  const std::vector<std::uint32_t> far{0, 1, 2, 999999};
  append_positions(far, 1000000, bytes);
  EXPECT_EQ(read_positions(bytes, 4, 1000000), far);
  EXPECT_THROW(read_positions(bytes, 4, 999999), DataError);
  EXPECT_THROW(read_positions(bytes, 5, 1000000), DataError);
  EXPECT_THROW(read_positions(bytes, 3, 1000000), DataError);
  EXPECT_THROW(read_positions({}, 0, 10), DataError);
}

TEST(BitPacking, MaxMagnitudeExposesValuesThatAreNotFinite) {
  EXPECT_EQ(max_magnitude(Numbers{-3, 2, 0}), 3);
  EXPECT_FALSE(max_magnitude(Numbers{1, NAN}) <= FLT_MAX);
  EXPECT_FALSE(max_magnitude(Numbers{1, -INFINITY}) <= FLT_MAX);
}

TEST(Codecs, PackedSizesAreExact) {
  const Numbers values = normal_numbers(1003);
  const auto size_of = [&](const Filter& filter) {
    Filter::Bytes bytes(3);  // earlier content is kept
    filter.encode(values, bytes, context_of(0));
    return bytes.size() - 3;
  };
  using Scale = UniformFilterConfig::Scale;
  // A header of 8 bytes, a scale for each of ceil(1003 / 256) = 4 buckets, ceil(1003 bits / 8) bytes.
  EXPECT_EQ(size_of(UniformFilter({Bits::k8, 256, Scale::kMaxAbs, true})), 8U + 16 + 1003);
  EXPECT_EQ(size_of(UniformFilter({Bits::k4, 256, Scale::kMaxAbs, true})), 8U + 16 + 502);
  EXPECT_EQ(size_of(UniformFilter({Bits::k2, 256, Scale::kRange, true})), 8U + 32 + 251);
  EXPECT_EQ(size_of(QsgdFilter({Bits::k8, 256, QsgdConfig::Norm::kL2})), 8U + 16 + 1003);
  EXPECT_EQ(size_of(QsgdFilter({Bits::k2, 256, QsgdConfig::Norm::kL2})), 8U + 16 + 251);
  EXPECT_EQ(size_of(EcqFilter({Bits::k4, 256, 1, 1})), 8U + 16 + 502);
  EXPECT_EQ(size_of(SignFilter({256, false, false})), 8U + 16 + 126);
  EXPECT_EQ(size_of(SignFilter({256, true, false})), 8U + 16 + 251);
  EXPECT_EQ(size_of(HalfFilter(HalfFilter::Type::kFloat16)), 2006U);
  EXPECT_EQ(size_of(RandomKFilter({0.1, true})), 8U);
}

// The largest |z| over the coordinates, z = (mean of decoded - x) / standard error of that mean.
double worst_z(const Filter& filter, const Numbers& values, int trials) {
  std::vector<double> sum(values.size(), 0), squares(values.size(), 0);
  for (int trial = 0; trial < trials; ++trial) {
    const Numbers back = round_trip(filter, values, context_of(static_cast<std::uint64_t>(trial)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum[i] += back[i];
      squares[i] += static_cast<double>(back[i]) * back[i];
    }
  }
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double mean = sum[i] / trials;
    const double variance = std::max(squares[i] / trials - mean * mean, 0.0);
    // Values on the grid vary by rounding only.
    const double error = std::sqrt(variance / trials) + 2e-7 * std::fabs(values[i]);
    worst = std::max(worst, std::fabs(mean - values[i]) / error);
  }
  return worst;
}

// 13 quantizers with 64 coordinates: P(any |z| > 5.5) < 13 * 64 * 3.8e-8 = 3.2e-5 if all are unbiased.
TEST(Codecs, AreUnbiasedWhereTheirPapersSaySo) {
  constexpr double kWorst = 5.5;
  const Numbers values = normal_numbers(64);
  for (const Bits bits : {Bits::k8, Bits::k4, Bits::k2}) {
    const int width = static_cast<int>(bits);
    for (const auto scale : {UniformFilterConfig::Scale::kMaxAbs, UniformFilterConfig::Scale::kRange}) {
      EXPECT_LT(worst_z(UniformFilter({bits, 32, scale, true}), values, 4000), kWorst) << width;
    }
    for (const auto norm : {QsgdConfig::Norm::kL2, QsgdConfig::Norm::kMax}) {
      EXPECT_LT(worst_z(QsgdFilter({bits, 32, norm}), values, 4000), kWorst) << width;
    }
  }
  EXPECT_LT(worst_z(RandomKFilter({0.25, false}), values, 4000), kWorst);
  // The test has power: it rejects rounding to nearest and keeping the largest.
  EXPECT_GT(worst_z(UniformFilter({Bits::k2, 32, UniformFilterConfig::Scale::kMaxAbs, false}), values, 400), 100);
  EXPECT_GT(worst_z(TopKFilter({0.25, false}), values, 400), 100);
}

TEST(Codecs, ErrorsStayWithinTheirBounds) {
  const Numbers values = normal_numbers(5000);
  for (const Bits bits : {Bits::k8, Bits::k4, Bits::k2}) {
    const int width = static_cast<int>(bits);
    for (const auto scale : {UniformFilterConfig::Scale::kMaxAbs, UniformFilterConfig::Scale::kRange}) {
      const auto back = round_trip(UniformFilter({bits, 512, scale, true}), values, context_of(1));
      const auto near = round_trip(UniformFilter({bits, 512, scale, false}), values, context_of(1));
      for (std::size_t begin = 0; begin < values.size(); begin += 512) {
        const auto piece = std::span(values).subspan(begin, std::min<std::size_t>(512, values.size() - begin));
        const auto [low, high] = std::minmax_element(piece.begin(), piece.end());
        const float step = scale == UniformFilterConfig::Scale::kRange
                               ? (*high - *low) / static_cast<float>((1 << width) - 1)
                               : std::max(-*low, *high) / static_cast<float>((1 << (width - 1)) - 1);
        for (std::size_t i = 0; i < piece.size(); ++i) {
          ASSERT_LE(std::fabs(piece[i] - back[begin + i]), step * 1.0001F) << width;
          ASSERT_LE(std::fabs(piece[i] - near[begin + i]), step * 0.5001F) << width;
        }
      }
    }
    // QSGD, lemma 3.1: E|Q(v) - v|^2 <= min(n / s^2, sqrt(n) / s) |v|^2; the mean over 80 buckets is close to it.
    const double levels = (1 << (width - 1)) - 1;
    const auto many = normal_numbers(80 * 64);
    const auto back = round_trip(QsgdFilter({bits, 64, QsgdConfig::Norm::kL2}), many, context_of(2));
    EXPECT_LE(relative_error(many, back), 1.05 * std::sqrt(std::min(64 / (levels * levels), 8 / levels))) << width;
  }
  EXPECT_LT(relative_error(values, round_trip(HalfFilter(HalfFilter::Type::kFloat16), values, context_of(0))), 0x1p-11);
  EXPECT_LT(relative_error(values, round_trip(HalfFilter(HalfFilter::Type::kBfloat16), values, context_of(0))), 0x1p-8);
}

TEST(Codecs, ZerosAndExtremesRoundTrip) {
  const Numbers zeros(700, 0.0F);
  Numbers tiny(700, 1e-42F), large(700, 3e38F), one(700, 0.0F);
  one[13] = -2;
  const std::vector<std::unique_ptr<Filter>> filters = [] {
    std::vector<std::unique_ptr<Filter>> all;
    for (const Bits bits : {Bits::k8, Bits::k4, Bits::k2}) {
      all.push_back(
          std::make_unique<UniformFilter>(UniformFilterConfig{bits, 512, UniformFilterConfig::Scale::kMaxAbs, true}));
      all.push_back(std::make_unique<QsgdFilter>(QsgdConfig{bits, 512, QsgdConfig::Norm::kL2}));
    }
    all.push_back(std::make_unique<SignFilter>(SignConfig{512, true, false}));
    all.push_back(std::make_unique<TopKFilter>(SparseConfig{0.01, true}));
    return all;
  }();
  for (const auto& filter : filters) {
    EXPECT_EQ(round_trip(*filter, zeros, context_of(0)), zeros);
    for (const float value : round_trip(*filter, tiny, context_of(0))) EXPECT_LT(std::fabs(value), 1e-37F);
    const Numbers back = round_trip(*filter, one, context_of(0));
    for (std::size_t i = 0; i < back.size(); ++i) {
      if (i != 13) {
        ASSERT_EQ(back[i], 0);
      }
    }
    EXPECT_LE(back[13], 0);
  }
  // fp16 saturates instead of overflowing.
  EXPECT_EQ(round_trip(HalfFilter(HalfFilter::Type::kFloat16), large, context_of(0))[0], 65504);
  // A range and a norm beyond float32.
  large[3] = -3e38F;
  Filter::Bytes bytes;
  const UniformFilter range({Bits::k8, 512, UniformFilterConfig::Scale::kRange, true});
  EXPECT_THROW(range.encode(large, bytes, context_of(0)), DataError);
  EXPECT_THROW(QsgdFilter(QsgdConfig{}).encode(large, bytes, context_of(0)), DataError);
}

TEST(Codecs, SignsAreOneBitAndTheMean) {
  Numbers values = normal_numbers(4096);
  for (std::size_t i = 0; i < 1000; ++i) values[i] = 0;
  const SignFilter filter({4096, false, false});
  const auto back = round_trip(filter, values, context_of(0));
  double mean = 0;
  for (const float value : values) mean += std::fabs(value) / 4096;
  int negative = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(std::fabs(back[i]), mean, 1e-5);
    if (values[i] != 0) {
      EXPECT_EQ(std::signbit(back[i]), values[i] < 0);
    } else {
      negative += std::signbit(back[i]) ? 1 : 0;
    }
  }
  EXPECT_NEAR(negative, 500, 80);  // a fair coin: 5 standard deviations
}

TEST(Codecs, TopKKeepsTheLargest) {
  const Numbers values{1, -5, 2, 5, 0, -5, 3, 0.5F, 2, 1};
  const auto kept = [&](double k) { return round_trip(TopKFilter({k, true}), values, context_of(0)); };
  EXPECT_EQ(kept(0.1), (Numbers{0, -5, 0, 0, 0, 0, 0, 0, 0, 0}));  // ties: the first
  EXPECT_EQ(kept(0.2), (Numbers{0, -5, 0, 5, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(kept(0.5), (Numbers{0, -5, 2, 5, 0, -5, 3, 0, 0, 0}));
  EXPECT_EQ(kept(1), values);
  EXPECT_EQ(kept(1e-9), kept(0.1));  // at least one
  EXPECT_EQ(kept_count(0.01, 12345), 123U);
}

TEST(Codecs, RandomKDrawsEveryPositionEquallyOften) {
  const Numbers ones(50, 1.0F);
  std::vector<int> times(50, 0);
  for (std::uint64_t round = 0; round < 5000; ++round) {
    const auto back = round_trip(RandomKFilter({0.2, true}), ones, context_of(round));
    int kept = 0;
    for (std::size_t i = 0; i < 50; ++i) {
      times[i] += back[i] == 1 ? 1 : 0;
      kept += back[i] != 0 ? 1 : 0;
    }
    ASSERT_EQ(kept, 10);
  }
  for (const int count : times) EXPECT_NEAR(count, 1000, 5.5 * std::sqrt(5000 * 0.2 * 0.8));
}

TEST(Codecs, PowerSgdIsExactForAMatrixOfItsRank) {
  torch::manual_seed(3);
  const at::Tensor matrix = torch::randn({40, 3}).matmul(torch::randn({3, 50}));
  const at::Tensor vector = torch::randn({17}), small = torch::randn({4, 4});
  const at::Tensor all = torch::cat({vector, matrix.view(-1), small.view(-1)});
  const std::vector<FilterBlock> blocks{{0, {17}}, {17, {40, 5, 10}}, {2017, {4, 4}}};
  const std::span values(all.data_ptr<float>(), static_cast<std::size_t>(all.numel()));
  const PowerSgdFilter rank3({3, true, true});
  Filter::Bytes bytes;
  const auto left = rank3.encode(values, bytes, context_of(0, blocks));
  EXPECT_EQ(left.size(), 17U + 3 * (40 + 50) + 16);  // matrices too small to gain are sent unchanged
  const auto back = rank3.decode(bytes, left, values.size());
  EXPECT_LT(relative_error(values, back), 1e-5);
  for (std::size_t i = 0; i < 17; ++i) EXPECT_EQ(back[i], values[i]);
  // A lower rank loses something; with a warm start the loss shrinks from round to round, down to the optimum.
  ClientState memory;
  FilterContext context = context_of(0, blocks);
  context.memory = &memory;
  std::vector<double> errors;
  for (int round = 0; round < 8; ++round) {
    errors.push_back(relative_error(values, round_trip(PowerSgdFilter({2, true, true}), values, context)));
  }
  const at::Tensor s = std::get<1>(torch::svd(matrix));
  const double best = s[2].item<double>() / all.norm().item<double>();
  EXPECT_GT(errors[0], best * 1.01);
  EXPECT_NEAR(errors[7], best, best * 0.01);
  // Without a layout the filter does nothing.
  const auto plain = round_trip(rank3, values, context_of(0));
  EXPECT_EQ(plain, Numbers(values.begin(), values.end()));
}

TEST(NumberLoops, ThresholdsEqualThoseOfASort) {
  RandomStream stream({.seed = 3, .purpose = "test"});
  Numbers values(5000);
  for (float& value : values) value = static_cast<float>(std::round(stream.normal() * 1000) / 512);  // many ties
  values[17] = 0;
  values[18] = -0.0F;
  Numbers sorted(values.size());
  std::transform(values.begin(), values.end(), sorted.begin(), [](float value) { return std::fabs(value); });
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  for (const std::size_t count : {1U, 2U, 50U, 2500U, 4999U, 5000U}) {
    const Threshold found = magnitude_at(values, count);
    EXPECT_EQ(std::bit_cast<float>(found.bits), sorted[count - 1]) << count;
    EXPECT_EQ(found.above,
              static_cast<std::size_t>(
                  std::lower_bound(sorted.begin(), sorted.end(), sorted[count - 1], std::greater<>()) - sorted.begin()))
        << count;
  }
}

TEST(NumberLoops, SumsEqualSequentialSums) {
  RandomStream stream({.seed = 4, .purpose = "test"});
  for (const std::size_t count : {0U, 1U, 15U, 16U, 1003U}) {
    Numbers x(count), y(count);
    double sizes = 0, squares = 0, distances = 0;
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = static_cast<float>(stream.normal());
      y[i] = static_cast<float>(stream.normal());
      sizes += std::fabs(static_cast<double>(x[i]));
      squares += static_cast<double>(x[i]) * x[i];
      distances += (static_cast<double>(x[i]) - y[i]) * (static_cast<double>(x[i]) - y[i]);
    }
    EXPECT_NEAR(sum_of_magnitudes(x), sizes, 1e-9);
    EXPECT_NEAR(sum_of_squares(x), squares, 1e-9);
    EXPECT_NEAR(squared_distance(x, y), distances, 1e-9);
  }
}

// Every half-precision value, and floats of every size and between two halves, rounded as LibTorch does.
TEST(NumberLoops, HalvesEqualLibTorchs) {
  std::vector<float> values{0, -0.0F, 1, -1, 65504, -65504, 70000, 1e30F, 65519, 65520, 5.9e-8F, 2.9e-8F, 1e-40F};
  RandomStream stream({.seed = 5, .purpose = "test"});
  for (int exponent = -30; exponent < 17; ++exponent) {
    for (int i = 0; i < 200; ++i) values.push_back(static_cast<float>(std::ldexp(stream.normal(), exponent)));
    for (int i = 0; i < 64; ++i) values.push_back(static_cast<float>(std::ldexp(1024.5 + i, exponent - 10)));  // ties
  }
  const auto count = static_cast<std::int64_t>(values.size());
  const at::Tensor floats = at::from_blob(values.data(), {count}, at::kFloat);
  std::vector<std::byte> bytes(2 * values.size() + 1);
  for (const auto type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor expected = (type == at::kHalf ? floats.clamp(-65504, 65504) : floats).to(type);
    std::vector<float> back(values.size());
    (type == at::kHalf ? to_float16 : to_bfloat16)(values, bytes.data() + 1);
    EXPECT_EQ(std::memcmp(bytes.data() + 1, expected.data_ptr(), 2 * values.size()), 0);
    (type == at::kHalf ? from_float16 : from_bfloat16)(bytes.data() + 1, back);
    EXPECT_TRUE(at::from_blob(back.data(), {count}, at::kFloat).equal(expected.to(at::kFloat)));
  }
  std::vector<float> all(65536);
  std::vector<std::uint16_t> halves(65536);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  from_float16(reinterpret_cast<const std::byte*>(halves.data()), all);
  const at::Tensor expected = at::from_blob(halves.data(), {65536}, at::kHalf).to(at::kFloat);
  EXPECT_TRUE(at::from_blob(all.data(), {65536}, at::kFloat).nan_to_num(7).equal(expected.nan_to_num(7)));
}

}  // namespace
}  // namespace chorus::inline compression
