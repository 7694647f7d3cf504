// Runs as a user starts, stops, kills and resumes them. CHORUS_STRESS=100 sets the number of kills for a full test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/integration/run_fixture.h"

namespace chorus::inline integration {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(RunTest, WritesEverythingToItsFolder) {
  ASSERT_EQ(run("a"), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("chorus compare"));
  for (const char* name : {"config.yaml", "run.json", "metrics.jsonl", "summary.json", "model/config.json",
                           "model/model.safetensors", "model/vocab.txt", "checkpoints"}) {
    EXPECT_TRUE(fs::exists(folder_ / "a" / name)) << name;
  }
  const json result = summary("a");
  EXPECT_EQ(result.at("rounds"), 6);
  EXPECT_EQ(result.at("algorithm"), "scaffold");
  EXPECT_GT(result.at("best").at("accuracy").get<double>(), 0.2);
  // A run folder is never overwritten.
  EXPECT_EQ(run("a"), 2);
  EXPECT_THAT(output_, HasSubstr("a"));
  // The trained model predicts.
  const Chorus predict({"predict", "--model", (folder_ / "a" / "model").string()}, folder_ / "predict.log");
  EXPECT_EQ(predict.wait(), 0) << predict.output();
  // Resuming a finished run is not an error.
  EXPECT_EQ(resume("a"), 0) << output_;
}

TEST_F(RunTest, ScoresOfSingleClassesAreInTheSummaryAlone) {
  ASSERT_EQ(run("a", {"rounds=2", "evaluation.per_client=true"}), 0) << output_;
  int evaluations = 0;
  std::ifstream file(folder_ / "a" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const json event = json::parse(line);
    if (event["kind"] != "evaluation") continue;
    ++evaluations;
    EXPECT_TRUE(event.contains("accuracy"));
    for (const auto& [name, value] : event.items()) EXPECT_EQ(name.find('/'), std::string::npos) << line;
  }
  EXPECT_GE(evaluations, 6);
  const json result = summary("a");
  int classes = 0;
  for (const auto& [name, value] : result.at("last").items()) classes += name.starts_with("f1/") ? 1 : 0;
  EXPECT_EQ(classes, 4);
  const Chorus compare({"compare", (folder_ / "a").string()}, folder_ / "compare.log");
  EXPECT_EQ(compare.wait(), 0) << compare.output();
}

TEST_F(RunTest, ReportsWhereTheTimeWent) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run("a"), 0) << output_;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_THAT(output_, HasSubstr("time: set-up "));
  const json result = summary("a");
  double sum = 0;
  for (const char* part : {"setup", "train", "evaluation", "checkpoint", "save"}) {
    const double seconds = result.at(std::string(part) + "_seconds").get<double>();
    EXPECT_GT(seconds, 0) << part;
    sum += seconds;
  }
  EXPECT_LT(sum, wall);
  EXPECT_NEAR(result.at("train_seconds").get<double>() + result.at("evaluation_seconds").get<double>(),
              result.at("seconds").get<double>(), 1e-9);
  double evaluation = 0, checkpoints = 0, background = 0;
  std::ifstream file(folder_ / "a" / "metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    const json event = json::parse(line);
    if (event["kind"] == "evaluation") evaluation += event.at("seconds").get<double>();
    if (event["kind"] != "checkpoint") continue;
    checkpoints += event.at("seconds").get<double>();
    background += event.at("background_seconds").get<double>();
  }
  EXPECT_NEAR(background, result.at("checkpoint_background_seconds").get<double>(), 1e-9);
  EXPECT_LE(evaluation, result.at("evaluation_seconds").get<double>());
  EXPECT_NEAR(checkpoints, result.at("checkpoint_seconds").get<double>(), 1e-9);
}

TEST_F(RunTest, Tf32IsFloat32OnACpu) {
  ASSERT_EQ(run("a", {"rounds=2"}), 0) << output_;
  ASSERT_EQ(run("b", {"rounds=2", "trainer.precision=tf32"}), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("tf32 is float32 on a CPU"));
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(scores("a"), scores("b"));
}

