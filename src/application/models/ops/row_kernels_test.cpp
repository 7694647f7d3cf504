// Row kernels compared with the same formulas in double, element by element, at widths that fill no vector register.
#include "application/models/ops/row_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/base/rng.h"

namespace chorus::inline ops {
namespace {

using Row = std::vector<float>;

const std::vector<std::int64_t> kWidths{1, 3, 4, 7, 16, 17, 31, 64, 100, 333};

Row row_of(std::int64_t width, std::uint64_t seed, double scale = 1) {
  RandomStream stream({.seed = seed, .purpose = "row kernels"});
  Row row(static_cast<std::size_t>(width));
  for (float& x : row) x = static_cast<float>(scale * stream.normal());
  return row;
}

void expect_near(const Row& got, const std::vector<double>& expected, double tolerance, const char* what) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t j = 0; j < got.size(); ++j) {
    EXPECT_NEAR(got[j], expected[j], tolerance * std::max(1.0, std::abs(expected[j]))) << what << " " << j;
  }
}

TEST(RowKernels, SumsAndProducts) {
  for (const std::int64_t width : kWidths) {
    const Row a = row_of(width, 1), b = row_of(width, 2);
    Row sum = a, times = a, product(a.size(), -1);
    add_row(sum.data(), b.data(), width);
    multiply_row(times.data(), b.data(), width);
    product_row(a.data(), b.data(), product.data(), width);
    for (std::size_t j = 0; j < a.size(); ++j) {
      EXPECT_EQ(sum[j], a[j] + b[j]);
      EXPECT_EQ(times[j], a[j] * b[j]);
      EXPECT_EQ(product[j], a[j] * b[j]);
    }
  }
}

TEST(RowKernels, MasksDropTheirShareAndAgreeWithEachOther) {
  const std::int64_t width = 4096;
  const double rate = 0.25;
  const MaskRow row{.key = 77, .start = 8, .threshold = static_cast<std::uint64_t>(rate * 65536), .scale = 4.0F / 3};
  Row mask(static_cast<std::size_t>(width));
  fill_mask(row, width, mask.data());
  std::int64_t dropped = 0;
  for (const float m : mask) {
    EXPECT_TRUE(m == 0 || m == row.scale);
    dropped += m == 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(width), rate, 5 * std::sqrt(rate * 0.75 / 4096));

  const Row x = row_of(width, 3);
  Row y(x.size());
  mask_row(row, width, x.data(), y.data());
  for (std::size_t j = 0; j < x.size(); ++j) EXPECT_EQ(y[j], x[j] * mask[j]);

  MaskRow other = row;
  other.key = 78;
  Row another(mask.size());
  fill_mask(other, width, another.data());
  EXPECT_NE(mask, another);

  MaskRow off = row;
  off.threshold = 0;
  off.scale = 1;
  fill_mask(off, width, another.data());
  EXPECT_EQ(another, Row(mask.size(), 1.0F));
}

// An element's mask depends on its index alone, wherever a row begins.
TEST(RowKernels, MasksOfManyRowsAreThoseOfEachRow) {
  for (const std::int64_t width : {4, 7, 12, 33}) {
    const std::uint64_t row_stride = 36;
    const MaskRow first{.key = 5, .start = 40, .threshold = 32768, .scale = 2};
    Row masks(static_cast<std::size_t>(3 * width) + 3);
    fill_masks(first, 3, row_stride, width, masks.data());
    for (std::int64_t r = 0; r < 3; ++r) {
      MaskRow row = first;
      row.start += static_cast<std::uint64_t>(r) * row_stride;
      Row alone(static_cast<std::size_t>(width));
      fill_mask(row, width, alone.data());
      for (std::int64_t j = 0; j < width; ++j) {
        EXPECT_EQ(masks[static_cast<std::size_t>(r * width + j)], alone[static_cast<std::size_t>(j)]) << r << " " << j;
      }
    }
  }
}

struct NormCase {
  explicit NormCase(std::int64_t width)
      : f(row_of(width, 1)), x(row_of(width, 2)), weight(row_of(width, 3)), bias(row_of(width, 4)), mask(f.size(), 1) {}

  /// s, its mean and 1 / deviation, in double.
  void finish(bool with_x) {
    s.clear();
    for (std::size_t j = 0; j < f.size(); ++j) {
      s.push_back(static_cast<double>(f[j]) * mask[j] + (with_x ? static_cast<double>(x[j]) : 0));
    }
    const double count = static_cast<double>(s.size());
    mean = std::accumulate(s.begin(), s.end(), 0.0) / count;
    double variance = 0;
    for (const double value : s) variance += (value - mean) * (value - mean) / count;
    inverse = 1 / std::sqrt(variance + 1e-5);
  }

  Row f, x, weight, bias, mask;
  std::vector<double> s;
  double mean = 0, inverse = 0;
};

