// Emulated devices, plans and profiles as a user sees them.
#include <gmock/gmock.h>

#include "tests/integration/run_fixture.h"
#include "tests/program.h"

namespace chorus::inline integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EmulationTest : public RunTest {
 protected:
  EmulationTest() : RunTest(tiny_yaml(2, "checkpoint: {every: 1, keep: 10}\n")) {}

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static Outcome chorus(const std::string& arguments) {
    return run_program("{ " CHORUS_PROGRAM, arguments + " ; } 2>&1");
  }
  Outcome run(const std::string& name, const std::string& overrides) const {
    return chorus("run " + path("tiny.yaml") + " --run-folder " + path(name) + " " + overrides);
  }
  std::vector<json> events(const std::string& name, const std::string& kind) const {
    std::vector<json> found;
    std::ifstream file(folder_ / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      json event = json::parse(line);
      if (event["kind"] == kind) found.push_back(std::move(event));
    }
    return found;
  }

  /// Restores the state of a process that died after round 3.
  void lose_the_end(const std::string& name) const {
    fs::remove(folder_ / name / "summary.json");
    for (const char* round : {"round_000004", "round_000005", "round_000006"}) {
      ASSERT_TRUE(fs::remove_all(folder_ / name / "checkpoints" / round) > 0);
    }
  }
};

TEST_F(EmulationTest, WithoutTheKeyNothingIsEmulated) {
  ASSERT_EQ(run("plain", "").status, 0);
  EXPECT_FALSE(summary("plain").contains("emulated_seconds"));
  EXPECT_FALSE(events("plain", "round").at(0).contains("emulated_seconds"));
  const Outcome compared = chorus("compare --x emulated " + path("plain"));
  EXPECT_EQ(compared.status, 2);
  EXPECT_THAT(compared.output, HasSubstr("emulation"));
}

TEST_F(EmulationTest, ReportsTimeBytesAndJoulesToEachTarget) {
  const Outcome done = run("a", "'emulation={scale_depth: true}' 'evaluation.targets=[0.05, 0.3, 0.99]'");
  ASSERT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output, AllOf(HasSubstr("on the emulated devices"), HasSubstr("accuracy 0.99: not reached")));
  const json result = summary("a");
  double seconds = 0, joules = 0;
  for (const json& round : events("a", "round")) {
    EXPECT_GT(round.at("emulated_seconds").get<double>(), 0);
    EXPECT_GT(round.at("client_bytes").get<double>(), 0);
    // The emulated links carry exactly the counted bytes.
    EXPECT_DOUBLE_EQ(round.at("client_bytes").get<double>() * 4,
                     round.at("bytes_up").get<double>() + round.at("bytes_down").get<double>());
    seconds += round.at("emulated_seconds").get<double>();
    joules += round.at("emulated_joules").get<double>();
  }
  EXPECT_DOUBLE_EQ(result.at("emulated_seconds").get<double>(), seconds);
  EXPECT_DOUBLE_EQ(result.at("emulated_joules").get<double>(), joules);
  EXPECT_DOUBLE_EQ(events("a", "evaluation").back().at("emulated_seconds").get<double>(), seconds);
  EXPECT_DOUBLE_EQ(result.at("client_memory").get<double>(), 5.3e9);  // full training, all layers
  const json& targets = result.at("targets");
  ASSERT_EQ(targets.size(), 3U);
  EXPECT_EQ(targets[0].at("reached").at("round"), 0);  // before the first round it costs nothing
  EXPECT_EQ(targets[0].at("reached").at("emulated_seconds"), 0);
  EXPECT_TRUE(targets[2].at("reached").is_null());
  if (!targets[1].at("reached").is_null()) {
    EXPECT_LT(targets[1].at("before").at("emulated_seconds"), targets[1].at("reached").at("emulated_seconds"));
    EXPECT_LT(targets[1].at("before").at("score"), 0.3);
    EXPECT_GE(targets[1].at("reached").at("score"), 0.3);
  }
  const Outcome compared = chorus("compare --x emulated --target 0.05 " + path("a"));
  EXPECT_EQ(compared.status, 0);
  EXPECT_THAT(compared.output, AllOf(HasSubstr("emulated seconds"), HasSubstr("0 rounds, 0.0 s")));
}

