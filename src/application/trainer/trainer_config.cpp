#include "application/trainer/trainer_config.h"

namespace chorus {

void TrainerConfig::describe(ConfigVisitor& visitor) {
  visitor.field("epochs", epochs, "passes over a client's data in a round").at_least(1);
  visitor.field("steps", steps, "so many optimiser steps a round instead of epochs").at_least(1);
  visitor.field("batch_size", batch_size, "rows of a batch").at_least(1);
  visitor.field("accumulate", accumulate, "batches whose gradients are averaged before a step").at_least(1);
  visitor.field("optimizer", optimizer, "what makes a step of a gradient");
  visitor.field("learning_rate", learning_rate, "the highest learning rate").above(0);
  visitor.field("schedule", schedule, "how the learning rate goes");
  visitor.field("clip", clip, "L2 norm a client's gradient may have; 0: any").at_least(0);
  visitor.field("weight_decay", weight_decay, "of the optimiser").at_least(0);
  visitor.field("decay_matrices_only", decay_matrices_only, "biases and normalisation weights do not decay");
  visitor.field("dropout", dropout, "as the model's configuration says; false: none");
  visitor.field(
      "precision", precision,
      {{"float32", Precision::kFloat32}, {"tf32", Precision::kTf32}, {"bfloat16", Precision::kBFloat16}},
      "of matmuls' factors; bfloat16: fastest on a GPU or a CPU that has it; tf32: GPU only, closer to float32");
  visitor.field("cache", cache, "reuse what frozen bottom layers compute (Cai et al. 2023, section 4)");
}

}  // namespace chorus
