#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace chorus::inline ops {

/// What hidden scores become before a softmax: as good as minus infinity, and a number in bfloat16, too.
inline constexpr double kHiddenScore = -1e30;

/// Where each sequence of each client lies among the packed tokens of a cohort's batch.
///
/// Tokens are laid end to end: client c holds its sequences one after the other in row c of a [C, T] matrix, T being
/// the longest row; the rest of a shorter row (the tail) belongs to no sequence. No operator but attention and pooling
/// looks at a Packing, and no arithmetic is spent on padding anywhere else.
///
///     Packing packing({{3, 5}, {7}});        // client 0: two sequences, client 1: one
///     packing.tokens() == 8; packing.longest() == 7; packing.total_sequences() == 3
///
/// Immutable and cheap to share (tensor handles).
class Packing {
 public:
  /// lengths[c][b] is the number of tokens of sequence b of client c, at least 1; every client has a sequence.
  explicit Packing(const std::vector<std::vector<std::int64_t>>& lengths, at::Device device = at::kCPU);

  /// The same packing where nobody may attend to the tokens with visible [C, T] = false (bool). For inputs that come
  /// padded and masked, as Hugging Face's do.
  Packing with_visible(const at::Tensor& visible) const;

  /// The same in memory of its own, whose numbers `take` can replace. It has no lengths(): those of this machine's
  /// memory would not follow.
  Packing held() const;
  /// What distinguishes packings between which `take` can go.
  std::vector<std::int64_t> shape() const;
  void take(const Packing& other);

  std::int64_t clients() const { return clients_; }
  std::int64_t tokens() const { return tokens_; }          ///< T
  std::int64_t sequences() const { return sequences_; }    ///< B: the most sequences a client has
  std::int64_t total_sequences() const { return total_; }  ///< N: all sequences of all clients
  std::int64_t longest() const { return longest_; }        ///< L: the longest sequence, or a little more on a GPU
  const std::vector<std::vector<std::int64_t>>& lengths() const;

  const at::Tensor& positions() const { return positions_; }  ///< [C, T] place of a token in its sequence, from 0
  const at::Tensor& owner() const { return owner_; }  ///< [C, T] which of its client's sequences a token belongs to
  const at::Tensor& token_valid() const { return token_valid_; }        ///< [C, T] bool, false in the tail
  const at::Tensor& first_token() const { return first_; }              ///< [C, B] column of the first token; 0 if none
  const at::Tensor& last_token() const { return last_; }                ///< [C, B] column of the last token; 0 if none
  const at::Tensor& sequence_valid() const { return sequence_valid_; }  ///< [C, B] bool
  const at::Tensor& client_of() const { return client_of_; }            ///< [N] which client
  const at::Tensor& sequence_of() const { return sequence_of_; }        ///< [N] which of the client's sequences
  const at::Tensor& length_of() const { return length_of_; }            ///< [N] tokens
  const at::Tensor& attendable() const { return attendable_; }          ///< [N, L] bool: real and visible
  const at::Tensor& visible() const { return visible_; }  ///< [C, T] bool, or undefined when every token is

  /// Of each sequence its client, its number there, the row of its first query and of its first key among all C * T,
  /// and how many there are of each; and all sequences, those with most keys first: [7, N].
  static at::Tensor places(const Packing& queries, const Packing& keys);

  /// [C, T, ...] -> [N, L, ...]; what stands in the places beyond a sequence's end is arbitrary but finite.
  at::Tensor unpack(const at::Tensor& packed) const;
  /// [N, L, ...] -> [C, T, ...]; the inverse. The tail is arbitrary but finite.
  at::Tensor pack(const at::Tensor& padded) const;
  /// [C, T, ...] -> [C, B, ...]: the rows named by `columns` [C, B] (first_token(), last_token()).
  static at::Tensor pick(const at::Tensor& packed, const at::Tensor& columns);

 private:
  using Pieces = std::vector<std::pair<at::Tensor*, std::vector<std::int64_t>>>;
  Pieces numbers();
  Pieces flags();
  void cut_all();

  std::int64_t clients_ = 0, tokens_ = 0, sequences_ = 0, total_ = 0, longest_ = 0;
  bool dense_ = false;          // every row full and every sequence equally long: unpack is a view
  at::Tensor numbers_, flags_;  // what the tensors below are views of, but for visible_
  std::vector<std::vector<std::int64_t>> lengths_;
  at::Tensor positions_, owner_, token_valid_, first_, last_, sequence_valid_, client_of_, sequence_of_, length_of_,
      attendable_, visible_;
  at::Tensor places_;    // [7, N]
  at::Tensor token_at_;  // [N * L] index into C * T
  at::Tensor slot_of_;   // [C * T] index into N * L
};

}  // namespace chorus::inline ops
