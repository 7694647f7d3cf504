// Commands for people: init, doctor, report, completion, manual, export. As a user types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/program.h"
#include "tests/support.h"

namespace chorus::inline integration {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class People : public testing::Test {
 protected:
  Outcome chorus(const std::string& arguments, const std::string& input = "") const {
    return run_program("XDG_CACHE_HOME=" + path("cache") + " " CHORUS_PROGRAM, arguments + " 2>&1", input);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text_of(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }
  void make_data(const std::string& name, const std::string& options = "") const {
    const Outcome made =
        chorus("data make -f text_classification --labels 3 --clients 4 -n 60 -o " + path(name) + " " + options);
    ASSERT_EQ(made.status, 0) << made.output;
  }

  TemporaryFolder folder_;
};

TEST_F(People, ExportedDataIsReadBackAsItWas) {
  make_data("a.jsonl");
  for (const std::string kind : {"csv", "jsonl"}) {
    const Outcome done = chorus("data export " + path("a.jsonl") + " -o " + path("b." + kind));
    ASSERT_EQ(done.status, 0) << done.output;
    const auto info = [&](const std::string& name) {
      return json::parse(chorus("data info --json " + path(name)).output);
    };
    json before = info("a.jsonl"), after = info("b." + kind);
    EXPECT_EQ(before["fingerprint"], after["fingerprint"]) << kind;
  }
  const Outcome by_client = chorus("data export " + path("a.jsonl") + " --by-client --as csv -o " + path("clients"));
  EXPECT_EQ(by_client.status, 0) << by_client.output;
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "clients")) {
    EXPECT_EQ(entry.path().extension(), ".csv");
    ++files;
  }
  EXPECT_EQ(files, 4U);
  write("plain.csv", "text,label\n\"a, \"\"quoted\"\" text\",x\nother,y\n");
  EXPECT_EQ(chorus("data export " + path("plain.csv") + " --as csv -o " + path("again.csv")).status, 0);
  EXPECT_EQ(text_of("again.csv"), text_of("plain.csv"));
  EXPECT_THAT(chorus("data export " + path("plain.csv") + " --by-client -o " + path("x")).output,
              HasSubstr("names no clients"));
}

TEST_F(People, ReferencesMayBeTheCsvFileThatWasTrainedOn) {
  write("p.txt", "good\nbad\nbad\ngood\n");
  write("r.csv", "text,label,client\n\"a, b\",good,anna\nc,bad,anna\nd,good,ben\ne,good,ben\n");
  const Outcome done = chorus("score --task classification --json --by client --predictions " + path("p.txt") +
                              " --references " + path("r.csv"));
  ASSERT_EQ(done.status, 0) << done.output;
  const json report = json::parse(done.output);
  EXPECT_EQ(report["scores"]["accuracy"], 0.75);
  EXPECT_THAT(done.output, AllOf(HasSubstr("\"anna\""), HasSubstr("\"ben\"")));
  write("k.csv", "Kommentar;Note\n\"a; b\";good\nc;bad\nd;good\ne;good\n");
  const Outcome named = chorus("score --task classification --json --predictions " + path("p.txt") + " --references " +
                               path("k.csv") + " --column text=Kommentar --column label=Note");
  EXPECT_EQ(json::parse(named.output)["scores"]["accuracy"], 0.75) << named.output;
}

TEST_F(People, InitWritesAConfigurationThatIsValid) {
  make_data("a.jsonl");
  ASSERT_EQ(chorus("data export " + path("a.jsonl") + " --by-client --as csv -o " + path("shops")).status, 0);
  const Outcome done = chorus("init " + path("shops") + "/*.csv --no-plan -o " + path("shops.yaml"));
  ASSERT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("each file is one client"));
  EXPECT_THAT(text_of("shops.yaml"),
              AllOf(HasSubstr("# chorus run " + path("shops.yaml") + "\n"), HasSubstr("client_files: true"),
                    HasSubstr("name: text_classification"), HasSubstr("# labels: "), HasSubstr("partition: natural"),
                    HasSubstr("learning_rate: 5e-4")));
  const Outcome valid = chorus("validate " + path("shops.yaml"));
  EXPECT_EQ(valid.status, 0) << valid.output;
  EXPECT_THAT(chorus("init " + path("shops") + " --no-plan -o " + path("shops.yaml")).output,
              HasSubstr("exists already"));
}

TEST_F(People, InitGuessesUnknownColumnsAndSaysSo) {
  std::string rows = "Nr;Kommentar;Note\n";
  for (int i = 0; i < 30; ++i)
    rows += std::to_string(i) + ";das ist Satz " + std::to_string(i) + ";" + (i % 2 == 0 ? "gut" : "schlecht") + "\n";
  write("umfrage.csv", rows);
  const Outcome done = chorus("init " + path("umfrage.csv") + " -o " + path("u.yaml"));
  ASSERT_EQ(done.status, 0) << done.output;
  EXPECT_THAT(done.output, AllOf(HasSubstr("guessed: the text is the column 'Kommentar', the label 'Note'"),
                                 HasSubstr("GB of memory")));
  EXPECT_THAT(text_of("u.yaml"), AllOf(HasSubstr("columns: {text: Kommentar, label: Note}"),
                                       HasSubstr("# chorus plan on this machine: about ")));
  write("bad.csv", "x,y\n1,2\n3,4\n");
  const Outcome refused = chorus("init " + path("bad.csv") + " --no-plan -o " + path("bad.yaml"));
  EXPECT_EQ(refused.status, 3) << refused.output;
  EXPECT_FALSE(fs::exists(folder_ / "bad.yaml"));
}