TEST_F(RunTest, SameSeedSameBitsWithAnyNumberOfWorkersAndThroughAWire) {
  ASSERT_EQ(run("a"), 0) << output_;
  ASSERT_EQ(run("b", {"federation.workers=3"}), 0) << output_;
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(scores("a"), scores("b"));
  const int status = run("c", {"federation.transport=serialised"});
  if (status == 2 && output_.find("protobuf") != std::string::npos) GTEST_SKIP() << "this build has no protobuf";
  ASSERT_EQ(status, 0) << output_;
  EXPECT_EQ(weights("a"), weights("c"));
  ASSERT_EQ(run("d", {"seed=4"}), 0) << output_;
  EXPECT_NE(weights("a"), weights("d"));
  // Matmuls of another shape round differently.
  ASSERT_EQ(run("e", {"federation.cohort_batch=4"}), 0) << output_;
  EXPECT_LT(largest_difference("a", "e"), 1e-5);
  ASSERT_EQ(run("f", {"federation.threads=2"}), 0) << output_;
  EXPECT_LT(largest_difference("a", "f"), 1e-5);
}

// Learning curves of 50 rounds: all kernels and three clients per batch against LibTorch's operators and one client.
// The learning rate is low: AdamW makes full steps even for gradients that are only rounding errors, and with a high
// rate any difference grows.
TEST_F(RunTest, FastAndPlainLearnTheSame) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> all{
        "data.train=['formulation=text_classification,examples=600,test_examples=60,labels=4,seed=7']",
        "rounds=50",
        "algorithm=fedavg",
        "clients.partition.alpha=10",
        "checkpoint.every=1000",
        "evaluation.every=5",
        "model.fresh.hidden_size=32",
        "trainer={optimizer: adamw, learning_rate: 1e-3, schedule: {shape: constant, warmup: 0}}"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto curve = [&](const std::string& name, const std::string& kind, const std::string& key) {
    std::vector<double> losses;
    for (const std::string& line : scores(name)) {
      const json event = json::parse(line);
      if (event["kind"] == kind) losses.push_back(event.at(key));
    }
    return losses;
  };
  const auto compare = [&](const std::string& one, const std::string& other, double tolerance) {
    for (const auto& [kind, key] : {std::pair("round", "loss"), std::pair("evaluation", "eval_loss")}) {
      const std::vector<double> a = curve(one, kind, key), b = curve(other, kind, key);
      ASSERT_EQ(a.size(), b.size());
      ASSERT_GE(a.size(), 10U);
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance * b[i]) << one << kind << i;
    }
    const std::vector<double> losses = curve(other, "round", "loss");
    EXPECT_EQ(losses.size(), 50U);
    EXPECT_LT(losses.back(), 0.8 * losses.front()) << "nothing was learnt";
  };
  ASSERT_EQ(run("fast", with({"federation={workers: 1, cohort_batch: 3}"})), 0) << output_;
  ASSERT_EQ(run("plain", with({"federation={workers: 1, cohort_batch: 1, kernels: plain}"})), 0) << output_;
  compare("fast", "plain", 5e-3);
  ASSERT_EQ(run("rounded", with({"federation={workers: 1}", "trainer.precision=bfloat16"})), 0) << output_;
  compare("rounded", "plain", 5e-2);
  if (run("gpu", with({"device=cuda", "federation={cohort_batch: 4}"})) != 0) {
    GTEST_SKIP() << "no GPU here: compared on the CPU alone";
  }
  compare("gpu", "plain", 5e-3);
  ASSERT_EQ(run("half", with({"device=cuda", "federation={cohort_batch: 4}", "trainer.precision=bfloat16"})), 0)
      << output_;
  compare("half", "plain", 5e-2);
}

