#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "application/models/ops/packing.h"
#include "application/models/ops/row_kernels.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace chorus {

/// The random part of a forward pass. Each client has a stream of its own, and an element is dropped or kept by a hash
/// of (client's seed, number of the call, place of the element): the same client drops the same elements whether it
/// trains alone or in a cohort, padded or not, on a CPU or a GPU.
///
///     Dropout off;                                  // evaluation
///     Dropout on({seed_of_client_0, seed_of_client_1});
///     x = on.hidden(x, 0.1);
///
/// One object serves one forward pass; it counts its calls, so that each site of the network has its own mask.
class Dropout {
 public:
  Dropout() = default;
  explicit Dropout(std::vector<std::uint64_t> client_seeds) : seeds_(std::move(client_seeds)) {}

  /// Of seeds that lie on a GPU already, [C] int64: for kernels there alone.
  static Dropout on_gpu(const at::Tensor& seeds);

  /// To where masks will be made; otherwise that happens when the first is asked for.
  void send(at::Device device);

  bool active() const { return !seeds_.empty(); }
  /// The seeds where they were sent to; else undefined.
  const at::Tensor& seeds_there() const { return seeds_there_; }

  /// One site of the network, for kernels that make its masks themselves.
  struct Site {
    std::vector<std::uint64_t> keys;  ///< one a client; empty: nothing is dropped
    std::uint64_t threshold = 0;
    float scale = 1;
    // On a GPU keys are made by the kernels: mix(seed of the client, number of the call).
    std::uint64_t call = 0;
    at::Tensor seeds = {};  ///< [C] int64 there

    MaskRow row(std::size_t client, std::uint64_t start) const {
      return keys.empty() ? MaskRow{} : MaskRow{keys[client], start, threshold, scale};
    }
    /// Where row r of a client, such as `hidden` has, starts; and row q of head h of its sequence s, as in `weights`.
    static std::uint64_t hidden_start(std::int64_t r, std::int64_t width) {
      return static_cast<std::uint64_t>(r * ((width + 3) / 4 * 4));
    }
    static std::uint64_t weights_start(std::int64_t s, std::int64_t heads, std::int64_t h, std::int64_t q) {
      return static_cast<std::uint64_t>(((s * heads + h) * kLongest + q) * kLongest);
    }
    /// From a forward pass to its backward pass.
    void save(torch::autograd::AutogradContext& context) const;
    static Site saved(torch::autograd::AutogradContext& context);
  };
  /// The next site, for kernels on `device`. `hidden` and `weights` each are one, too.
  Site site(double probability, at::Device device);

  /// x [C, rows, width]: row r of a client is its token (or sequence) r.
  at::Tensor hidden(const at::Tensor& x, double probability);
  /// Attention weights [N, heads, queries, keys] of the sequences of `packing`.
  at::Tensor weights(const at::Tensor& x, double probability, const Packing& packing);

 private:
  // Strides that no sequence outgrows, so that a mask does not depend on how the batch is padded.
  static constexpr std::int64_t kLongest = 1 << 16;

  at::Tensor apply(const at::Tensor& x, const Site& site, const at::Tensor& row_clients, const at::Tensor& row_starts);

  std::vector<std::uint64_t> seeds_;
  bool known_here_ = true;  // or on the GPU only
  at::Tensor seeds_there_;  // on the GPU, once asked for
  std::uint64_t calls_ = 0;
};

/// Masks with tensor operations only, for devices that have no kernel of ours and to test the kernels: [rows, width]
/// floats, 0 where dropped and 1/(1-p) where kept; p is rounded to 1/65536. Element j of a row is decided by 16 bits of
/// hash(row key, row start + j). `row_keys`, `row_starts` are int64 [rows].
at::Tensor keep_mask(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width,
                     const Dropout::Site& site);

}  // namespace chorus
