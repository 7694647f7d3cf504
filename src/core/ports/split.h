#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/base/client_id.h"
#include "core/ports/message.h"

namespace chorus::inline ports {

/// Where a network is cut in two. The client has the embeddings and the first `layers` layers; the server has the rest.
/// With `labels_stay` (U-shaped) the client has the head and the loss, too, and the server only the layers in between.
struct SplitCut {
  int layers = 1;
  bool labels_stay = false;
};

/// Which elements of the flat trainable vector [P] each side trains; every element is in exactly one list.
struct SplitParts {
  at::Tensor client, server;  ///< int64, in the order of the side's own vector
  /// Elements of the client that the server reads, too (a word table that is also the head's). Their values and
  /// gradients travel with every batch.
  std::int64_t shared = 0;
  std::int64_t width = 0;  ///< H, elements per token that travel
  int client_layers = 0, server_layers = 0;
  double client_share = 0;  ///< of the network's parameters
};

/// Protection of the activations that leave a client.
struct SplitGuard {
  double noise = 0;        ///< standard deviation of Gaussian noise on every element
  double decorrelate = 0;  ///< weight of the distance correlation between words and activations in the loss
};

/// The client's side of split learning, for one client: local training of its part of the network, whose forward pass
/// ends, and whose backward pass begins, with a message. One batch is
///
///     client: forward -> activations      server: answer -> gradient      client: backward
///     client: forward -> activations      server: forward -> hidden       client: answer -> gradient of hidden
///                                         server: backward -> gradient    client: backward            (U-shaped)
///
/// Messages may come from a peer: DataError for one that does not fit. Not thread-safe.
class SplitClient {
 public:
  virtual ~SplitClient() = default;
  virtual std::int64_t steps() const = 0;  ///< optimizer steps of this round
  virtual bool done() const = 0;           ///< no batches are left
  virtual Message forward() = 0;
  virtual Message answer(const Message& hidden) = 0;
  virtual void backward(const Message& gradient) = 0;
  virtual at::Tensor values() const = 0;  ///< of SplitParts::client
  virtual double loss() const = 0;        ///< mean over the batches; 0 where the server computes it
  virtual double tokens() const = 0;      ///< whose activations were sent
  virtual double memory() const = 0;      ///< bytes for parameters, optimizer and the activations of the largest batch
};

/// The server's side, for one client after the other.
class SplitServer {
 public:
  virtual ~SplitServer() = default;
  /// Begins an optimizer and a learning-rate schedule of so many steps.
  virtual void begin(std::int64_t steps) = 0;
  virtual Message answer(ClientId client, const Message& activations) = 0;
  virtual Message forward(ClientId client, const Message& activations) = 0;
  virtual Message backward(const Message& gradient) = 0;
  virtual at::Tensor values() const = 0;  ///< of SplitParts::server
  virtual double last_loss() const = 0;   ///< of the last `answer`
  virtual double memory() const = 0;
};

/// What a server needs for split learning: its own part of the network.
class SplitDesk {
 public:
  virtual ~SplitDesk() = default;
  /// ConfigError for a network that cannot be cut there.
  virtual SplitParts parts(const SplitCut& cut) const = 0;
  /// From the values `start` of SplitParts::server.
  virtual std::unique_ptr<SplitServer> server(const SplitCut& cut, const at::Tensor& start,
                                              std::uint64_t round) const = 0;
};

}  // namespace chorus::inline ports