TEST_F(RunTest, FrozenLayersAreComputedOnceOrAnewToTheSameBits) {
  const std::vector<std::string> adapters{"model.fresh.num_hidden_layers=3", "algorithm=fedavg",
                                          "tuning={name: pfeiffer, width: 8, unit: 4, depth: 2}"};
  const auto with = [&](const std::string& cache) {
    std::vector<std::string> words = adapters;
    words.push_back("trainer.cache=" + cache);
    return words;
  };
  ASSERT_EQ(run("kept", with("{mode: keep}")), 0) << output_;
  ASSERT_EQ(run("disk", with("{mode: keep, memory: 0}")), 0) << output_;
  ASSERT_EQ(run("anew", with("{mode: recompute}")), 0) << output_;
  const auto adapter = [&](const char* name) { return read(folder_ / name / "model" / "adapter_model.safetensors"); };
  EXPECT_FALSE(adapter("anew").empty());
  EXPECT_EQ(adapter("kept"), adapter("anew"));
  EXPECT_EQ(adapter("disk"), adapter("anew"));
  EXPECT_EQ(scores("kept"), scores("anew"));
  EXPECT_FALSE(fs::exists(folder_ / "disk" / "activations" / "layer_1.bin")) << "it is of no use after the run";
  ASSERT_EQ(run("lora", {"algorithm=fedavg", "tuning={name: lora, rank: 2}"}), 0) << output_;
  EXPECT_TRUE(fs::exists(folder_ / "lora" / "model" / "adapter" / "adapter_config.json"));
  // Only trainable parameters travel: 2 matmuls of [16, 16] with 2 (16 + 16) elements each, and a head of 4 (16 + 1).
  std::ifstream metrics(folder_ / "lora" / "metrics.jsonl");
  for (std::string line; std::getline(metrics, line);) {
    const json event = json::parse(line);
    if (event["kind"] != "round") continue;
    EXPECT_LT(event["bytes_up"].get<double>(), 4 * (4 * 196 + 500));
  }
}

TEST_F(RunTest, GrowingAdaptersResumeAfterAKill) {
  const std::vector<std::string> growing{"model.fresh.num_hidden_layers=3",
                                         "tuning={name: pfeiffer, width: 16, unit: 4}",
                                         "algorithm={name: adafl, width: 4, width_step: 4, interval: 0.15}",
                                         "emulation={scale_depth: true}",
                                         "clients_per_round=6",
                                         "trainer.cache.mode=keep"};
  ASSERT_EQ(run("whole", growing), 0) << output_;
  EXPECT_THAT(output_, HasSubstr("wins:"));
  const std::string bits = read(folder_ / "whole" / "model" / "adapter_model.safetensors");
  const auto reported = scores("whole");
  fs::remove(folder_ / "whole" / "summary.json");
  for (const char* round : {"round_000006", "round_000005"}) fs::remove_all(folder_ / "whole" / "checkpoints" / round);
  ASSERT_EQ(resume("whole"), 0) << output_;
  EXPECT_EQ(read(folder_ / "whole" / "model" / "adapter_model.safetensors"), bits);
  EXPECT_EQ(scores("whole"), reported);
}

TEST_F(RunTest, ImpossibleTuningIsReported) {
  const auto refused = [&](const std::vector<std::string>& words) {
    EXPECT_EQ(run("refused", words), 2) << output_;
    EXPECT_FALSE(fs::exists(folder_ / "refused")) << "nothing is written before all is checked";
    return output_;
  };
  EXPECT_THAT(refused({"tuning={name: lora, depth: 5}"}), HasSubstr("5 layers are to be tuned, but the model has 1"));
  EXPECT_THAT(refused({"tuning={name: lora, targets: [querry]}"}), HasSubstr("no module is called \"querry\""));
  EXPECT_THAT(refused({"tuning={name: pfeiffer, width: 10, unit: 4}"}), HasSubstr("units of 4"));
  EXPECT_THAT(refused({"trainer.cache.mode=keep"}), HasSubstr("the bottom of the network trains"));
  EXPECT_THAT(refused({"tuning=lora", "model.freeze=[0]"}), HasSubstr("model.freeze"));
  EXPECT_THAT(refused({"algorithm=adafl"}), HasSubstr("pfeiffer, houlsby, lora or prefix"));
  EXPECT_THAT(refused({"algorithm=adafl", "tuning=pfeiffer"}), HasSubstr("emulation"));
  EXPECT_THAT(refused({"algorithm=adafl", "tuning=pfeiffer", "emulation={}"}), HasSubstr("scale_depth"));
}

