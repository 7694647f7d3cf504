#include "algorithm/secure_mean/rare_rows.h"

#include <ATen/ATen.h>

#include "core/base/error.h"

namespace chorus::inline secure_mean {

std::vector<RowTable> word_tables(const Layout& layout) {
  std::vector<RowTable> tables;
  for (const ParamSpec& param : layout.specs()) {
    if (!param.trainable || param.attached || param.layer != kEmbeddingLayer || param.shape.size() != 2) continue;
    tables.push_back({param.offset, param.shape[0], param.shape[1]});
  }
  return tables;
}

std::size_t rows_of(const std::vector<RowTable>& tables) {
  std::size_t rows = 0;
  for (const RowTable& table : tables) rows += static_cast<std::size_t>(table.rows);
  return rows;
}

RingVector touched_rows(const at::Tensor& update, const std::vector<RowTable>& tables, unsigned ring_bits) {
  RingVector flags(ring_bits, rows_of(tables));
  std::size_t next = 0;
  for (const RowTable& table : tables) {
    const at::Tensor rows = update.narrow(0, table.begin, table.rows * table.width).view({table.rows, table.width});
    const at::Tensor touched = rows.ne(0).any(1).to(at::kCPU, at::kByte).contiguous();
    for (std::int64_t i = 0; i < table.rows; ++i) flags.set(next++, touched.data_ptr<std::uint8_t>()[i]);
  }
  return flags;
}

at::Tensor without_rows(const at::Tensor& update, const std::vector<RowTable>& tables, ByteView allowed) {
  check(allowed.size() == rows_of(tables), "one byte for each row");
  at::Tensor result = update.clone();
  std::int64_t next = 0;
  for (const RowTable& table : tables) {
    at::Tensor keep = at::empty({table.rows, 1}, at::kFloat);
    for (std::int64_t i = 0; i < table.rows; ++i) {
      keep.data_ptr<float>()[i] = allowed[static_cast<std::size_t>(next++)] == std::byte{0} ? 0.0F : 1.0F;
    }
    result.narrow(0, table.begin, table.rows * table.width)
        .view({table.rows, table.width})
        .mul_(keep.to(result.device()));
  }
  return result;
}

}  // namespace chorus::inline secure_mean
