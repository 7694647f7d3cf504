#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "core/tensor/layout.h"
#include "core/tensor/params.h"

namespace chorus::inline ops {

/// The operators of every network, for a cohort: activations are [C, T, H]; a trainable parameter comes as [C, ...],
/// one slice per client; a frozen one as [...], shared by all, and costs no gradient. Each struct holds ids only; the
/// numbers come with the Params of the call.
///
///     Linear dense = Linear::add(layout, "classifier", 768, 5, Init::normal(0.02));
///     at::Tensor logits = dense(params, hidden);

/// What a low-rank update adds to a product (LoRA, Hu et al., 2021): scale * (x A^T) B^T, A [r, in], B [out, r].
struct LowRank {
  ParamId a, b;
  double scale = 0;
};

/// y = x W^T + b, plus a low-rank update where one is attached.
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
  /// Several of one shape, with weights side by side and biases side by side (Layout::join).
  static std::vector<Linear> add_joined(Layout& layout, const std::vector<std::string>& names, const Shape& shape,
                                        Init init);
  /// The same for a part that a plain checkpoint does not have; never transposed.
  static Linear attach(Layout& layout, const std::string& name, const Shape& shape, Init init);

  at::Tensor operator()(const Params& params, const at::Tensor& x) const;
  /// y - b: where what follows adds the bias.
  at::Tensor without_bias(const Params& params, const at::Tensor& x) const;

 private:
  at::Tensor with_update(const Params& params, const at::Tensor& x, const at::Tensor& y) const;
};

/// Rows of a table [V, H] by id [C, T]. The row `padding` gets no gradient from here, as in PyTorch.
struct Embedding {
  ParamId table;
  std::int64_t padding = -1;
  static Embedding add(Layout& layout, const std::string& name, std::int64_t rows, std::int64_t width, Init init);
  at::Tensor operator()(const Params& params, const at::Tensor& ids) const;
};

/// Layer normalisation over the last dimension; without bias and mean it is T5's root-mean-square norm.
struct Norm {
  ParamId weight, bias;
  double epsilon = 1e-12;
  static Norm add(Layout& layout, const std::string& name, std::int64_t width, double epsilon);
  static Norm add_rms(Layout& layout, const std::string& name, std::int64_t width, double epsilon);
  at::Tensor operator()(const Params& params, const at::Tensor& x) const;
};

/// x as products on a GPU see it: where they are computed in bfloat16, in it. For an x that several read, so that it is
/// converted once.
at::Tensor for_products(const Params& params, const at::Tensor& x);

/// x [C, T, H] times the transpose of an embedding table: the logits of a language model with tied weights.
at::Tensor project_to_table(const Params& params, ParamId table, const at::Tensor& x);

/// A parameter that multiplies or shifts [C, T, H]: [H] stays, [C, H] becomes [C, 1, H].
at::Tensor over_tokens(const Params& params, ParamId id);

/// The activation functions by Hugging Face's names ("gelu", "gelu_new", "relu", "tanh", "silu", ...).
enum class Activation { kGelu, kGeluTanh, kRelu, kTanh, kSilu };
Activation activation_named(const std::string& name);
at::Tensor activate(Activation activation, const at::Tensor& x);
/// activate(activation, linear(params, x)), in fewer passes where there is a kernel for it.
at::Tensor activate(Activation activation, const Params& params, const Linear& linear, const at::Tensor& x);
/// x times the normal distribution's share below x, or its approximation by a hyperbolic tangent.
at::Tensor gelu(const at::Tensor& x, bool by_tanh);

}  // namespace chorus::inline ops
