#pragma once

namespace chorus::inline trainer {

/// Optional parts of local training. Each saves time or memory and changes results by rounding at most; a test switches
/// them off one at a time.
struct TrainerPieces {
  bool used_words = true;      ///< leave out rows of word tables that a client does not use (used_words.h)
  bool borrowed_start = true;  ///< the first step reads the start instead of a copy (value_store.h)
  bool recording = true;       ///< record passes on a GPU and launch them again (step_recorder.h)
  bool early_steps = true;     ///< run the optimizer during the backward pass on a GPU (early_step.h)
  bool read_ahead = true;      ///< on a GPU, read the next batch during the backward pass (batch_reader.h)
};

}  // namespace chorus::inline trainer
