#include "algorithm/compression/power_sgd.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstring>

#include "algorithm/compression/bit_packing.h"
#include "core/base/byte_reader.h"

namespace chorus::inline compression {
namespace {

struct MatrixShape {
  std::uint32_t rows = 0, columns = 1;

  std::size_t count() const { return std::size_t{rows} * columns; }
  std::size_t factors(std::size_t rank) const { return (std::size_t{rows} + columns) * rank; }
  bool worth_it(std::size_t rank) const { return columns > 1 && factors(rank) < count(); }
  std::size_t left(std::size_t rank) const { return worth_it(rank) ? factors(rank) : count(); }
};

std::vector<MatrixShape> shapes_of(std::span<const FilterBlock> blocks, std::size_t size) {
  std::vector<MatrixShape> shapes;
  for (const FilterBlock& block : blocks) {
    MatrixShape shape;
    std::size_t others = 1;
    for (std::size_t d = 1; d < block.shape.size(); ++d) others *= static_cast<std::size_t>(block.shape[d]);
    shape.rows = static_cast<std::uint32_t>(block.shape.empty() ? 1 : block.shape[0]);
    shape.columns = static_cast<std::uint32_t>(others);
    shapes.push_back(shape);
  }
  if (shapes.empty()) shapes.push_back({static_cast<std::uint32_t>(size), 1});
  return shapes;
}

std::vector<MatrixShape> read_shapes(std::span<const std::byte> bytes, std::size_t size, std::int64_t rank) {
  ByteReader reader(bytes);
  const auto sent_rank = reader.take<std::uint32_t>();
  const auto count = reader.take<std::uint32_t>();
  if (!reader.ok() || reader.left() != std::size_t{count} * 8) {
    throw DataError("the shapes of the filter power_sgd do not fit their bytes");
  }
  if (sent_rank != static_cast<std::uint64_t>(rank)) {
    throw DataError("they were packed by the filter power_sgd with another rank than this side has");
  }
  std::vector<MatrixShape> shapes(count);
  std::size_t total = 0;
  for (MatrixShape& shape : shapes) {
    shape.rows = reader.take<std::uint32_t>();
    shape.columns = reader.take<std::uint32_t>();
    // Both factors and `size` are below 2^32: no overflow before this check.
    if (shape.count() > size - total) throw DataError("the shapes of the filter power_sgd do not fit the vector");
    total += shape.count();
  }
  if (total != size) throw DataError("the shapes of the filter power_sgd do not fit the vector");
  return shapes;
}

at::Tensor matrix_view(const float* data, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(const_cast<float*>(data), {rows, columns}, at::kFloat);
}

// Modified Gram-Schmidt, twice, in double; a linearly dependent column becomes 0.
void orthogonalize(float* matrix, std::size_t rows, std::size_t rank) {
  std::vector<double> columns(rows * rank);  // column-major
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rank; ++j) columns[j * rows + i] = matrix[i * rank + j];
  }
  const auto dot = [rows](const double* a, const double* b) {
    double sum = 0;
    for (std::size_t i = 0; i < rows; ++i) sum += a[i] * b[i];
    return sum;
  };
  for (std::size_t j = 0; j < rank; ++j) {
    double* column = columns.data() + j * rows;
    const double before = std::sqrt(dot(column, column));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t k = 0; k < j; ++k) {
        const double* other = columns.data() + k * rows;
        const double along = dot(column, other);
        for (std::size_t i = 0; i < rows; ++i) column[i] -= along * other[i];
      }
    }
    const double after = std::sqrt(dot(column, column));
    const double inverse = after > 1e-6 * before && after > 1e-30 ? 1 / after : 0;
    for (std::size_t i = 0; i < rows; ++i) column[i] *= inverse;
  }
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < rank; ++j) matrix[i * rank + j] = static_cast<float>(columns[j * rows + i]);
  }
}

}  // namespace

void PowerSgdConfig::describe(ConfigVisitor& visitor) {
  visitor.field("rank", rank, "rank of the two factors of a matrix").at_least(1).at_most(1024);
  visitor.field("warm_start", warm_start, "start from the last round's factor");
  visitor.field("error_feedback", error_feedback, "remember the error and send it later");
}

