#include "apps/experiment/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "apps/experiment/emulated_work.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "tests/support.h"

namespace chorus::inline experiment {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::size_t kCores = std::max(std::thread::hardware_concurrency(), 1U);

TEST(MachineShare, OnACpuOneClientPerWorkerAndAWorkerPerCore) {
  const MachineShare share = machine_share({}, false, 1e9);
  EXPECT_EQ(share.cohort_batch, 1U);
  EXPECT_EQ(share.workers, kCores);
  EXPECT_EQ(share.threads, 1);
}

TEST(MachineShare, OnAGpuOneWorkerAndAsManyClientsAsFit) {
  for (const double bytes : {1e3, 1e9, 1e15}) {
    const MachineShare share = machine_share({}, true, bytes);
    EXPECT_EQ(share.workers, 1U);
    EXPECT_GE(share.cohort_batch, 1U);
    EXPECT_LE(share.cohort_batch, 64U);
  }
  EXPECT_EQ(machine_share({}, true, 1e3).cohort_batch, 64U);
  EXPECT_EQ(machine_share({}, true, 1e15).cohort_batch, 1U);
}

TEST(MachineShare, TheUserDecides) {
  ExperimentConfig config;
  config.federation.workers = 3;
  config.federation.threads = 2;
  config.federation.cohort_batch = "7";
  for (const bool gpu : {false, true}) {
    const MachineShare share = machine_share(config, gpu, 1e15);
    EXPECT_EQ(share.workers, 3U);
    EXPECT_EQ(share.threads, 2);
    EXPECT_EQ(share.cohort_batch, 7U);
  }
}

// Settings that change bits must not depend on the number of workers.
TEST(MachineShare, WorkersDoNotChangeTheCohortBatch) {
  ExperimentConfig one, many;
  one.federation.workers = 1;
  many.federation.workers = 16;
  for (const bool gpu : {false, true}) {
    EXPECT_EQ(machine_share(one, gpu, 1e9).cohort_batch, machine_share(many, gpu, 1e9).cohort_batch);
  }
}

TEST(Machine, MemoryIsMeasured) {
  EXPECT_GT(available_memory(), 1e6);
  const double before = peak_memory();
  std::vector<char> large(std::size_t{64} << 20, 1);
  EXPECT_GT(large[large.size() / 2], 0);
  EXPECT_GE(peak_memory(), std::max(before, 64e6));
}

TEST(RoundBatches, CountsBatchesPerClient) {
  TrainerConfig trainer;
  trainer.batch_size = 8;
  trainer.epochs = 3;
  EXPECT_EQ(round_batches(trainer, 17), 9);  // three batches, three times
  EXPECT_EQ(round_batches(trainer, 16), 6);
  EXPECT_EQ(round_batches(trainer, 0), 0);
  trainer.steps = 5;
  trainer.accumulate = 2;
  EXPECT_EQ(round_batches(trainer, 17), 10) << "steps are steps, however little there is";
}

constexpr const char* kSmallest = R"(
kind: experiment
data: {format: synthetic, train: ["formulation=text_classification,examples=10,labels=2,seed=1"]}
task: {name: text_classification}
model: {fresh: {model_type: bert}, tokenizer: models/chorus-mini}
)";

ExperimentConfig experiment_from(const std::vector<std::string>& overrides) {
  return ConfigDocument::parse(kSmallest, "small.yaml", overrides).load<ExperimentConfig>();
}

TEST(ExperimentConfig, DefaultsAreWhatTheHeaderSays) {
  const ExperimentConfig config = experiment_from({});
  EXPECT_EQ(config.seed, 42);
  EXPECT_EQ(config.device, "cpu");
  EXPECT_EQ(config.rounds, 30);
  EXPECT_EQ(config.clients_per_round, 10);
  EXPECT_EQ(config.algorithm.name(), "fedavg");
  EXPECT_EQ(config.selection.name(), "uniform");
  EXPECT_EQ(config.tuning.name(), "full");
  EXPECT_EQ(config.checkpoint.keep, 2);
  EXPECT_FALSE(config.emulation || config.continual);
}

TEST(ExperimentConfig, RoundTripsThroughYaml) {
  const ExperimentConfig config =
      experiment_from({"rounds=7", "algorithm={name: fedprox, mu: 0.5}", "continual={one_shot: true}",
                       "evaluation.targets=[0.5, 0.9]", "model.freeze=[embeddings, '0']", "weighting=equal"});
  const std::string yaml = config_to_yaml(config, "experiment");
  const ExperimentConfig back = ConfigDocument::parse(yaml, "again.yaml").load<ExperimentConfig>();
  EXPECT_EQ(config_to_yaml(back, "experiment"), yaml);
  EXPECT_EQ(back.rounds, 7);
  EXPECT_EQ(back.algorithm.name(), "fedprox");
  EXPECT_TRUE(back.continual && back.continual->one_shot);
  EXPECT_EQ(back.weighting, Weighting::kEqual);
}

TEST(ExperimentConfig, MistakesAreNamedByTheirKey) {
  const std::pair<const char*, const char*> cases[] = {{"rounds=0", "rounds"},
                                                       {"seed=-1", "seed"},
                                                       {"device=gpu", "device"},
                                                       {"name=''", "name"},
                                                       {"clients_per_round=0", "clients_per_round"},
                                                       {"clients.count=-1", "clients.count"},
                                                       {"clients.test_share=1", "clients.test_share"},
                                                       {"clients.test_share=0", "clients.test_share"},
                                                       {"checkpoint.keep=0", "checkpoint.keep"},
                                                       {"evaluation.every=-1", "evaluation.every"},
                                                       {"evaluation.metric=''", "evaluation.metric"},
                                                       {"federation.cohort_batch=many", "cohort_batch"},
                                                       {"federation.cohort_batch=0", "cohort_batch"},
                                                       {"federation.cohort_batch=2.5", "cohort_batch"},
                                                       {"federation.kernels=slow", "federation.kernels"},
                                                       {"weighting=size", "weighting"},
                                                       {"algorithm=fedavgg", "fedavg"},
                                                       {"model.from=somewhere", "either `from`"},
                                                       {"model.tokenizer=''", "tokenizer"},
                                                       {"roundz=3", "rounds"}};
  for (const auto& [override_text, part] : cases) {
    EXPECT_THAT(message_of<ConfigError>([&, text = override_text] { (void)experiment_from({text}); }), HasSubstr(part))
        << override_text;
  }
  // All mistakes at once.
  EXPECT_THAT(message_of<ConfigError>([] {
                (void)experiment_from({"rounds=0", "seed=-1", "device=tpu"});
              }),
              AllOf(HasSubstr("rounds"), HasSubstr("seed"), HasSubstr("device")));
}

TEST(Machine, EveryProcessOfAMachineHasAGpuOfItsOwn) {
  const auto of = [](int local, const char* visible, std::size_t count) {
    return gpu_of({.rank = 7, .size = 12, .beside = 4, .local = local}, visible, count);
  };
  EXPECT_EQ(of(2, nullptr, 4), "2");
  EXPECT_EQ(of(3, nullptr, 2), "1");  // two share one
  EXPECT_EQ(of(1, "5,GPU-8a,2", 8), "GPU-8a");
  EXPECT_EQ(of(1, nullptr, 1), "");
  EXPECT_EQ(of(1, "3", 8), "");
  EXPECT_EQ(of(1, "", 8), "");                                                         // hidden from everybody
  EXPECT_EQ(gpu_of({.rank = 1, .size = 2, .beside = 1, .local = 0}, nullptr, 8), "");  // alone: the first one
}

}  // namespace
}  // namespace chorus::inline experiment
