#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace chorus::inline ops {

/// The value of hidden scores before a softmax: practically minus infinity, but finite in bfloat16, too.
inline constexpr double kHiddenScore = -1e30;

/// Where each client's sequences are among the packed tokens of a cohort's batch.
///
/// Tokens are concatenated: client c holds its sequences one after the other in row c of a [C, T] matrix, T being the
/// longest row. The rest of a shorter row (the tail) belongs to no sequence. Only attention and pooling use a Packing,
/// and nothing else computes on padding.
///
///     Packing packing({{3, 5}, {7}});        // client 0: two sequences, client 1: one
///     packing.tokens() == 8; packing.longest() == 7; packing.total_sequences() == 3
///
/// Immutable and cheap to share (tensor handles).
class Packing {
 public:
  /// lengths[c][b] is the number of tokens of sequence b of client c, at least 1; every client has a sequence.
  explicit Packing(const std::vector<std::vector<std::int64_t>>& lengths, at::Device device = at::kCPU);

  /// The same packing, but no token attends to tokens with visible [C, T] = false (bool). For padded and masked inputs,
  /// such as Hugging Face's.
  Packing with_visible(const at::Tensor& visible) const;

  /// A copy in its own memory, whose contents `take` can replace. It has no lengths(), because those would not be
  /// updated.
  Packing held() const;
  /// `take` works between packings with equal shapes.
  std::vector<std::int64_t> shape() const;
  void take(const Packing& other);

  std::int64_t clients() const { return clients_; }
  std::int64_t tokens() const { return tokens_; }          ///< T
  std::int64_t sequences() const { return sequences_; }    ///< B: maximum number of sequences per client
  std::int64_t total_sequences() const { return total_; }  ///< N: all sequences of all clients
  std::int64_t longest() const { return longest_; }        ///< L: the longest sequence, or a little more on a GPU
  const std::vector<std::vector<std::int64_t>>& lengths() const;

  const at::Tensor& positions() const { return positions_; }      ///< [C, T] index of a token in its sequence, from 0
  const at::Tensor& owner() const { return owner_; }              ///< [C, T] index of a token's sequence in its client
  const at::Tensor& token_valid() const { return token_valid_; }  ///< [C, T] bool, false in the tail
  const at::Tensor& first_token() const { return first_; }        ///< [C, B] column of the first token; 0 if none
  const at::Tensor& last_token() const { return last_; }          ///< [C, B] column of the last token; 0 if none
  const at::Tensor& sequence_valid() const { return sequence_valid_; }  ///< [C, B] bool
  const at::Tensor& client_of() const { return client_of_; }            ///< [N] client
  const at::Tensor& sequence_of() const { return sequence_of_; }        ///< [N] index in its client
  const at::Tensor& length_of() const { return length_of_; }            ///< [N] tokens
  const at::Tensor& attendable() const { return attendable_; }          ///< [N, L] bool: real and visible
  const at::Tensor& visible() const { return visible_; }                ///< [C, T] bool; undefined: all are visible

  /// For each sequence its client, its index there, the row of its first query and of its first key among all C * T,
  /// and their counts; and all sequences, those with most keys first: [7, N].
  static at::Tensor places(const Packing& queries, const Packing& keys);

  /// [C, T, ...] -> [N, L, ...]; elements past a sequence's end are arbitrary but finite.
  at::Tensor unpack(const at::Tensor& packed) const;
  /// [N, L, ...] -> [C, T, ...]; the inverse. The tail is arbitrary but finite.
  at::Tensor pack(const at::Tensor& padded) const;
  /// [C, T, ...] -> [C, B, ...]: the rows at `columns` [C, B] (first_token(), last_token()).
  static at::Tensor pick(const at::Tensor& packed, const at::Tensor& columns);

 private:
  using Pieces = std::vector<std::pair<at::Tensor*, std::vector<std::int64_t>>>;
  Pieces numbers();
  Pieces flags();
  void cut_all();

  std::int64_t clients_ = 0, tokens_ = 0, sequences_ = 0, total_ = 0, longest_ = 0;
  bool dense_ = false;          // all rows full and all sequences equally long: unpack is a view
  at::Tensor numbers_, flags_;  // the tensors below are views of these, except visible_
  std::vector<std::vector<std::int64_t>> lengths_;
  at::Tensor positions_, owner_, token_valid_, first_, last_, sequence_valid_, client_of_, sequence_of_, length_of_,
      attendable_, visible_;
  at::Tensor places_;    // [7, N]
  at::Tensor token_at_;  // [N * L] index into C * T
  at::Tensor slot_of_;   // [C * T] index into N * L
};

}  // namespace chorus::inline ops
