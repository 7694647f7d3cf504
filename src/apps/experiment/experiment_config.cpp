#include "apps/experiment/experiment_config.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

#include "apps/experiment/compatibility.h"
#include "apps/experiment/update_groups.h"

namespace chorus::inline experiment {

void NetworkConfig::describe(ConfigVisitor& visitor) {
  visitor.field("from", from, "a Hugging Face folder; empty: a new network");
  visitor.field("fresh", fresh, "config.json of a new network: model_type, hidden_size, ...");
  visitor.field("tokenizer", tokenizer, "a folder with a tokenizer; empty: the network's");
  visitor.field("freeze", freeze, "what does not train: embeddings, and layers by number from 0");
  visitor.check([this]() -> std::string {
    if (from.empty() == fresh.empty()) return "give either `from` (a folder) or `fresh` (a new network's config)";
    if (from.empty() && tokenizer.empty()) return "a new network needs a `tokenizer`";
    return "";
  });
}

void ClientsConfig::describe(ConfigVisitor& visitor) {
  visitor.field("file", file, "a partition file (HDF5 or JSON); empty: made by `partition`");
  visitor.field("group", group, "which partition of the file; empty: the only one");
  visitor.field("partition", partition, "how examples are dealt out to clients");
  visitor.field("count", count, "how many clients; 0: as many as the data has (natural)").at_least(0);
  visitor.field("test_mix", test_mix, {{"independent", TestMix::kIndependent}, {"same", TestMix::kSame}},
                "how clients' test examples relate to their training examples");
  visitor.field("test_share", test_share, "of each client's examples, where the data has no test split")
      .above(0)
      .below(1);
  visitor.field("test_latest", test_latest, "these are the client's latest examples, not random ones");
  visitor.field("seed", seed, "of the partition; the experiment's by default").at_least(0);
  visitor.field("exclude", exclude, "clients by number, whose training examples are left out (chorus unlearn)");
  visitor.field("models", models, "networks that some clients train instead of the server's (distillation)");
  visitor.field("model_order", model_order, {{"random", ModelOrder::kRandom}, {"size", ModelOrder::kSize}},
                "how the shares of models are dealt out; size: the first network to the clients with the least data");
  visitor.check([this]() -> std::string {
    std::set<std::string> names;
    for (const ClientModelConfig& network : models) {
      if (names.insert(network.name).second) continue;
      return fmt::format("models: two networks have the name {}; give each its own", network.name);
    }
    return "";
  });
}

void ClientModelConfig::describe(ConfigVisitor& visitor) {
  visitor.field("name", name, "of the network").required().not_empty();
  visitor.field("model", model, "the network");
  visitor.field("tuning", tuning, "what of the network trains");
  visitor.field("share", share, "of the clients that no network lists").at_least(0).at_most(1);
  visitor.field("clients", clients, "numbers of its clients, instead of a share").at_least(0);
  visitor.check([this]() -> std::string {
    if (share > 0 && !clients.empty())
      return fmt::format("{} has a share and lists clients; leave one of them out", name);
    if (share <= 0 && clients.empty()) return fmt::format("{} has no clients; give it a share, or list clients", name);
    return "";
  });
}

void PublicConfig::describe(ConfigVisitor& visitor) {
  visitor.field("share", share, "of the training examples that are public (default 0.5); the rest goes to the clients")
      .above(0)
      .below(1);
  visitor.field("unlabelled", unlabelled, "files with the public set, instead of a share (another domain)").path();
  visitor.field("query_share", query_share, "of the public examples whose labels the server knows (default 0.1)")
      .at_least(0)
      .below(1);
  visitor.field("query", query, "files with the server's labelled examples, instead of a share").path();
  visitor.field("labelled", labelled, "clients may use the labels of the public set (FedMD)");
  visitor.field("words", words, "language models predict one of so many words, the most frequent of the public texts")
      .at_least(2);
}

void ContinualConfig::describe(ConfigVisitor& visitor) {
  visitor.field("segments", segments, "how time is cut");
  visitor.field("one_shot", one_shot, "the baseline: all segments at once, as many rounds as they have together");
  visitor
      .field("segment_test", segment_test,
             "share of each client's examples of each segment that is held out, to measure forgetting")
      .at_least(0)
      .below(1);
  visitor.field("replay", replay, "examples of earlier segments that each client keeps and trains on again")
      .at_least(0);
}

void PersonalEvaluationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("fine_tuning", fine_tuning, "rounds of local training of the fine-tuned global model; 0: without it")
      .at_least(0);
  visitor.field("alone", alone, "every client also trains alone, from the beginning of the run");
  visitor.field("alone_passes", alone_passes, "its rounds of local training; 0: as many as the run gives a client")
      .at_least(0);
  visitor.field("newcomers", newcomers, "share of the clients that never train, and are scored at the end (cold start)")
      .at_least(0)
      .below(1);
}

void EvaluationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("every", every, "rounds between evaluations; 0: only at the end").at_least(0);
  visitor.field("metric", metric, "the score that decides; auto: the task's usual one").not_empty();
  visitor.field("target", target, "stop when the score is as good as this");
  visitor.field("targets", targets, "tell what it took (time, bytes, joules) to reach each of these scores");
  visitor.field("examples", examples, "at most so many of the test set, drawn once; 0: all").at_least(0);
  visitor.field("per_client", per_client, "also on each client's own test examples, with deciles");
  visitor.field("clients", clients, "at most so many clients for that; 0: all").at_least(0);
  visitor.field("personal", personal,
                "compare models on each client's own test examples at the end (docs/how-to/personalize.md)");
}

std::size_t FederationConfig::batch_given() const {
  std::size_t number = 0;
  const char* end = cohort_batch.data() + cohort_batch.size();
  const auto [stopped, error] = std::from_chars(cohort_batch.data(), end, number);
  return error == std::errc() && stopped == end ? number : 0;
}

void FederationConfig::describe(ConfigVisitor& visitor) {
  visitor.field("cohort_batch", cohort_batch,
                "clients of one batched computation; auto: one on a CPU, as many as memory allows on a GPU");
  visitor.check([this]() -> std::string {
    if (cohort_batch == "auto" || batch_given() > 0) return "";
    return fmt::format("cohort_batch is auto or a whole number of at least 1, not '{}'", cohort_batch);
  });
  visitor.field("workers", workers, "such computations side by side; 0: one per core").at_least(0);
  visitor.field("threads", threads, "inside each of them; 0: one").at_least(0);
  visitor.field("state_memory", state_memory, "MiB of client states in memory; the rest is on disk").at_least(0);
  visitor.field("transport", transport,
                {{"local", Transport::kLocal}, {"serialised", Transport::kSerialised}, {"mpi", Transport::kMpi}},
                "serialised: every message becomes bytes and comes back; mpi: clients are spread over the ranks of "
                "mpirun");
  visitor.field("kernels", kernels, {{"fast", Kernels::kFast}, {"plain", Kernels::kPlain}},
                "plain: LibTorch's operators alone, slower, to compare with");
  visitor.field("deterministic", deterministic,
                "on a GPU: the same seed gives the same bits; false: gradients are added in any order");
}

void CheckpointConfig::describe(ConfigVisitor& visitor) {
  visitor.field("every", every, "rounds; 0: when half a minute has passed since the last").at_least(0);
  visitor.field("keep", keep, "how many checkpoints").at_least(1);
  visitor.field("client_models", client_models,
                "at the end, save every client's own model in client_models/ of the run folder (distillation)");
}

