#pragma once

#include <torch/types.h>

namespace chorus::inline trainer {

/// Distance correlation of two samples of n vectors, x [n, p] and z [n, q] (Székely, Rizzo and Bakirov 2007): with the
/// doubly centred matrices of pairwise distances A and B,
///     dCor^2(x, z) = mean(A B) / sqrt(mean(A A) mean(B B))
/// 0 if they are independent (for n -> infinity), 1 if z is x moved, turned and scaled. Differentiable in both; returns
/// dCor^2, a scalar. Split learning lowers it between words and activations, so that activations say less about the
/// words (NoPeek, Vepakomma et al. 2020).
at::Tensor distance_correlation(const at::Tensor& x, const at::Tensor& z);

}  // namespace chorus::inline trainer