TEST_F(EmulationTest, ResumesToTheSameResult) {
  const std::string hard =
      " 'emulation={scale_depth: true, fleet: [{profile: jetson_tx2}, {profile: rpi_4b}], dropout: 0.2, deadline: 20, "
      "bandwidth: {kind: lognormal}, stragglers: {jitter: 0.3}}' 'evaluation.targets=[0.3]' clients_per_round=8";
  for (const std::string algorithm : {"fedavg", "'{name: fedbuff, buffer: 2, concurrency: 4}'"}) {
    const std::string name = algorithm.substr(0, 3) == "fed" ? "avg" : "buff";
    const Outcome done = run(name, "algorithm=" + algorithm + hard);
    ASSERT_EQ(done.status, 0) << done.output;
    const json whole = summary(name);
    const std::string weights = read(folder_ / name / "model" / "model.safetensors");
    double left_out = 0, stale = 0;
    for (const json& round : events(name, "round")) {
      EXPECT_LE(round.at("emulated_seconds").get<double>(), 20);
      left_out += round.at("left_out").get<double>();
      stale += round.value("staleness", 0.0);
    }
    EXPECT_GT(left_out, 0);
    EXPECT_TRUE(events(name, "client_failed").empty());  // intended by the emulation
    EXPECT_EQ(stale > 0, name == "buff");
    lose_the_end(name);
    const Outcome resumed = chorus("resume " + path(name));
    ASSERT_EQ(resumed.status, 0) << resumed.output;
    EXPECT_EQ(read(folder_ / name / "model" / "model.safetensors"), weights) << name;
    json again = summary(name), before = whole;
    for (json* one : {&again, &before}) {
      for (const char* part :
           {"", "setup_", "train_", "evaluation_", "checkpoint_", "checkpoint_background_", "save_"}) {
        one->erase(std::string(part) + "seconds");
      }
      for (json& target : one->at("targets")) {
        for (const char* key : {"reached", "before"}) {
          if (!target.at(key).is_null()) target.at(key).erase("seconds");
        }
      }
    }
    EXPECT_EQ(again, before) << name;
  }
}

TEST_F(EmulationTest, ClientsComeAndGoOnTheEmulatedClock) {
  // Clients 0 to 3 can be reached in the first second only, the others from second 200 on.
  std::string trace = "client,start,end\n";
  for (int client = 0; client < 12; ++client) trace += std::to_string(client) + (client < 4 ? ",0,1\n" : ",200,1e9\n");
  write("trace.csv", trace);
  const Outcome done = run("a", "'selection={name: available, unit: seconds, trace: " + path("trace.csv") +
                                    "}' 'emulation={scale_depth: true, idle_seconds: 90}'");
  ASSERT_EQ(done.status, 0) << done.output;
  const auto rounds = events("a", "round");
  EXPECT_EQ(rounds.at(0).at("clients"), 4);
  double clock = rounds.at(0).at("emulated_seconds").get<double>();
  for (std::size_t i = 1; i < rounds.size(); ++i) {
    const double seconds = rounds[i].at("emulated_seconds").get<double>();
    EXPECT_EQ(rounds[i].at("clients").get<int>(), clock < 200 ? 0 : 4) << clock;
    EXPECT_EQ(seconds == 90, clock < 200);
    clock += seconds;
  }
  EXPECT_EQ(rounds.back().at("clients"), 4);
}

TEST_F(EmulationTest, ADeadlineThatNoClientMeetsIsReported) {
  const Outcome done = run("a", "rounds=2 'emulation={scale_depth: true, deadline: 0.001}'");
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.output, AllOf(HasSubstr("no answer could be used"), HasSubstr("is the deadline")));
  EXPECT_EQ(summary("a").at("emulated_seconds"), 0.002);
  EXPECT_EQ(summary("a").at("examples"), 0);
}

