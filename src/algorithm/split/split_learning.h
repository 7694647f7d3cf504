#pragma once

#include <span>
#include <vector>

#include "algorithm/federated/collect.h"
#include "core/ports/algorithm.h"

namespace chorus::inline split {

/// Where the network is cut, and how activations are protected.
struct SplitConfig {
  enum class Labels { kServer, kClient };
  std::int64_t layers = 1;          ///< k: layers at the client, after the embeddings
  Labels labels = Labels::kServer;  ///< who has the head and the labels; client: U-shaped
  double noise = 0;                 ///< standard deviation of Gaussian noise on activations
  double decorrelate = 0;           ///< weight of the distance correlation of words and activations in the loss

  void describe(ConfigVisitor& visitor);
};

/// Split learning: the first k layers of the network w = (c, s) are trained at the clients and the rest at the server
/// (Gupta and Raskar 2018). For every batch of a client, within the round's session,
///
///     a = f_c(x)                       travels up, tokens x width elements (and the labels)
///     L(f_s(a), y), dL/ds, dL/da       at the server, which makes a step; dL/da travels down, as many elements
///     dL/dc = (da/dc)^T dL/da          at the client, which makes a step
///
/// U-shaped (`labels: client`): the head is at the client, too. f_s(a) travels down and its gradient up, and labels
/// stay with the client.
///
/// Activations and gradients pass through filters like any tensor (quantised activations: `compression`). At any k both
/// sides compute what the whole network would compute, bit for bit. Each visit to a client begins with a new optimizer
/// on both sides, as in FedAvg. Parameters that both sides read (a word table that is also the head's) belong to the
/// client; their values and gradients travel with every batch, so U-shaped cuts are cheaper for such networks.
///
/// Noise and decorrelation (NoPeek, Vepakomma et al. 2020) reduce what activations give away; `chorus privacy audit
/// --only activations` measures it.
class SplitLearning : public Algorithm {
 public:
  explicit SplitLearning(const SplitConfig& config) : config_(config) {}
  void prepare_split(const SplitDesk& desk) override;

 protected:
  SplitCut cut() const;

  /// A client that has finished its batches.
  struct Visited {
    std::size_t slot = 0;
    double weight = 0;
    at::Tensor part;    ///< its trained part of the network
    at::Tensor update;  ///< that minus where it started
  };
  /// One client of a group, and who trains the other part with it.
  struct Visit {
    std::size_t slot = 0;
    Member member = {};
    SplitServer* server = nullptr;
  };
  /// Lets some clients train from the same part of the model, each with its own server side, all at the same time.
  std::vector<Visited> visit(const RoundInput& input, std::span<const Visit> group, const at::Tensor& client_part,
                             RoundResult& result) const;

  /// A round in which every client has its own copy of both parts, trained at the same time; the copies are averaged.
  /// Equals FedAvg's round bit for bit. With one client all methods of this folder are this one.
  RoundResult train_side_by_side(const RoundInput& input) const;

  /// Parts of a model [P].
  static at::Tensor take(const at::Tensor& model, const at::Tensor& places);
  static void put(const at::Tensor& model, const at::Tensor& places, const at::Tensor& values);
  const SplitParts& parts() const { return parts_; }
  /// Mean loss, memory and bytes of a round.
  void finish(RoundResult& result) const;

  SplitConfig config_;

 private:
  class Group;

  SplitParts parts_;
};

/// SplitNN (Gupta and Raskar 2018): clients train one after the other. Each takes over the client part from the one
/// before it, and the server part goes on. The order is that of the cohort, largest client first.
class SplitNn : public SplitLearning {
 public:
  using SplitLearning::SplitLearning;
  RoundResult round(const RoundInput& input) override;
};

struct SplitFedConfig : SplitConfig {
  std::int64_t version = 1;  ///< 1: a server part per client; 2: one server part, one client after the other

  void describe(ConfigVisitor& visitor);
};

/// SplitFed (Thapa et al. 2022): all clients start from the same client part, and these are averaged at the end of the
/// round.
///   version 1   the server has a copy of its part for each client, trained in parallel; these are averaged, too. The
///               result equals FedAvg's
///   version 2   one server part trains with one client after the other, in random order, and is not averaged
/// With one client both equal SplitNN, bit for bit.
class SplitFed : public SplitLearning {
 public:
  explicit SplitFed(const SplitFedConfig& config) : SplitLearning(config), version_(config.version) {}
  RoundResult round(const RoundInput& input) override;

 private:
  std::int64_t version_;
};

}  // namespace chorus::inline split
