#include "algorithm/distillation/public_order.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/base/rng.h"

namespace chorus::inline distillation {
namespace {

std::uint64_t whole_number(const Message& body, const char* name, double most) {
  const double value = body.number(name);
  if (!(value >= 0 && value <= most && value == std::floor(value))) {
    throw DataError(fmt::format("the request's number \"{}\" is {}, which is no count", name, value));
  }
  return static_cast<std::uint64_t>(value);
}

}  // namespace

std::vector<std::uint32_t> PublicOrder::all() const {
  std::vector<std::uint32_t> result(rows);
  std::iota(result.begin(), result.end(), 0U);
  return result;
}

std::vector<std::uint32_t> PublicOrder::batch(std::uint64_t number) const {
  check(rows > 0 && batch_size > 0, "a public set has rows");
  const std::uint64_t count = batches(), index = number % count;
  std::vector<std::uint32_t> result;
  if (strided) {
    for (std::uint64_t row = index; row < rows; row += count) result.push_back(static_cast<std::uint32_t>(row));
    return result;
  }
  std::vector<std::uint32_t> shuffled = all();
  RandomStream({seed, "public-order", round, 0, number / count}).shuffle(std::span(shuffled));
  const auto begin = shuffled.begin() + static_cast<std::ptrdiff_t>(index * batch_size);
  result.assign(begin, shuffled.begin() + static_cast<std::ptrdiff_t>(std::min(rows, (index + 1) * batch_size)));
  return result;
}

std::int64_t PublicOrder::answers() const { return offsets.empty() ? static_cast<std::int64_t>(rows) : offsets.back(); }

std::int64_t PublicOrder::answers(const std::vector<std::uint32_t>& of) const {
  if (offsets.empty()) return static_cast<std::int64_t>(of.size());
  std::int64_t sum = 0;
  for (const std::uint32_t row : of) sum += offsets[row + 1] - offsets[row];
  return sum;
}

at::Tensor PublicOrder::answers_for(const std::vector<std::uint32_t>& of, const at::Tensor& all_answers) const {
  at::Tensor index = at::empty({answers(of)}, at::kLong);
  auto* next = index.data_ptr<std::int64_t>();
  for (const std::uint32_t row : of) {
    const std::int64_t begin = offsets.empty() ? row : offsets[row], end = offsets.empty() ? row + 1 : offsets[row + 1];
    for (std::int64_t answer = begin; answer < end; ++answer) *next++ = answer;
  }
  return all_answers.index_select(all_answers.dim() - 2, index.to(all_answers.device()));
}

void write_order(const PublicOrder& order, Message& body) {
  body.numbers["public_rows"] = static_cast<double>(order.rows);
  body.numbers["public_answers"] = static_cast<double>(order.answers());
  body.numbers["public_batch"] = static_cast<double>(order.batch_size);
  body.numbers["public_seed"] = static_cast<double>(order.seed);
  body.numbers["public_strided"] = order.strided ? 1 : 0;
}

PublicOrder read_order(const Request& request, const Workbench& bench) {
  const Message& body = request.body;
  PublicOrder order;
  order.rows = bench.public_rows();
  order.offsets = bench.public_offsets();
  const std::uint64_t rows = whole_number(body, "public_rows", 4294967295.0);
  if (rows != order.rows || rows == 0) {
    throw DataError(fmt::format("its public set has {} rows, the server's {}; give both the same `public` files",
                                order.rows, rows));
  }
  const std::uint64_t answers = whole_number(body, "public_answers", 9e15);
  if (answers != static_cast<std::uint64_t>(order.answers())) {
    throw DataError(
        fmt::format("its network answers for {} words of the public set, the server's for {}; raise "
                    "task.max_length so that no tokenizer cuts them",
                    order.answers(), answers));
  }
  order.batch_size = whole_number(body, "public_batch", 1e9);
  if (order.batch_size == 0) throw DataError("the request's number \"public_batch\" is 0");
  order.seed = whole_number(body, "public_seed", 9007199254740992.0);
  order.round = request.round;
  order.strided = body.number("public_strided") != 0;
  return order;
}

}  // namespace chorus::inline distillation
