#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "core/tensor/layout.h"
#include "core/tensor/params.h"

namespace chorus::inline ops {

/// The operators of every network, for a cohort. Activations are [C, T, H]. A trainable parameter is [C, ...], one
/// slice per client; a frozen one is [...], shared by all, without a gradient. Each struct holds only ids; the values
/// come with the Params of the call.
///
///     Linear dense = Linear::add(layout, "classifier", 768, 5, Init::normal(0.02));
///     at::Tensor logits = dense(params, hidden);

/// The low-rank update of a linear layer (LoRA, Hu et al., 2021): scale * (x A^T) B^T, A [r, in], B [out, r].
struct LowRank {
  ParamId a, b;
  double scale = 0;
};

/// y = x W^T + b, plus a low-rank update if one is attached.
struct Linear {
  ParamId weight, bias;
  bool transposed = false;  ///< the weight is stored [in, out], as in GPT-2
  LowRank update = {};

  struct Shape {
    std::int64_t in, out;
    bool with_bias = true;
    bool transposed = false;
  };
  /// Adds `name`.weight [out, in] and `name`.bias [out].
  static Linear add(Layout& layout, const std::string& name, const Shape& shape, Init init);
  /// Several of one shape, with adjacent weights and adjacent biases (Layout::join).
  static std::vector<Linear> add_joined(Layout& layout, const std::vector<std::string>& names, const Shape& shape,
                                        Init init);
  /// The same for a module that is not in the plain checkpoint; never transposed.
  static Linear attach(Layout& layout, const std::string& name, const Shape& shape, Init init);

  at::Tensor operator()(const Params& params, const at::Tensor& x) const;
  /// y - b, if the next operator adds the bias.
  at::Tensor without_bias(const Params& params, const at::Tensor& x) const;

 private:
  at::Tensor with_update(const Params& params, const at::Tensor& x, const at::Tensor& y) const;
};

/// Rows of a table [V, H] by id [C, T]. Row `padding` gets no gradient here, as in PyTorch.
struct Embedding {
  ParamId table;
  std::int64_t padding = -1;
  static Embedding add(Layout& layout, const std::string& name, std::int64_t rows, std::int64_t width, Init init);
  at::Tensor operator()(const Params& params, const at::Tensor& ids) const;
};

/// Layer normalisation over the last dimension; without bias and mean it is T5's RMS norm.
struct Norm {
  ParamId weight, bias;
  double epsilon = 1e-12;
  static Norm add(Layout& layout, const std::string& name, std::int64_t width, double epsilon);
  static Norm add_rms(Layout& layout, const std::string& name, std::int64_t width, double epsilon);
  at::Tensor operator()(const Params& params, const at::Tensor& x) const;
};

/// x in the type of a GPU's matmuls (bfloat16 in mixed precision). For an x that several matmuls read, so that it is
/// converted once.
at::Tensor for_matmuls(const Params& params, const at::Tensor& x);

/// x [C, T, H] times the transposed embedding table: the logits of a language model with tied weights.
at::Tensor project_to_table(const Params& params, ParamId table, const at::Tensor& x);

/// A parameter that multiplies or shifts [C, T, H]: [H] stays, [C, H] becomes [C, 1, H].
at::Tensor over_tokens(const Params& params, ParamId id);

/// The activation functions by Hugging Face's names ("gelu", "gelu_new", "relu", "tanh", "silu", ...).
enum class Activation { kGelu, kGeluTanh, kRelu, kTanh, kSilu };
Activation activation_named(const std::string& name);
at::Tensor activate(Activation activation, const at::Tensor& x);
/// activate(activation, linear(params, x)), fused if there is a kernel for it.
at::Tensor activate(Activation activation, const Params& params, const Linear& linear, const at::Tensor& x);
/// GELU: x Φ(x), or its tanh approximation.
at::Tensor gelu(const at::Tensor& x, bool by_tanh);

}  // namespace chorus::inline ops
