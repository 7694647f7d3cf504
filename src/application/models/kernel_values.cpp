#include "application/models/kernel_values.h"

#include "application/models/ops/norm_gpu.h"

namespace chorus::inline models {
namespace {

std::int64_t first_of(const ModelConfig& config, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (config.has(key)) return config.integer(key);
  }
  return 0;
}

std::string activation_of(const ModelConfig& config) {
  for (const char* key : {"hidden_act", "activation", "activation_function"}) {
    if (config.has(key)) return config.text(key, "");
  }
  return config.model_type() == "gpt2" ? "gelu_new" : "gelu";
}

}  // namespace

KernelValues kernel_values(const ModelConfig& config, KernelPrecision precision) {
  KernelValues values;
  const bool mixed = precision == KernelPrecision::kBFloat16;
  // The variants of one type are launched most, so they come first.
  const std::vector<std::string> elements =
      mixed ? std::vector<std::string>{"bf16", "float"} : std::vector<std::string>{"float"};
  for (const char* name : {"ELEMENT", "F_ELEMENT", "X_ELEMENT", "Y_ELEMENT"}) values[name] = elements;
  const std::int64_t width = first_of(config, {"hidden_size", "dim", "d_model", "n_embd"});
  const std::int64_t heads =
      first_of(config, {"num_attention_heads", "n_heads", "encoder_attention_heads", "n_head", "num_heads"});
  const std::int64_t head_size = config.has("d_kv") ? config.integer("d_kv") : heads > 0 ? width / heads : 0;
  // We have bfloat16 and TF32 attention kernels for these sizes.
  if (precision != KernelPrecision::kFloat32 &&
      (head_size == 16 || head_size == 32 || head_size == 48 || head_size == 64))
    values["D"] = {std::to_string(head_size)};
  if (width > 0 && width <= kWidestNorm) values["G"] = {std::to_string(norm_gpu_groups(width))};
  const std::string activation = activation_of(config);
  const bool by_tanh = activation != "gelu" && activation != "gelu_python" && activation.starts_with("gelu");
  values["BY_TANH"] = {by_tanh ? "1" : "0"};
  return values;
}

}  // namespace chorus::inline models
