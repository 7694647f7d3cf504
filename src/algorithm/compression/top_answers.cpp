#include "algorithm/compression/top_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace chorus::inline compression {
namespace {

// log(mean of exp) of what is not kept.
float residual_of(std::span<const float> row, const std::vector<bool>& kept) {
  float top = -HUGE_VALF;
  std::size_t others = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (kept[c]) continue;
    top = std::max(top, row[c]);
    ++others;
  }
  double sum = 0;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (!kept[c]) sum += std::exp(static_cast<double>(row[c]) - static_cast<double>(top));
  }
  return static_cast<float>(static_cast<double>(top) + std::log(sum / static_cast<double>(others)));
}

}  // namespace

void TopAnswersConfig::describe(ConfigVisitor& visitor) {
  visitor.field("classes", classes, "numbers of one answer").required().at_least(2).at_most(65536);
  visitor.field("keep", keep, "of them that travel; one more number stands for all others").at_least(1);
  visitor.check([this]() -> std::string {
    if (keep < classes) return "";
    return fmt::format("keep: {} of {} classes leaves nothing out; lower it, or leave the filter out", keep, classes);
  });
}

std::size_t TopAnswers::answers_in(std::size_t size) const {
  if (size % classes() != 0) {
    throw DataError(fmt::format("{} numbers are no answers of {} classes; correct classes of the filter top_answers",
                                size, classes()));
  }
  return size / classes();
}

Numbers TopAnswers::encode(std::span<const float> values, Bytes& out, const FilterContext&) const {
  const std::size_t answers = answers_in(values.size());
  Numbers left;
  left.reserve(answers * (keep() + 1));
  std::vector<std::size_t> order(classes());
  for (std::size_t a = 0; a < answers; ++a) {
    const auto row = values.subspan(a * classes(), classes());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) { return row[x] > row[y]; });
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(keep()));
    std::vector<bool> kept(classes(), false);
    for (std::size_t k = 0; k < keep(); ++k) {
      kept[order[k]] = true;
      left.push_back(row[order[k]]);
      for (std::size_t byte = 0; byte < width(); ++byte) {
        out.push_back(static_cast<std::byte>((order[k] >> (8 * byte)) & 0xFFU));
      }
    }
    left.push_back(residual_of(row, kept));
  }
  return left;
}

std::size_t TopAnswers::left(std::span<const std::byte>, std::size_t size) const {
  return answers_in(size) * (keep() + 1);
}

Numbers TopAnswers::decode(std::span<const std::byte> bytes, Numbers numbers, std::size_t size) const {
  const std::size_t answers = answers_in(size);
  if (bytes.size() != answers * keep() * width() || numbers.size() != answers * (keep() + 1)) {
    throw DataError("the classes kept of the answers do not fit the answers");
  }
  Numbers values(size);
  for (std::size_t a = 0; a < answers; ++a) {
    const std::size_t first = a * (keep() + 1);
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(a * classes()), classes(), numbers[first + keep()]);
    for (std::size_t k = 0; k < keep(); ++k) {
      std::size_t index = 0;
      for (std::size_t byte = 0; byte < width(); ++byte) {
        index |= std::to_integer<std::size_t>(bytes[(a * keep() + k) * width() + byte]) << (8 * byte);
      }
      if (index >= classes()) throw DataError(fmt::format("an answer names class {} of {}", index, classes()));
      values[a * classes() + index] = numbers[first + k];
    }
  }
  return values;
}

namespace {

const Registration<Filters, TopAnswersConfig> kRegisteredTopAnswers{
    "top_answers", "the most probable classes of predictions and one residual (distillation)",
    [](const TopAnswersConfig& config) { return std::make_unique<TopAnswers>(config); }};

}  // namespace
}  // namespace chorus::inline compression
