#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/model.h"
#include "application/tasks/encoded_dataset.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline tasks {

/// The rows that one client of a cohort uses in one step.
struct ClientRows {
  const EncodedDataset* data = nullptr;
  std::span<const std::uint32_t> rows;
  std::uint64_t client = 0;  ///< enters the random draws of masked LM
};

struct CollateOptions {
  std::uint64_t seed = 0;  ///< of the random draws (masked LM)
  std::uint64_t round = 0;
  std::uint64_t epoch = 0;
  at::Device device = at::kCPU;
};

/// The input and the labels of one step of a cohort.
struct TaskBatch {
  Batch batch;
  /// int64, kIgnore where there is no label: [C, B] classes; [C, T] tags or next tokens; [C, M] masked tokens; [C, Tt]
  /// target tokens.
  at::Tensor labels;
  at::Tensor scores;                    ///< [C, B] float; regression, 0 if there is none
  at::Tensor starts, ends;              ///< [C, B] int64; QA
  at::Tensor counted;                   ///< [C] int64: number of counted labels, over which a client's loss is the mean
  std::vector<at::Tensor> fields = {};  ///< other inputs of a task's loss
  /// The origin of the sequences: rows[c][b] of data[c].
  std::vector<const EncodedDataset*> data;
  std::vector<std::vector<std::uint32_t>> rows;
};

/// Calls on_tensor(tensor) for every tensor of a batch on the device, and on_packing(packing) for its packings: the one
/// list of what differs between two batches of the same shape. It names every member, so a new member does not compile
/// until it is listed here. Host memory (host_ids, host_types, data, rows) is left out. `batch` is a TaskBatch, const
/// or not.
template <typename AnyTaskBatch, typename OnTensor, typename OnPacking>
void visit_device_parts(AnyTaskBatch& batch, OnTensor on_tensor, OnPacking on_packing) {
  auto& [input, labels, scores, starts, ends, counted, fields, data, rows] = batch;
  auto& [packing, ids, types, host_ids, host_types, wanted, answers, bottom, bottom_layers, target_packing,
         target_ids] = input;
  for (auto* tensor :
       {&labels, &scores, &starts, &ends, &counted, &ids, &types, &wanted, &answers, &bottom, &target_ids}) {
    on_tensor(*tensor);
  }
  for (auto& field : fields) on_tensor(field);
  for (auto* each : {&packing, &target_packing}) on_packing(*each);
}

/// Which tokens of its rows a batch reads.
enum class Read {
  kAll,
  kButLast,  ///< without the last token, from which nothing is predicted; a row of one token keeps it
};

/// Packs the ids and token types of the rows; the task adds labels. Every client needs a row.
TaskBatch pack_rows(std::span<const ClientRows> cohort, at::Device device, Read read = Read::kAll);

/// One integer per token, packed like the tokens [C, T]; `values(data, row)` has as many as the batch reads of a row.
template <typename Values>
at::Tensor host_tokens(const TaskBatch& batch, std::int64_t tail, Values values) {
  const Packing& packing = *batch.batch.packing;
  at::Tensor result = torch::full({packing.clients(), packing.tokens()}, tail, at::kLong);
  auto* out = result.data_ptr<std::int64_t>();
  for (std::size_t c = 0; c < batch.rows.size(); ++c) {
    std::int64_t* next = out + static_cast<std::int64_t>(c) * packing.tokens();
    for (const std::uint32_t row : batch.rows[c]) {
      for (const auto value : values(*batch.data[c], row)) *next++ = value;
    }
  }
  return result;
}

/// The same, on the packing's device.
template <typename Values>
at::Tensor pack_tokens(const TaskBatch& batch, std::int64_t tail, Values values) {
  return sent_to(batch.batch.packing->positions().device(), host_tokens(batch, tail, values));
}

/// One value per sequence, [C, B]; `missing` for clients with fewer.
template <typename T, typename Value>
at::Tensor pack_sequences(const TaskBatch& batch, T missing, Value value) {
  const Packing& packing = *batch.batch.packing;
  at::Tensor result = torch::full({packing.clients(), packing.sequences()}, missing, at::CppTypeToScalarType<T>::value);
  auto* out = result.data_ptr<T>();
  for (std::size_t c = 0; c < batch.rows.size(); ++c) {
    T* next = out + static_cast<std::int64_t>(c) * packing.sequences();
    for (const std::uint32_t row : batch.rows[c]) *next++ = static_cast<T>(value(*batch.data[c], row));
  }
  return sent_to(packing.positions().device(), result);
}

/// Number of counted labels per client: [C].
at::Tensor count_labels(const at::Tensor& labels);

}  // namespace chorus::inline tasks