TEST_F(RunTest, WithoutACheckpointItRestartsAndRepeatsNoEvent) {
  ASSERT_EQ(run("a"), 0) << output_;
  const auto reported = scores("a");
  const std::string bits = weights("a");
  fs::remove_all(folder_ / "a" / "checkpoints");
  fs::remove(folder_ / "a" / "summary.json");
  ASSERT_EQ(resume("a"), 0) << output_;
  EXPECT_EQ(scores("a"), reported);
  EXPECT_EQ(weights("a"), bits);
}

TEST_F(RunTest, ResumesBitIdenticallyAfterAKillAtAnyMoment) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  ASSERT_EQ(run("whole"), 0) << output_;
  const std::chrono::duration<double> whole = Clock::now() - begin;
  const char* wish = std::getenv("CHORUS_STRESS");
  const int kills = wish != nullptr ? std::atoi(wish) : 20;
  std::mt19937 random(17);
  int resumed = 0;  // after at least one round
  for (int done = 0, number = 0; done < kills; ++number) {
    const std::string name = "killed" + std::to_string(number);
    bool finished = false;
    for (bool first = true; !finished; first = false) {
      // Without a folder there is nothing to resume.
      const bool start = first || !fs::exists(folder_ / name / "run.json");
      const auto words = start ? arguments(name) : std::vector<std::string>{"resume", (folder_ / name).string()};
      const int from = newest_round(name);
      if (from > 0) ++resumed;
      const Chorus program(words, folder_ / (name + ".log"));
      if (done < kills) {
        // Every second kill comes soon after a checkpoint, the others at any moment.
        if (done % 2 == 1 && from + 1 < kRounds) {
          wait_for_round(name, from + 1);
          std::this_thread::sleep_for(whole / kRounds * std::uniform_real_distribution(0.0, 1.0)(random));
        } else {
          std::this_thread::sleep_for(whole * std::uniform_real_distribution(0.1, 1.0)(random));
        }
        program.send(SIGKILL);
      }
      const int status = program.wait();
      if (status == 128 + SIGKILL) {
        ++done;
        continue;
      }
      ASSERT_EQ(status, 0) << program.output();
      finished = true;
    }
    EXPECT_EQ(weights("whole"), weights(name));
    EXPECT_EQ(scores("whole"), scores(name));
    fs::remove_all(folder_ / name);
  }
  EXPECT_GT(resumed, 0) << "no killed run had a round to go on from";
}

