#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "application/models/ops/layers.h"

namespace chorus::inline ops {

/// Small trainable parts that application/peft attaches to a frozen network. A layer of a network has a place for each;
/// an empty one (exists() == false) costs nothing. Like all operators they hold ids only.

/// A bottleneck beside a sub-layer (Houlsby et al., 2019; Pfeiffer et al., 2021), or a stack of them. With f the
/// sub-layer's output after dropout and x its residual input:
///
///     h_0 = f,   h_j = h_{j-1} + Up_j relu(Down_j s_j),   result h_k  (the caller adds x and normalises)
///
/// where s_j = LN(h_{j-1} + x), the layer's own norm (without the norm where layers are pre-norm), or
/// s_j = h_{j-1} for Houlsby's. With Up = 0 the result is f to the bit.
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

/// Keys and values that stand before every sequence (Li and Liang, 2021): [p, H] each.
struct Prefix {
  ParamId keys, values;
  bool exists() const { return keys.exists(); }
};

/// Where things can be attached to one layer of a network. The pointers live as long as the network.
struct LayerSlots {
  int layer = 0;                      ///< ParamSpec::layer
  std::string name = {};              ///< "bert.encoder.layer.3"
  std::int64_t width = 0;             ///< of the hidden states
  std::int64_t attention_width = 0;   ///< of keys and values
  std::vector<Linear*> linears = {};  ///< every product of the layer
  Adapter* after_attention = nullptr;
  Adapter* after_output = nullptr;
  Prefix* prefix = nullptr;
};

}  // namespace chorus::inline ops
