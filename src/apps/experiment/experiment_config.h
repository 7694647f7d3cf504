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

/// A network that some clients train instead of the server's.
struct ClientModelConfig {
  std::string name = {};                   ///< for people, and the key of the roster
  NetworkConfig model = {};                ///< any family; its tokenizer may be another one
  Choice<Tunings> tuning{"full"};          ///< what of it trains
  double share = 0;                        ///< of the clients that no network lists
  std::vector<std::int64_t> clients = {};  ///< these, instead of a share

  void describe(ConfigVisitor& visitor);
};

/// Who holds which example.
struct ClientsConfig {
  enum class ModelOrder { kRandom, kSize };

  std::string file = {};   ///< a partition file (FedNLP's HDF5, or JSON); empty: made by `partition`
  std::string group = {};  ///< which partition of the file; empty: the only one
  Choice<Partitioners> partition{"label_dirichlet"};
  std::int64_t count = 100;                      ///< clients; 0: as many as the data itself has (natural)
  TestMix test_mix = TestMix::kIndependent;      ///< how clients' test examples are dealt out
  double test_share = 0.2;                       ///< of each client's examples, where the data has no test split
  bool test_latest = false;                      ///< and these are its latest, not random ones
  std::optional<std::int64_t> seed = {};         ///< of the partition; the experiment's by default
  std::vector<ClientModelConfig> models = {};    ///< networks other than the server's
  ModelOrder model_order = ModelOrder::kRandom;  ///< how shares are dealt out: size: the first network to the smallest
  std::vector<std::int64_t> exclude = {};        ///< clients whose training examples are left out (chorus unlearn)

  void describe(ConfigVisitor& visitor);
};

/// Continual learning (Dupuy et al. 2022, section 3.3): the run goes through segments of time, each from the last one's
/// model.
struct ContinualConfig {
  TimeSegmentsConfig segments = {};
  bool one_shot = false;    ///< the baseline: all segments at once, as many rounds as they have together
  double segment_test = 0;  ///< share of each client's examples of each segment that is held out, to measure forgetting
  std::int64_t replay = 0;  ///< examples of earlier segments that each client keeps and trains on again

  void describe(ConfigVisitor& visitor);
};

/// Examples that no client holds, for federated distillation: the public set, and the server's labelled query set. Ma
/// et al. (2023) split the training data 1:1 into private and public data, and that 9:1 into unlabelled and labelled.
struct PublicConfig {
  std::optional<double> share = {};          ///< of the training examples, 0.5 by default; the rest goes to the clients
  std::vector<std::string> unlabelled = {};  ///< files instead of a share (another domain)
  /// Of the public examples, 0.1 by default; the server knows their labels.
  std::optional<double> query_share = {};
  std::vector<std::string> query = {};  ///< files instead of a share
  bool labelled = false;                ///< clients may use the labels of the public set (FedMD)
  std::int64_t words = 1000;            ///< classes of a language model's prediction (shared_words.h)

  double queries() const { return query.empty() ? query_share.value_or(0.1) : 0; }  ///< their share
  void describe(ConfigVisitor& visitor);
};

/// What the clients' own test examples say at the end of a run about the global model, their own models and what they
/// reach alone (docs/how-to/personalize.md).
struct PersonalEvaluationConfig {
  std::int64_t fine_tuning = 1;   ///< rounds of local training of the fine-tuned model; 0: without it
  bool alone = true;              ///< every client also trains alone from the beginning
  std::int64_t alone_passes = 0;  ///< its rounds of local training; 0: as many as the run gives a client on average
  double newcomers = 0;           ///< share of the clients that never train (cold start)

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
  std::optional<PersonalEvaluationConfig> personal = {};

  void describe(ConfigVisitor& visitor);
};

/// How the simulation uses this machine; nothing here changes results beyond rounding.
struct FederationConfig {
  enum class Transport { kLocal, kSerialised, kMpi };
  enum class Kernels { kFast, kPlain };

  std::string cohort_batch =
      "auto";                ///< clients of one batched computation; auto: one on a CPU, on a GPU as many as fit
  std::int64_t workers = 0;  ///< such computations in parallel; 0: one per core (one on a GPU)
  std::int64_t threads = 0;  ///< inside each of them; 0: 1
  std::int64_t state_memory = 1024;         ///< MiB of client states held in memory; the rest is on disk
  Transport transport = Transport::kLocal;  ///< serialised: every message becomes bytes and comes back; mpi: clients
                                            ///< are spread over the ranks of mpirun
  Kernels kernels = Kernels::kFast;         ///< plain: LibTorch's operators alone, to compare with
  bool deterministic = true;                ///< on a GPU: same seed, same bits; false: atomic additions in any order

  /// The number in cohort_batch; 0: it is none.
  std::size_t batch_given() const;
  void describe(ConfigVisitor& visitor);
};

struct CheckpointConfig {
  std::int64_t every = 0;      ///< rounds; 0: whenever the last one is half a minute old
  std::int64_t keep = 2;       ///< how many
  bool client_models = false;  ///< at the end, every client's own model as a Hugging Face folder (distillation)

  void describe(ConfigVisitor& visitor);
};

/// How `chorus serve` deals with clients that are other machines. `chorus run` ignores it.
struct ServingConfig {
  std::string transport = "grpc";
  std::int64_t clients = 0;        ///< connected before the first round; 0: clients_per_round
  std::int64_t min_clients = 0;    ///< replies that a round needs; 0: half of clients_per_round or a buffer, rounded up
  double deadline = 0;             ///< seconds a client has to reply; 0: no limit
  double grace = 30;               ///< seconds a client that lost its connection has to come back
  double return_seconds = 60;      ///< a restarted server waits for clients to come back
  std::string spool = "/var/tmp";  ///< folder for updates over 64 MiB until they are summed; grpc only
  double slowest = 16;             ///< KiB/s of a client's message, on average after `stall` seconds; 0: any
  double stall = 60;               ///< seconds a client may pause within a message
  std::int64_t peers = 10'000;     ///< client processes at a time
  double inbox = 256;              ///< MiB of large messages received at once, in memory
  double frame_limit = 2047;       ///< MiB of a message
  double keepalive = 20;           ///< seconds between signs of life on a connection where nothing else travels
  std::int64_t chunk = 256;        ///< KiB of the server's messages that travel at once

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
  std::optional<PublicConfig> publics = {};  ///< the key `public`; without it there is no public set
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
  ServingConfig serving = {};

  void describe(ConfigVisitor& visitor);
};

}  // namespace chorus::inline experiment
