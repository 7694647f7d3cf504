#pragma once

#include <cstdint>

#include "application/tasks/task_batch.h"
#include "core/ports/message.h"

namespace chorus::inline trainer {

/// What travels between the two sides of a split network, beside activations and gradients:
///
///   lengths         int64 [B]        tokens of each sequence
///   labels, wanted, starts, ends     int64, as in TaskBatch and Batch, of one client; absent where there are none
///   scores          float [B]
///   target_lengths, target_ids       decoder input of an encoder-decoder
///
/// Token ids never travel, except those of a target, which is the label.

/// ConfigError for a task whose loss needs other inputs.
void write_split_batch(const TaskBatch& batch, bool labels, Message& message);

/// The batch of one client, with Batch::bottom = the activations [1, T, H], after `layers` layers. DataError for
/// anything that does not fit together: every length, shape and index is checked.
TaskBatch read_split_batch(const Message& message, const Model& model, int layers, bool labels, at::Device device);

/// A finite float32 tensor [T, H] of that name, as [1, T, H] on the device. DataError.
at::Tensor read_states(const Message& message, const char* name, std::int64_t tokens, std::int64_t width,
                       at::Device device);

/// DataError for labels that the output has no entries for.
void check_split_labels(const Output& output, const TaskBatch& batch, const Model& model);

}  // namespace chorus::inline trainer