TEST_F(People, DoctorLooksAtTheMachine) {
  const Outcome text = chorus("doctor");
  EXPECT_EQ(text.status, 0);
  EXPECT_THAT(text.output,
              AllOf(HasSubstr("cores"), HasSubstr("instruction sets"), HasSubstr("GPU"), HasSubstr("disk here")));
  EXPECT_THAT(run_program("OMP_NUM_THREADS=1 " CHORUS_PROGRAM, "doctor 2>&1").output,
              testing::AnyOf(HasSubstr("unset OMP_NUM_THREADS"), HasSubstr("1 (")));
  const json list = json::parse(chorus("doctor --json").output);
  EXPECT_EQ(list.at(0).at("what"), "Chorus");
  EXPECT_THAT(list.at(0).at("value").get<std::string>(), testing::StartsWith(chorus("--version").output.substr(0, 5)));
}

TEST_F(People, CompletionAndManualKnowEveryCommand) {
  const Outcome bash = chorus("completion bash");
  EXPECT_THAT(bash.output,
              AllOf(HasSubstr("complete -o filenames -F _chorus chorus"), HasSubstr("\"chorus data make\"")));
  write("c.bash", bash.output);
  const Outcome tried =
      run_program("bash", "-c '. " + path("c.bash") +
                              "; COMP_WORDS=(chorus data ma); COMP_CWORD=2; _chorus; echo \"${COMPREPLY[@]}\"; "
                              "COMP_WORDS=(chorus compare --ta); COMP_CWORD=2; _chorus; echo \"${COMPREPLY[@]}\"'");
  EXPECT_EQ(tried.output, "make\n--target\n");
  EXPECT_THAT(chorus("completion fish").output, HasSubstr("complete -c chorus -n '__fish_use_subcommand' -a run -d "));
  EXPECT_EQ(chorus("completion tcsh").status, 2);
  ASSERT_EQ(chorus("manual " + path("man")).status, 0);
  EXPECT_THAT(text_of("man/chorus-data-make.1"),
              AllOf(HasSubstr(".SH NAME\nchorus\\-data\\-make"), HasSubstr("\\-\\-examples")));
  EXPECT_TRUE(fs::exists(folder_ / "man" / "chorus.1"));
}

TEST_F(People, AReportOfSomethingElseIsRefused) {
  const Outcome missing = chorus("report " + path("nothing"));
  EXPECT_EQ(missing.status, 3);
  EXPECT_THAT(missing.output, HasSubstr("no such run folder"));
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(chorus("report " + path("empty")).output, HasSubstr("is not a run folder"));
  EXPECT_THAT(chorus("dashboard " + path("nothing")).output, HasSubstr("no such folder"));
}

TEST_F(People, ARunSaysWhoHeldWhatAndHowEachClientIsServed) {
  make_data("a.jsonl");
  const std::string config =
      write("c.yaml", "kind: experiment\nname: tiny\ndata: {train: [" + path("a.jsonl") +
                          "]}\ntask: {name: text_classification, max_length: 16}\nmodel: {from: models/chorus-mini}\n"
                          "clients: {partition: natural, count: 0, test_share: 0.3}\nrounds: 1\nclients_per_round: 2\n"
                          "trainer: {batch_size: 8}\nevaluation: {per_client: true}\n");
  const Outcome done = chorus("run " + config + " --run-folder " + path("run"));
  ASSERT_EQ(done.status, 0) << done.output;
  const json clients = json::parse(text_of("run/clients.json"));
  EXPECT_EQ(clients["method"], "natural");
  EXPECT_EQ(clients["total"], 4);
  int examples = 0;
  for (const json& client : clients["clients"]) {
    int labelled = 0;
    for (const json& count : client["labels"]) labelled += count.get<int>();
    EXPECT_EQ(labelled, client["train"]);
    examples += client["train"].get<int>() + client["test"].get<int>();
  }
  EXPECT_EQ(examples, 60);
  EXPECT_THAT(text_of("run/metrics.jsonl"),
              HasSubstr("\"client/" + clients["clients"][0]["name"].get<std::string>() + "\":"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "progress.json")) << "it goes with the run";
  const Outcome elsewhere = run_program("env -C / " CHORUS_PROGRAM, "resume " + path("run") + " rounds=2 2>&1");
  EXPECT_EQ(elsewhere.status, 2);
  EXPECT_THAT(elsewhere.output,
              AllOf(HasSubstr("models/chorus-mini"), HasSubstr("Go there and type: chorus resume " + path("run"))));
  const Outcome report = chorus("report " + path("run") + " -o " + path("r.html"));
  if (report.output.find("esbuild") != std::string::npos) GTEST_SKIP() << report.output;
  EXPECT_EQ(report.status, 0) << report.output;
  EXPECT_THAT(text_of("r.html"),
              AllOf(HasSubstr("Content-Security-Policy"), HasSubstr("\"label\":\"run\""), Not(HasSubstr("{{"))));
}

}  // namespace
}  // namespace chorus::inline integration
