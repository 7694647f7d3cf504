#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "application/models/ops/packing.h"
#include "application/models/ops/row_kernels.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace chorus::inline ops {

/// The random part of a forward pass. Each client has its own stream, and a hash of (client's seed, number of the call,
/// index of the element) decides whether an element is dropped: a client drops the same elements whether it trains
/// alone or in a cohort, padded or not, on a CPU or a GPU.
///
///     Dropout off;                                  // evaluation
///     Dropout on({seed_of_client_0, seed_of_client_1});
///     x = on.hidden(x, 0.1);
///
/// One object serves one forward pass. It counts its calls, so that each site of the network has its own mask.
class Dropout {
 public:
  Dropout() = default;
  explicit Dropout(std::vector<std::uint64_t> client_seeds) : seeds_(std::move(client_seeds)) {}

  /// From seeds [C] int64 on a GPU; works with GPU kernels only.
  static Dropout on_gpu(const at::Tensor& seeds);

  /// Copies the seeds to the device of the masks; otherwise the first mask does.
  void send(at::Device device);

  bool active() const { return !seeds_.empty(); }
  /// The calls so far. Another object with the same seeds that continues from them draws the same masks.
  std::uint64_t calls() const { return calls_; }
  void continue_from(std::uint64_t calls) { calls_ = calls; }
  /// The seeds on the device they were sent to, or undefined.
  const at::Tensor& device_seeds() const { return device_seeds_; }

  /// One site of the network, for kernels that compute its masks themselves.
  struct Site {
    std::vector<std::uint64_t> keys;  ///< one per client; empty: nothing is dropped
    std::uint64_t threshold = 0;
    float scale = 1;
    // GPU kernels compute the keys: mix(seed of the client, number of the call).
    std::uint64_t call = 0;
    at::Tensor seeds = {};  ///< [C] int64, on the GPU
    at::Tensor rows = {};   ///< of `pick`

    MaskRow row(std::size_t client, std::uint64_t start) const {
      return keys.empty() ? MaskRow{} : MaskRow{keys[client], start, threshold, scale};
    }
    /// The mask of row r of a client (`hidden`), on a CPU.
    MaskRow hidden_row(std::size_t client, std::int64_t r, std::int64_t width) const {
      const std::int64_t token =
          rows.defined() ? rows.data_ptr<std::int64_t>()[static_cast<std::int64_t>(client) * rows.size(1) + r] : r;
      return row(client, static_cast<std::uint64_t>(token * ((width + 3) / 4 * 4)));
    }
    /// Where the masks of query q, head h, sequence s start (`weights`).
    static std::uint64_t weights_start(std::int64_t s, std::int64_t heads, std::int64_t h, std::int64_t q) {
      return static_cast<std::uint64_t>(((s * heads + h) * kLongest + q) * kLongest);
    }
    /// Saves it for the backward pass.
    void save(torch::autograd::AutogradContext& context) const;
    static Site saved(torch::autograd::AutogradContext& context);
  };
  /// The next site, for kernels on `device`. A call of `hidden` or `weights` is a site, too.
  Site site(double probability, at::Device device);

  /// From here on `hidden` and its kernels see picked rows: row b of client c is its token rows[c, b], int64 [C, B] on
  /// the device of the masks, and has that token's mask. Undefined: all tokens again.
  void pick(const at::Tensor& rows) { rows_ = rows.defined() ? rows.contiguous() : rows; }

  /// x [C, rows, width]: row r of a client is its token (or sequence) r.
  at::Tensor hidden(const at::Tensor& x, double probability);
  /// Attention weights [N, heads, queries, keys] of the sequences of `packing`.
  at::Tensor weights(const at::Tensor& x, double probability, const Packing& packing);

 private:
  // Longer than any sequence, so that a mask does not depend on padding.
  static constexpr std::int64_t kLongest = 1 << 16;

  at::Tensor apply(const at::Tensor& x, const Site& site, const at::Tensor& row_clients, const at::Tensor& row_starts);

  std::vector<std::uint64_t> seeds_;
  bool seeds_on_host_ = true;  // false: only the GPU has the seeds
  at::Tensor device_seeds_;    // on the GPU, once sent
  at::Tensor rows_;
  std::uint64_t calls_ = 0;
};

/// Reference masks by tensor operations, for any device: [rows, width] floats, 0 if dropped and 1/(1-p) if kept; p is
/// rounded to 1/65536. 16 bits of hash(row key, row start + j) decide element j of a row. `row_keys`, `row_starts` are
/// int64 [rows].
at::Tensor keep_mask(const at::Tensor& row_keys, const at::Tensor& row_starts, std::int64_t width,
                     const Dropout::Site& site);

}  // namespace chorus::inline ops
