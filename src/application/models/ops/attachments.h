#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "application/models/ops/layers.h"

namespace chorus::inline ops {

/// Small trainable modules that application/peft attaches to a frozen network. Each layer has a slot for each; an empty
/// one (exists() == false) costs nothing. Like all operators they hold only ids.

/// A bottleneck beside a sub-layer (Houlsby et al., 2019; Pfeiffer et al., 2021), or a stack of them. With f the
/// sub-layer's output after dropout and x its residual input:
///
///     h_0 = f,   h_j = h_{j-1} + Up_j relu(Down_j s_j),   result h_k  (the caller adds x and normalises)
///
/// where s_j = LN(h_{j-1} + x), using the layer's own norm (no norm in pre-norm layers), or s_j = h_{j-1} for
/// Houlsby's. With Up = 0 the result is bit-identical to f.
struct Adapter {
  struct Unit {
    Linear down, up;
  };
  std::vector<Unit> units = {};
  bool sees_residual = true;

  bool exists() const { return !units.empty(); }
  /// `norm`: of a post-norm layer, else null.
  at::Tensor operator()(const Params& params, const at::Tensor& f, const at::Tensor& x, const Norm* norm) const;
};

/// Keys and values prepended to every sequence (Li and Liang, 2021): [p, H] each.
struct Prefix {
  ParamId keys, values;
  bool exists() const { return keys.exists(); }
};

/// Where modules can be attached to one layer of a network. The pointers live as long as the network.
struct LayerSlots {
  int layer = 0;                      ///< ParamSpec::layer
  std::string name = {};              ///< "bert.encoder.layer.3"
  std::int64_t width = 0;             ///< of the hidden states
  std::int64_t attention_width = 0;   ///< of keys and values
  std::vector<Linear*> linears = {};  ///< every matmul of the layer
  Adapter* after_attention = nullptr;
  Adapter* after_output = nullptr;
  Prefix* prefix = nullptr;
};

}  // namespace chorus::inline ops