Numbers PowerSgdFilter::encode(std::span<const float> values, Bytes& out, const FilterContext& context) const {
  const auto rank = static_cast<std::size_t>(config_.rank);
  const std::vector<MatrixShape> shapes = shapes_of(context.blocks, values.size());
  append_number(out, static_cast<std::uint32_t>(rank));
  append_number(out, static_cast<std::uint32_t>(shapes.size()));
  std::size_t count = 0, left_count = 0, right_count = 0;
  for (const MatrixShape& shape : shapes) {
    append_number(out, shape.rows);
    append_number(out, shape.columns);
    count += shape.count();
    left_count += shape.left(rank);
    if (shape.worth_it(rank)) right_count += shape.columns * rank;
  }
  check(count == values.size(), "the blocks of a vector cover it");

  const std::string name = context.place + "q";
  at::Tensor right;  // all Q, concatenated
  if (config_.warm_start && context.memory != nullptr) {
    const auto found = context.memory->find(name);
    if (found != context.memory->end() && found->second.scalar_type() == at::kFloat &&
        found->second.numel() == static_cast<std::int64_t>(right_count)) {
      right = found->second.cpu().contiguous().view(-1);
    }
  }
  if (!right.defined()) {
    right = at::empty({static_cast<std::int64_t>(right_count)}, at::kFloat);
    RandomStream stream(context.key);
    auto* numbers = right.data_ptr<float>();
    for (std::size_t i = 0; i < right_count; ++i) numbers[i] = static_cast<float>(stream.normal());
  }

  const auto r = static_cast<std::int64_t>(rank);
  const at::Tensor next = at::empty_like(right);
  Numbers kept(left_count);
  const float* in = values.data();
  float* to = kept.data();
  std::int64_t at_right = 0;
  for (const MatrixShape& shape : shapes) {
    if (!shape.worth_it(rank)) {
      if (shape.count() > 0) std::memcpy(to, in, shape.count() * sizeof(float));
    } else {
      const std::int64_t rows = shape.rows, columns = shape.columns;
      const at::Tensor matrix = matrix_view(in, rows, columns);
      at::Tensor p = matrix_view(to, rows, r), q = matrix_view(to + shape.rows * rank, columns, r);
      p.copy_(at::matmul(matrix, right.narrow(0, at_right, columns * r).view({columns, r})));
      orthogonalize(to, shape.rows, rank);
      q.copy_(at::matmul(matrix.t(), p));
      next.narrow(0, at_right, columns * r).copy_(q.view(-1));
      at_right += columns * r;
    }
    in += shape.count();
    to += shape.left(rank);
  }
  if (config_.warm_start && context.memory != nullptr) (*context.memory)[name] = next;
  return kept;
}

std::size_t PowerSgdFilter::left(std::span<const std::byte> bytes, std::size_t size) const {
  std::size_t total = 0;
  for (const MatrixShape& shape : read_shapes(bytes, size, config_.rank)) {
    total += shape.left(static_cast<std::size_t>(config_.rank));
  }
  return total;
}

Numbers PowerSgdFilter::decode(std::span<const std::byte> bytes, Numbers left, std::size_t size) const {
  const auto rank = static_cast<std::size_t>(config_.rank);
  Numbers values(size);
  const float* in = left.data();
  float* to = values.data();
  for (const MatrixShape& shape : read_shapes(bytes, size, config_.rank)) {
    if (!shape.worth_it(rank)) {
      if (shape.count() > 0) std::memcpy(to, in, shape.count() * sizeof(float));
    } else {
      const std::int64_t rows = shape.rows, columns = shape.columns;
      at::Tensor matrix = matrix_view(to, rows, columns);
      at::matmul_out(matrix, matrix_view(in, rows, config_.rank),
                     matrix_view(in + shape.rows * rank, columns, config_.rank).t());
    }
    in += shape.left(rank);
    to += shape.count();
  }
  return values;
}

namespace {

const Registration<Filters, PowerSgdConfig> kRegisteredPowerSgd{
    "power_sgd", "low-rank matrices by power iteration, with error feedback (Vogels et al. 2019)",
    [](const PowerSgdConfig& config) { return std::make_unique<PowerSgdFilter>(config); }};

}  // namespace
}  // namespace chorus::inline compression