void ServingConfig::describe(ConfigVisitor& visitor) {
  visitor.field("transport", transport, "how clients are reached (chorus list transport)").not_empty();
  visitor.field("clients", clients, "connected before the first round; 0: clients_per_round").at_least(0);
  visitor
      .field("min_clients", min_clients,
             "replies that a round needs, or it is repeated; at least as many as the aggregation needs. 0: half of "
             "clients_per_round (fedbuff: of its buffer), rounded up")
      .at_least(0);
  visitor.field("deadline", deadline, "seconds a client has for its part of a round before it is left out; 0: no limit")
      .at_least(0);
  visitor.field("grace", grace, "seconds a client that lost its connection has to come back before it is left out")
      .at_least(0);
  visitor.field("return_seconds", return_seconds, "a restarted server waits so long for its clients to come back")
      .at_least(0);
  visitor.field("spool", spool, "folder for updates over 64 MiB until they are summed (transport grpc)").not_empty();
  visitor.field("slowest", slowest, "KiB/s of a client's message, on average after `stall` seconds; 0: any pace")
      .at_least(0);
  visitor.field("stall", stall, "seconds a client may pause within a message").above(0);
  visitor.field("peers", peers, "client processes that may be connected at a time").at_least(1);
  visitor.field("inbox", inbox, "MiB of large messages that are received at once, in memory; one always is")
      .at_least(0);
  visitor.field("frame_limit", frame_limit, "MiB of a message, at most; larger ones are refused")
      .above(0)
      .at_most(2047);
  visitor
      .field(
          "keepalive", keepalive,
          "seconds between the server's pings of a client (mqtt: of its broker); a client that does not answer within "
          "half of that has lost its connection")
      .at_least(1)
      .at_most(3600);
  visitor.field("chunk", chunk, "KiB of the server's messages that travel at once").at_least(1).at_most(4096);
}

void ExperimentConfig::describe(ConfigVisitor& visitor) {
  visitor.field("name", name, "what the run folder is called").not_empty();
  visitor.field("seed", seed, "everything random follows from it").at_least(0);
  visitor.field("device", device, "where to compute").one_of({"cpu", "cuda"});
  visitor.field("data", data, "what is read, and how");
  visitor.field("encoding", encoding, "the cache of tokenized data");
  visitor.field("task", task, "what is asked of a text").required();
  visitor.field("model", model, "the network");
  visitor.field("clients", clients, "who holds which example");
  visitor.field("continual", continual, "train on segments of time, one after the other");
  visitor.field("public", publics, "examples that everybody knows (docs/how-to/distill_across_networks.md)");
  visitor.field("tuning", tuning, "what of the network trains: all of it, or what is attached to it");
  visitor.field("algorithm", algorithm, "the federated method");
  visitor.field("aggregation", aggregation, "how the updates of a round become one");
  visitor.field("attacks", attacks, "some clients are malicious (docs/how-to/defend_against_attackers.md)");
  visitor.field("audit", audit, "plant secrets, to measure what the model remembers (docs/how-to/audit_privacy.md)");
  visitor.field("weighting", weighting,
                {{"examples", Weighting::kExamples}, {"batches", Weighting::kBatches}, {"equal", Weighting::kEqual}},
                "what a client counts for in an average");
  visitor.field("selection", selection, "which clients train in a round");
  visitor.field("rounds", rounds, "of federated training; with `continual`, of each segment").at_least(1);
  visitor.field("clients_per_round", clients_per_round, "how many clients train in a round").at_least(1);
  visitor.field("trainer", trainer, "how a client trains");
  visitor.field("evaluation", evaluation, "when and how the model is scored");
  visitor.field("compression", compression, "filters of what travels");
  visitor.field("federation", federation, "how the simulation uses this machine");
  visitor.field("emulation", emulation,
                "tell the run on the clock of phones and boards (docs/how-to/emulate_devices.md)");
  visitor.field("checkpoint", checkpoint, "when the run can be resumed from");
  visitor.field("serving", serving,
                "clients on other machines (docs/how-to/run_a_federation.md); only chorus serve uses it");
  visitor.check([this]() -> std::string {
    const std::int64_t together = updates_per_step(*this);
    if (serving.min_clients <= together) return "";
    if (algorithm.traits().asynchronous) {
      return fmt::format(
          "serving.min_clients is {}, but a step of algorithm: {} is made from only {} updates (algorithm.buffer); "
          "lower the one or raise the other",
          serving.min_clients, algorithm.name(), together);
    }
    return fmt::format("serving.min_clients is {}, but only {} clients train in a round (clients_per_round)",
                       serving.min_clients, clients_per_round);
  });
  visitor.check([this] { return incompatibility(*this); });
}

namespace {

const ConfigRegistration<ExperimentConfig> kRegisteredExperiment{"experiment", "a federated experiment (chorus run)"};

}  // namespace
}  // namespace chorus::inline experiment