TEST(RowKernels, LayerNormOfAMaskedSum) {
  for (const std::int64_t width : {3, 8, 17, 64, 333}) {
    for (const bool with_x : {true, false}) {
      for (const std::uint64_t threshold : {0U, 20000U}) {
        if (!with_x && threshold > 0) continue;  // there is no such operator
        NormCase c(width);
        const MaskRow mask{.key = 9, .start = 0, .threshold = threshold, .scale = threshold > 0 ? 1.5F : 1.0F};
        fill_mask(mask, width, c.mask.data());
        c.finish(with_x);
        Row normal(c.f.size()), y(c.f.size()), sum(c.f.size()), scratch(c.f.size() + 16);
        const NormRow row{
            c.f.data(), with_x ? c.x.data() : nullptr, c.weight.data(), c.bias.data(), normal.data(), y.data(),
            sum.data()};
        const float inverse = residual_norm_row(row, mask, width, 1e-5, scratch.data());
        EXPECT_NEAR(inverse / c.inverse, 1, 1e-5);
        std::vector<double> expected, expected_normal;
        for (std::size_t j = 0; j < c.s.size(); ++j) {
          expected_normal.push_back((c.s[j] - c.mean) * c.inverse);
          expected.push_back(expected_normal.back() * c.weight[j] + c.bias[j]);
        }
        expect_near(sum, c.s, 1e-6, "s");
        expect_near(normal, expected_normal, 2e-5, "normal");
        expect_near(y, expected, 2e-5, "y");
      }
    }
  }
}

TEST(RowKernels, LayerNormGradients) {
  for (const std::int64_t width : {3, 17, 64, 333}) {
    for (const bool used_again : {true, false}) {
      NormCase c(width);
      const MaskRow mask{.key = 9, .start = 0, .threshold = 20000, .scale = 1.5F};
      fill_mask(mask, width, c.mask.data());
      c.finish(true);
      const Row dy = row_of(width, 5), dsum = row_of(width, 6);
      Row normal(c.f.size());
      for (std::size_t j = 0; j < normal.size(); ++j) normal[j] = static_cast<float>((c.s[j] - c.mean) * c.inverse);
      Row dx(c.f.size()), df(c.f.size()), dweight(c.f.size(), 10), dbias(c.f.size(), 20), scratch(c.f.size() + 16);
      residual_norm_gradient_row({dy.data(), used_again ? dsum.data() : nullptr, normal.data(), c.weight.data(),
                                  static_cast<float>(c.inverse), dx.data(), df.data(), dweight.data(), dbias.data()},
                                 mask, width, scratch.data());
      double mean = 0, along = 0;
      for (std::size_t j = 0; j < normal.size(); ++j) {
        const double d = static_cast<double>(dy[j]) * c.weight[j];
        mean += d / static_cast<double>(width);
        along += d * normal[j] / static_cast<double>(width);
      }
      std::vector<double> ds, masked, weight, bias;
      for (std::size_t j = 0; j < normal.size(); ++j) {
        const double d = static_cast<double>(dy[j]) * c.weight[j];
        ds.push_back(c.inverse * (d - mean - normal[j] * along) + (used_again ? dsum[j] : 0));
        masked.push_back(ds.back() * c.mask[j]);
        weight.push_back(10 + static_cast<double>(dy[j]) * normal[j]);  // accumulated
        bias.push_back(20 + static_cast<double>(dy[j]));
      }
      expect_near(dx, ds, 3e-5, "dx");
      expect_near(df, masked, 3e-5, "df");
      expect_near(dweight, weight, 1e-5, "dweight");
      expect_near(dbias, bias, 1e-6, "dbias");
    }
  }
}

TEST(RowKernels, GeluAndItsSlopeFarFromZeroToo) {
  Row x;
  for (double value = -12; value <= 12; value += 0.037) x.push_back(static_cast<float>(value));
  const auto width = static_cast<std::int64_t>(x.size());
  std::vector<double> exact, exact_slope, approximate, approximate_slope;
  for (const float value : x) {
    const double v = value, density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
    const double below = 0.5 * std::erfc(-v / std::sqrt(2.0));
    exact.push_back(v * below);
    exact_slope.push_back(below + v * density);
    const double a = std::sqrt(2 / M_PI), inner = a * (v + 0.044715 * v * v * v), t = std::tanh(inner);
    approximate.push_back(0.5 * v * (1 + t));
    approximate_slope.push_back(0.5 * (1 + t) + 0.5 * v * (1 - t * t) * a * (1 + 3 * 0.044715 * v * v));
  }
  for (const bool by_tanh : {false, true}) {
    Row y(x.size()), again(x.size()), slope(x.size());
    gelu_row(x.data(), y.data(), width, by_tanh);
    expect_near(y, by_tanh ? approximate : exact, 2e-6, "gelu");
    gelu_slope_row(x.data(), again.data(), slope.data(), width, by_tanh);
    EXPECT_EQ(again, y);
    expect_near(slope, by_tanh ? approximate_slope : exact_slope, 5e-6, "slope");
    Row in_place = x;
    gelu_slope_row(in_place.data(), again.data(), in_place.data(), width, by_tanh);
    EXPECT_EQ(in_place, slope);
  }
}

