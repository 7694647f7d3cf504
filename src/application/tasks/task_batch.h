#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "application/models/model.h"
#include "application/tasks/encoded_dataset.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline tasks {

/// The rows one client of a cohort uses in one step, and whose they are.
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

/// What a cohort reads in one step, and what it should answer.
struct TaskBatch {
  Batch batch;
  /// int64, kIgnore where nothing is asked: [C, B] classes; [C, T] tags or next tokens; [C, M] masked tokens; [C, Tt]
  /// target tokens.
  at::Tensor labels;
  at::Tensor scores;                    ///< [C, B] float; regression, 0 where there is none
  at::Tensor starts, ends;              ///< [C, B] int64; QA
  at::Tensor counted;                   ///< [C] int64: how many answers each client's loss is the mean of
  std::vector<at::Tensor> fields = {};  ///< whatever else a task's own loss reads
  /// Where the sequences come from: rows[c][b] of data[c].
  std::vector<const EncodedDataset*> data;
  std::vector<std::vector<std::uint32_t>> rows;
};

/// Calls on_tensor(tensor) for every tensor of a batch that lies on the device, and on_packing(packing) for its
/// packings: the one list of what distinguishes two batches of the same shape. It names every member, so a new one does
/// not compile before it has a place here. What lies in this machine's memory (ids_here, types_here, data, rows) is
/// left out. `batch` is a TaskBatch, const or not.
template <typename AnyTaskBatch, typename OnTensor, typename OnPacking>
void visit_device_parts(AnyTaskBatch& batch, OnTensor on_tensor, OnPacking on_packing) {
  auto& [input, labels, scores, starts, ends, counted, fields, data, rows] = batch;
  auto& [packing, ids, types, ids_here, types_here, wanted, answers, bottom, bottom_layers, target_packing,
         target_ids] = input;
  for (auto* tensor :
       {&labels, &scores, &starts, &ends, &counted, &ids, &types, &wanted, &answers, &bottom, &target_ids}) {
    on_tensor(*tensor);
  }
  for (auto& field : fields) on_tensor(field);
  for (auto* each : {&packing, &target_packing}) on_packing(*each);
}

/// What of its rows' tokens a batch reads.
enum class Read {
  kAll,
  kButLast,  ///< no last token, which nothing is predicted from; a row of one token keeps it
};

/// Packs the ids and token types of the rows; labels are for the task to add. Every client needs a row.
TaskBatch pack_rows(std::span<const ClientRows> cohort, at::Device device, Read read = Read::kAll);

/// Tokens' numbers laid out like the packed tokens [C, T]; `values(data, row)` are as many as it reads of a row.
template <typename Values>
at::Tensor tokens_here(const TaskBatch& batch, std::int64_t tail, Values values) {
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

/// The same where the packing lies.
template <typename Values>
at::Tensor pack_tokens(const TaskBatch& batch, std::int64_t tail, Values values) {
  return sent_to(batch.batch.packing->positions().device(), tokens_here(batch, tail, values));
}

/// One number a sequence, [C, B]; `missing` where a client has fewer.
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

/// How many labels of each client count: [C].
at::Tensor count_labels(const at::Tensor& labels);

}  // namespace chorus::inline tasks
