#include "application/trainer/trainer_config.h"

namespace chorus::inline trainer {

void TrainerConfig::describe(ConfigVisitor& visitor) {
  visitor.field("epochs", epochs, "passes over a client's data per round").at_least(1);
  visitor.field("steps", steps, "optimizer steps per round instead of epochs").at_least(1);
  visitor.field("batch_size", batch_size, "rows per batch").at_least(1);
  visitor.field("accumulate", accumulate, "batches whose gradients are averaged before a step").at_least(1);
  visitor.field("optimizer", optimizer, "turns a gradient into a step");
  visitor.field("learning_rate", learning_rate, "the highest learning rate").above(0);
  visitor.field("schedule", schedule, "learning-rate schedule");
  visitor.field("clip", clip, "largest L2 norm of a client's gradient; 0: no limit").at_least(0);
  visitor.field("weight_decay", weight_decay, "weight decay of the optimizer").at_least(0);
  visitor.field("decay_matrices_only", decay_matrices_only, "biases and normalization weights do not decay");
  visitor.field("dropout", dropout, "dropout rates of the model's configuration; false: none");
  visitor.field(
      "precision", precision,
      {{"float32", Precision::kFloat32}, {"tf32", Precision::kTf32}, {"bfloat16", Precision::kBFloat16}},
      "of matmuls' factors; bfloat16: fastest on a GPU or a CPU that has it; tf32: GPU only, closer to float32");
  visitor.field("cache", cache, "cache the activations of frozen bottom layers (Cai et al. 2023, section 4)");
  visitor.field(
      "privacy", privacy,
      "differential privacy for every single example: clipped gradients and noise on the client (DP-SGD, Abadi "
      "et al. 2016)");
  visitor
      .field("label_epsilon", label_epsilon,
             "local differential privacy for labels: clients train on randomized responses; 0: on their labels")
      .at_least(0)
      .below(40);
}

}  // namespace chorus::inline trainer