TEST_F(EmulationTest, MistakesAreNamedBeforeAnythingStarts) {
  const auto fails = [&](const std::string& overrides, int status, const std::string& part) {
    const Outcome outcome = run("never", overrides);
    EXPECT_EQ(outcome.status, status) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(part));
    EXPECT_FALSE(fs::exists(folder_ / "never"));
  };
  fails("'emulation={fleet: [{profile: rpi5}]}'", 2, "rpi_4b");
  fails("'emulation={}'", 2, "scale_depth");
  fails("'emulation={bandwidth: {kind: constant, up: -1}}'", 2, "emulation.bandwidth.up");
  fails("algorithm=fedbuff 'emulation={scale_depth: true, over_selection: 2}'", 2, "over_selection");
  const std::string cut = write("cut.csv", "seconds,mbps\n0,1\n7");
  fails("'emulation={scale_depth: true, bandwidth: {kind: trace, trace: " + cut + "}}'", 3, "cut.csv:3");
  const std::string shallow = write("shallow.yaml", "name: s\nlayers: 2\nfull: {seconds: [1, 2]}\n");
  fails("'emulation={fleet: [{profile: " + shallow + "}]}'", 2, "no depth 2");
}

TEST_F(EmulationTest, APlanPredictsTheRun) {
  const std::string settings = " 'emulation={scale_depth: true, over_selection: 1.5, dropout: 0.1}'";
  const Outcome planned = chorus("plan " + path("tiny.yaml") + settings + " --json 2>/dev/null");
  ASSERT_EQ(planned.status, 0) << planned.output;
  const json plan = json::parse(planned.output);
  ASSERT_EQ(run("a", settings).status, 0);
  EXPECT_NEAR(plan.at("emulated_seconds").get<double>(), summary("a").at("emulated_seconds").get<double>(), 1e-6);
  ASSERT_EQ(run("b", "").status, 0);
  const Outcome plain = chorus("plan " + path("tiny.yaml") + " --json 2>/dev/null");
  const json bytes = json::parse(plain.output);
  for (const json& round : events("b", "round")) {
    EXPECT_EQ(round.at("bytes_down").get<double>(), bytes.at("round_bytes_down").get<double>());
    EXPECT_EQ(round.at("bytes_up").get<double>(), bytes.at("round_bytes_up").get<double>());
  }
  EXPECT_GT(bytes.at("peak_memory").get<double>(), 5e7);
  EXPECT_GT(bytes.at("seconds").get<double>(), 0);
  const Outcome text = chorus("plan " + path("tiny.yaml") + settings + " 2>/dev/null");
  EXPECT_THAT(text.output, AllOf(HasSubstr(" up per round; "), HasSubstr(" s per evaluation, "),
                                 HasSubstr("(1 workers with 2 each)")));
  EXPECT_THAT(text.output, AllOf(HasSubstr("emulated "), Not(HasSubstr(" a round"))));
  const Outcome refused = chorus("plan " + path("tiny.yaml") + " trainer.batch_size=100000000");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("does not fit"), HasSubstr("trainer.batch_size")));
}

TEST_F(EmulationTest, AMeasuredProfileCanBeUsed) {
  const std::string file = path("here.yaml");
  const Outcome measured =
      chorus("profile --model models/chorus-mini --length 16 --batch-size 2 --batches 1 --depths 0,4 --out " + file);
  ASSERT_EQ(measured.status, 0) << measured.output;
  EXPECT_EQ(chorus("validate " + file).status, 0);
  EXPECT_THAT(read(file), AllOf(HasSubstr("adapter_cached:\n  depths: [0, 4]"), HasSubstr("full:\n  depths: [0, 4]")));
  const Outcome used = run("a", "rounds=2 'emulation={scale_depth: true, fleet: [{profile: " + file + "}]}'");
  EXPECT_EQ(used.status, 0) << used.output;
  EXPECT_GT(summary("a").at("emulated_seconds").get<double>(), 0);
  EXPECT_EQ(chorus("profile --model models/chorus-mini --depths 0,9 --length 16").status, 2);
  EXPECT_EQ(chorus("profile --model models/chorus-mini --length 100000").status, 2);
  EXPECT_EQ(chorus("profile --model models/chorus-mini --ways adaptor --length 16").status, 2);
  EXPECT_EQ(chorus("profile --model models/chorus-mini --out /nowhere/x.yaml").status, 3);
}

}  // namespace
}  // namespace chorus::inline integration
