#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/attacks/attacked_federation.h"
#include "algorithm/compression/compression_config.h"
#include "algorithm/selection/selector.h"
#include "application/data/continual/time_segments.h"
#include "application/data/partition/partitioner.h"
#include "application/data/readers/data_config.h"
#include "application/peft/tuning.h"
#include "application/tasks/encode_split.h"
#include "application/trainer/trainer_config.h"
#include "apps/experiment/canaries.h"
#include "core/ports/algorithm.h"
#include "infrastructure/emulation/fleet.h"

namespace chorus::inline experiment {

/// Where the network comes from.
struct NetworkConfig {
  std::string from = {};                          ///< a Hugging Face folder; empty: a new network
  std::map<std::string, std::string> fresh = {};  ///< the config.json of a new network: model_type, hidden_size, ...
  std::string tokenizer = {};                     ///< a folder with a tokenizer; empty: the network's
  std::vector<std::string> freeze = {};           ///< what does not train: embeddings, and layers by number from 0

  void describe(ConfigVisitor& visitor);
};

/// Who holds which example.
struct ClientsConfig {
  std::string file = {};   ///< a partition file (FedNLP's HDF5, or JSON); empty: made by `partition`
  std::string group = {};  ///< which partition of the file; empty: the only one
  Choice<Partitioners> partition{"label_dirichlet"};
  std::int64_t count = 100;                  ///< clients; 0: as many as the data itself has (natural)
  TestMix test_mix = TestMix::kIndependent;  ///< how clients' test examples are dealt out
  double test_share = 0.2;                   ///< of each client's examples, where the data has no test split
  bool test_latest = false;                  ///< and these are its latest, not random ones
  std::optional<std::int64_t> seed = {};     ///< of the partition; the experiment's by default
  std::vector<std::int64_t> exclude = {};    ///< clients whose training examples are left out (chorus unlearn)

  void describe(ConfigVisitor& visitor);
};

/// Continual learning (Dupuy et al. 2022, section 3.3): the run goes through segments of time, each from the last one's
/// model.
struct ContinualConfig {
  TimeSegmentsConfig segments = {};
  bool one_shot = false;  ///< the baseline: all segments at once, as many rounds as they have together

  void describe(ConfigVisitor& visitor);
};

struct EvaluationConfig {
  std::int64_t every = 1;             ///< rounds; 0: only at the end
  std::string metric = "auto";        ///< the score that decides; auto: the task's usual one
  std::optional<double> target = {};  ///< stop when it is reached
  std::vector<double> targets = {};   ///< report the cost of reaching each of these
  std::int64_t examples = 0;          ///< at most so many of the test set, drawn once; 0: all
  bool per_client = false;            ///< also on each client's own test examples, with deciles (Dupuy et al. 2022)
  std::int64_t clients = 0;           ///< at most so many clients for that; 0: all

  void describe(ConfigVisitor& visitor);
};

/// How the simulation uses this machine; nothing here changes results beyond rounding.
struct FederationConfig {
  enum class Transport { kLocal, kSerialised };
  enum class Kernels { kFast, kPlain };

  std::string cohort_batch =
      "auto";                ///< clients of one batched computation; auto: one on a CPU, on a GPU as many as fit
  std::int64_t workers = 0;  ///< such computations in parallel; 0: one per core (one on a GPU)
  std::int64_t threads = 0;  ///< inside each of them; 0: 1
  std::int64_t state_memory = 1024;         ///< MiB of client states held in memory; the rest is on disk
  Transport transport = Transport::kLocal;  ///< serialised: every message becomes bytes and comes back
  Kernels kernels = Kernels::kFast;         ///< plain: LibTorch's operators alone, to compare with
  bool deterministic = true;                ///< on a GPU: same seed, same bits; false: atomic additions in any order

  /// The number in cohort_batch; 0: it is none.
  std::size_t batch_given() const;
  void describe(ConfigVisitor& visitor);
};

struct CheckpointConfig {
  std::int64_t every = 0;  ///< rounds; 0: whenever the last one is half a minute old
  std::int64_t keep = 2;   ///< how many

  void describe(ConfigVisitor& visitor);
};

/// One experiment: the file that `chorus run` reads. Everything has a default but the data and the network.
struct ExperimentConfig {
  std::string name = "experiment";
  std::int64_t seed = 42;
  std::string device = "cpu";
  DataConfig data = {};
  EncodeConfig encoding = {};
  Choice<Tasks> task{};
  NetworkConfig model = {};
  ClientsConfig clients = {};
  std::optional<ContinualConfig> continual = {};
  Choice<Tunings> tuning{"full"};
  Choice<Algorithms> algorithm{"fedavg"};
  Choice<Aggregations> aggregation{"mean"};
  std::optional<AttacksConfig> attacks = {};  ///< without it every client is honest
  std::optional<CanariesConfig> audit = {};   ///< without it no secrets are planted
  Weighting weighting = Weighting::kExamples;
  Choice<Selectors> selection{"uniform"};
  std::int64_t rounds = 30;  ///< of each segment, where there are several
  std::int64_t clients_per_round = 10;
  TrainerConfig trainer = {};
  EvaluationConfig evaluation = {};
  CompressionConfig compression = {};
  FederationConfig federation = {};
  std::optional<EmulationConfig> emulation = {};  ///< without it nothing is emulated
  CheckpointConfig checkpoint = {};

  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline experiment