TEST(RowKernels, CrossEntropyOfLargeAndSmallLogits) {
  for (const std::int64_t width : kWidths) {
    for (const double shift : {0.0, 500.0, -500.0}) {  // exp() of these alone would overflow
      Row x = row_of(width, 7, 5);
      for (float& value : x) value += static_cast<float>(shift);
      const std::int64_t label = width / 2;
      const double top = *std::max_element(x.begin(), x.end());
      double sum = 0;
      for (const float value : x) sum += std::exp(value - top);
      const double loss = std::log(sum) + top - x[static_cast<std::size_t>(label)];

      const ExpSum found = exp_sum_row(x.data(), width);
      EXPECT_EQ(found.top, static_cast<float>(top));
      EXPECT_NEAR(found.sum / sum, 1, 1e-5);
      std::vector<double> gradient;
      for (std::size_t j = 0; j < x.size(); ++j) {
        gradient.push_back(std::exp(x[j] - top) / sum - (static_cast<std::int64_t>(j) == label ? 1 : 0));
      }
      Row dx(x.size());
      cross_entropy_gradient_row(x.data(), width, label, found, 1, dx.data());
      expect_near(dx, gradient, 1e-5, "gradient");

      Row both = x;
      const CrossEntropy at_once = cross_entropy_row(both.data(), width, label);
      EXPECT_NEAR(at_once.loss, loss, 2e-5 * std::max(1.0, std::abs(loss)));
      for (float& value : both) value /= at_once.sum;
      expect_near(both, gradient, 1e-5, "gradient at once");
    }
  }
}

TEST(RowKernels, SoftmaxSumsToOneAndClearsWhatIsBeyond) {
  for (const std::int64_t count : kWidths) {
    const std::int64_t width = count + 5;
    Row x = row_of(width, 8, 30);
    std::vector<double> expected(x.size(), 0.0);
    double top = -HUGE_VAL, sum = 0;
    for (std::int64_t j = 0; j < count; ++j) top = std::max(top, 0.125 * x[static_cast<std::size_t>(j)]);
    for (std::size_t j = 0; j < static_cast<std::size_t>(count); ++j) sum += expected[j] = std::exp(0.125 * x[j] - top);
    for (double& value : expected) value /= sum;
    softmax_row(x.data(), count, width, 0.125F);
    expect_near(x, expected, 2e-6, "softmax");
    EXPECT_NEAR(std::accumulate(x.begin(), x.end(), 0.0), 1, 1e-5);

    Row d = row_of(width, 9);
    double along = 0;
    for (std::size_t j = 0; j < d.size(); ++j) along += static_cast<double>(d[j]) * x[j];
    std::vector<double> gradient;
    for (std::size_t j = 0; j < d.size(); ++j) gradient.push_back(x[j] * (d[j] - along));
    softmax_gradient_row(x.data(), d.data(), width);
    expect_near(d, gradient, 2e-6, "gradient");
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(RowKernels, AnLstmStepAndItsGradient) {
  for (const std::int64_t hidden : {1, 5, 16, 33}) {
    const auto h = static_cast<std::size_t>(hidden);
    Row gates = row_of(4 * hidden, 10, 3);
    const Row before = row_of(hidden, 11), inputs = gates;
    Row c(h), out(h);
    lstm_row(gates.data(), before.data(), c.data(), out.data(), hidden);
    std::vector<double> open, memory, answer;
    for (std::size_t j = 0; j < h; ++j) {
      const double i = sigmoid(inputs[j]), f = sigmoid(inputs[h + j]), g = std::tanh(inputs[2 * h + j]);
      memory.push_back(f * before[j] + i * g);
      answer.push_back(sigmoid(inputs[3 * h + j]) * std::tanh(memory.back()));
    }
    for (std::size_t j = 0; j < 4 * h; ++j) open.push_back(j / h == 2 ? std::tanh(inputs[j]) : sigmoid(inputs[j]));
    expect_near(gates, open, 3e-6, "gates");
    expect_near(c, memory, 3e-6, "c");
    expect_near(out, answer, 3e-6, "h");

    const Row dh = row_of(hidden, 12), later = row_of(hidden, 13);
    Row dc = later, dgates = gates;
    lstm_gradient_row(dgates.data(), before.data(), c.data(), dh.data(), dc.data(), hidden);
    std::vector<double> expected(4 * h), expected_dc(h);
    for (std::size_t j = 0; j < h; ++j) {
      const double i = open[j], f = open[h + j], g = open[2 * h + j], o = open[3 * h + j], t = std::tanh(memory[j]);
      const double d = later[j] + dh[j] * o * (1 - t * t);
      expected[j] = d * g * i * (1 - i);
      expected[h + j] = d * before[j] * f * (1 - f);
      expected[2 * h + j] = d * i * (1 - g * g);
      expected[3 * h + j] = dh[j] * t * o * (1 - o);
      expected_dc[j] = d * f;
    }
    expect_near(dgates, expected, 1e-5, "gradients of gates");
    expect_near(dc, expected_dc, 1e-5, "dc");
  }
}

}  // namespace
}  // namespace chorus::inline ops