TEST_F(RunTest, FiltersReduceTrafficAndKeepTheirMemoryAcrossAKill) {
  const std::vector<std::string> filters{"algorithm.name=fedavg",
                                         "compression.up=[{name: top_k, k: 0.05}, {name: uniform, bits: 4}]",
                                         "compression.down=[{name: ecq, bits: 4}]"};
  const auto with = [&](const std::string& more) {
    std::vector<std::string> words = filters;
    words.push_back(more);
    return words;
  };
  ASSERT_EQ(run("plain", {"algorithm.name=fedavg"}), 0) << output_;
  ASSERT_EQ(run("whole", filters), 0) << output_;
  const double plain = summary("plain").at("bytes_up"), packed = summary("whole").at("bytes_up");
  EXPECT_LT(packed, plain / 40);  // a twentieth of the elements at 4 bits, plus positions
  EXPECT_LT(summary("whole").at("bytes_down").get<double>(), summary("plain").at("bytes_down").get<double>() / 7);
  for (const std::string& line : scores("whole")) {
    const json event = json::parse(line);
    if (event["kind"] != "round") continue;
    EXPECT_GT(event.at("up_ratio").get<double>(), 40);
    EXPECT_GT(event.at("down_ratio").get<double>(), 7);
    EXPECT_GT(event.at("up_error").get<double>(), 0);
    EXPECT_EQ(event.at("down_error").get<double>() > 0, event.at("round") > 1);
  }
  ASSERT_EQ(run("workers", with("federation.workers=3")), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("workers"));
  EXPECT_EQ(scores("whole"), scores("workers"));

  run_and_kill("killed", filters, 3);
  ASSERT_EQ(resume("killed"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("killed"));
  EXPECT_EQ(scores("whole"), scores("killed"));

  const int status = run("wire", with("federation.transport=serialised"));
  if (status == 2 && output_.find("protobuf") != std::string::npos) GTEST_SKIP() << "this build has no protobuf";
  ASSERT_EQ(status, 0) << output_;
  EXPECT_EQ(weights("whole"), weights("wire"));
  // The wire adds a few names and numbers per message.
  EXPECT_NEAR(summary("wire").at("bytes_up").get<double>(), packed, 6 * 4 * 200);
}

TEST_F(RunTest, AnInterruptedRunSaysHowToResume) {
  ASSERT_EQ(run("whole", {"rounds=40"}), 0) << output_;
  const Chorus program(arguments("stopped", {"rounds=40"}), folder_ / "stopped.log");
  wait_for_round("stopped", 2);
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_THAT(program.output(), HasSubstr("chorus resume " + (folder_ / "stopped").string()));
  ASSERT_EQ(resume("stopped"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("stopped"));
}

TEST_F(RunTest, AFinishedRunCanBeMadeLonger) {
  ASSERT_EQ(run("whole", {"rounds=5"}), 0) << output_;
  ASSERT_EQ(run("longer", {"rounds=3"}), 0) << output_;
  const auto resume_with = [&](const std::string& more) {
    const Chorus program({"resume", (folder_ / "longer").string(), more}, folder_ / "longer.log");
    const int status = program.wait();
    output_ = program.output();
    return status;
  };
  EXPECT_EQ(resume_with("rounds=3"), 2);
  EXPECT_THAT(output_, HasSubstr("has 3 rounds already, and can only be made longer"));
  EXPECT_EQ(resume_with("seed=4"), 2);
  EXPECT_THAT(output_, HasSubstr("only the number of rounds"));
  ASSERT_EQ(resume_with("rounds=5"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("longer"));
  EXPECT_EQ(summary("longer").at("rounds"), 5);
}

TEST_F(RunTest, InterruptsWorkWhileReadingAndWhileTraining) {
  const auto seconds_to_end = [](const Chorus& program, int status) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(program.wait(), status) << program.output();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const Chorus reading(
      arguments("reading", {"data.train=[\"formulation=text_classification,examples=20000000,labels=4\"]"}),
      folder_ / "reading.log");
  std::this_thread::sleep_for(std::chrono::seconds(4));
  reading.send(SIGTERM);
  EXPECT_LT(seconds_to_end(reading, 130), 3);
  EXPECT_THAT(reading.output(), HasSubstr("stopped before the first round"));

  const Chorus training(arguments("training", {"trainer.epochs=1000000"}), folder_ / "training.log");
  std::this_thread::sleep_for(std::chrono::seconds(8));
  training.send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  training.send(SIGINT);
  EXPECT_LT(seconds_to_end(training, 130), 8);
  EXPECT_THAT(training.output(), HasSubstr("stopping after this round; Ctrl-C again stops at once"));
}

TEST_F(RunTest, MistakesAreReportedBeforeAnythingIsWritten) {
  const auto refuse = [&](const std::vector<std::string>& overrides, const std::string& part, int status) {
    EXPECT_EQ(run("bad", overrides), status) << output_;
    EXPECT_THAT(output_, HasSubstr(part));
    EXPECT_THAT(output_, Not(HasSubstr("terminate")));
    EXPECT_FALSE(fs::exists(folder_ / "bad")) << part;
  };
  refuse({"clients_per_round=13"}, "clients_per_round: 13 clients", 2);
  refuse({"trainer.optimizer=adamw"}, "scaffold needs plain gradient steps", 2);
  refuse({"algorithm.name=fedavgg"}, "fedavg", 2);
  refuse({"evaluation.metric=acuracy"}, "acuracy", 2);
  refuse({"model.freeze=[7]"}, "there is no layer 7", 2);
  refuse({"task.name=seq_tagging"}, "seq_tagging", 2);
  refuse({"rounds=0"}, "rounds", 2);
  refuse({"compression.up=[{name: uniform, bits: 3}]"}, "bits", 2);
  refuse({"compression.up=[{name: top_k, k: 2}]"}, "compression.up", 2);
  refuse({"compression.up=[topk]"}, "did you mean", 2);
  refuse({"compression.up=[uniform, top_k]"}, "top_k cannot come after uniform", 2);
  refuse({"compression.down=[top_k]"}, "error_feedback: false", 2);
  std::ofstream(folder_ / "other.json")
      << R"({"niid": {"clients": [{"train": [0, 1, 99999], "test": []}], "method": "label_dirichlet"}})";
  EXPECT_NE(run("bad", {"clients.file=" + (folder_ / "other.json").string()}), 0);
  EXPECT_FALSE(fs::exists(folder_ / "bad"));
}

TEST_F(RunTest, AClientWithoutDataIsNeverAsked) {
  ASSERT_EQ(run("a", {"clients.count=200", "clients.partition=iid", "algorithm.name=fedavg"}), 0) << output_;
  EXPECT_EQ(summary("a").at("rounds"), 6);
}

TEST_F(RunTest, WithoutASingleFiniteLossNothingIsTrained) {
  EXPECT_EQ(run("a", {"trainer.learning_rate=1e30", "algorithm.name=fedavg", "rounds=2"}), 3) << output_;
  EXPECT_THAT(output_, AllOf(HasSubstr("is left out"), HasSubstr("so nothing was trained")));
  EXPECT_THAT(read(folder_ / "a" / "metrics.jsonl"), HasSubstr("client_failed"));
}

TEST_F(RunTest, AClientWhoseTextsAreEmptyFailsAlone) {
  std::ofstream texts(folder_ / "texts.jsonl");
  json clients = json::array();
  for (int client = 0; client < 3; ++client) {
    std::vector<int> ids;
    for (int i = 0; i < 8; ++i) {
      ids.push_back(8 * client + i);
      texts << json{{"text", client == 1 ? " " : "the team won the match"}}.dump() << '\n';
    }
    clients.push_back({{"train", ids}, {"test", json::array()}});
  }
  texts.close();
  std::ofstream(folder_ / "clients.json") << json{
      {"format", "chorus-partition-1"}, {"partitions", {{"p", {{"info", json::object()}, {"clients", clients}}}}}};
  const std::string train = (folder_ / "texts.jsonl").string();
  ASSERT_EQ(run("a", {"data={format: jsonl, formulation: language_model, train: [" + train + "], empty: keep}",
                      "task={name: causal_lm, max_length: 32}",
                      "model.fresh={model_type: gpt2, n_embd: 16, n_layer: 1, n_head: 2, n_positions: 40}",
                      "clients={file: " + (folder_ / "clients.json").string() + "}", "algorithm.name=fedavg",
                      "clients_per_round=3", "rounds=2"}),
            0)
      << output_;
  EXPECT_THAT(read(folder_ / "a" / "metrics.jsonl"), HasSubstr("no rows to train on"));
  EXPECT_EQ(summary("a").at("rounds"), 2);
}

TEST_F(RunTest, ASchedulePerRunAndPerRoundAreTheSameForOneRound) {
  for (const char* span : {"round", "run"}) {
    ASSERT_EQ(run(span, {std::string("trainer.schedule.span=") + span, "rounds=1"}), 0) << output_;
  }
  EXPECT_EQ(weights("run"), weights("round"));
}

TEST_F(RunTest, AFullDiskKeepsTheLastCheckpoint) {
  ASSERT_EQ(run("whole"), 0) << output_;
  // No file may grow to the size of a checkpoint of this model: the first one cannot be written.
  const Chorus program(arguments("full"), folder_ / "full.log", 200'000);
  EXPECT_EQ(program.wait(), 4) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("full"));
  ASSERT_EQ(resume("full"), 0) << output_;
  EXPECT_EQ(weights("whole"), weights("full"));
}

TEST_F(RunTest, AnotherVersionsFolderIsRefused) {
  ASSERT_EQ(run("a", {"rounds=1"}), 0) << output_;
  fs::remove(folder_ / "a" / "summary.json");
  json info = json::parse(read(folder_ / "a" / "run.json"));
  info["format"] = 99;
  std::ofstream(folder_ / "a" / "run.json") << info.dump();
  EXPECT_EQ(resume("a"), 3) << output_;
  EXPECT_THAT(output_, HasSubstr("99"));
  EXPECT_EQ(resume("nothing"), 3) << output_;
}

}  // namespace
}  // namespace chorus::inline integration
