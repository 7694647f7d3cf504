#include "application/tasks/task_batch.h"

#include "application/models/loss.h"
#include "core/base/error.h"

namespace chorus::inline tasks {

TaskBatch pack_rows(std::span<const ClientRows> cohort, at::Device device, Read read) {
  const auto tokens_read = [read](const EncodedDataset& data, std::uint32_t row) {
    const std::size_t all = data.length(row);
    return read == Read::kButLast && all > 1 ? all - 1 : all;
  };
  TaskBatch result;
  std::vector<std::vector<std::int64_t>> lengths;
  bool types = false;
  for (const ClientRows& client : cohort) {
    check(client.data != nullptr && !client.rows.empty(), "every client of a cohort needs a row");
    auto& list = lengths.emplace_back();
    for (const std::uint32_t row : client.rows) {
      check(row < client.data->rows(), "no such row");
      list.push_back(static_cast<std::int64_t>(tokens_read(*client.data, row)));
    }
    types = types || client.data->has_types();
    result.data.push_back(client.data);
    result.rows.emplace_back(client.rows.begin(), client.rows.end());
  }
  result.batch.packing = std::make_shared<Packing>(lengths, device);
  Batch& batch = result.batch;
  batch.host_ids = host_tokens(result, 0, [&](const EncodedDataset& data, std::uint32_t row) {
    return data.ids(row).first(tokens_read(data, row));
  });
  batch.ids = sent_to(device, batch.host_ids);
  if (types) {
    batch.host_types = host_tokens(result, 0, [&](const EncodedDataset& data, std::uint32_t row) {
      check(data.has_types(), "some clients have token types and others do not");
      return data.types(row).first(tokens_read(data, row));
    });
    batch.types = sent_to(device, batch.host_types);
  }
  return result;
}

at::Tensor count_labels(const at::Tensor& labels) { return labels.ne(kIgnore).sum(1); }

}  // namespace chorus::inline tasks
