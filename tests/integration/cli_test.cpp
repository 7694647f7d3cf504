// The program as a user sees it: what it prints where, and its exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int status;
  std::string output;  // stdout, stderr or both, depending on the redirection
};

/// Runs `chorus ARGUMENTS` through the shell; stderr is part of the output unless redirected.
Outcome chorus(const std::string& arguments) {
  const std::string command = std::string(CHORUS_PROGRAM) + " " + arguments;
  FILE* pipe = ::popen(("{ " + command + " ; } 2>&1 </dev/null").c_str(), "r");
  Outcome outcome{-1, ""};
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    std::string pattern = (fs::temp_directory_path() / "chorus_cli_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CliTest() override { fs::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  fs::path folder_;
};

TEST_F(CliTest, HelpIsPrinted) {
  const Outcome help = chorus("--help 2>/dev/null");
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Look around"), HasSubstr("validate"), HasSubstr("Exit status")));
  for (const char* same : {"", "-h", "help"}) EXPECT_EQ(chorus(same).output, help.output) << same;
  const Outcome of_command = chorus("validate --help");
  EXPECT_EQ(of_command.status, 0);
  EXPECT_THAT(of_command.output, AllOf(HasSubstr("--print"), HasSubstr("Examples:"), Not(HasSubstr("Exit status"))));
  EXPECT_EQ(chorus("help validate").output, of_command.output);
}

TEST_F(CliTest, TheVersionIsPrintedWithoutLoadingLibTorch) {
  const Outcome version = chorus("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+.*\n"));
  EXPECT_EQ(chorus("--quiet --version").output, version.output) << "the whole program says the same";
  EXPECT_EQ(chorus("--version >/dev/full").status, 4);
  // The loader's own list: what the program loads before its first line runs.
  const auto libraries = [](const std::string& program) {
    return chorus("--version >/dev/null; LD_TRACE_LOADED_OBJECTS=1 " + program).output;
  };
  EXPECT_THAT(libraries(CHORUS_PROGRAM), AllOf(HasSubstr("libc.so"), Not(HasSubstr("torch"))));
  EXPECT_THAT(libraries(CHORUS_PROGRAM "-main"), HasSubstr("torch"));
  const Outcome alone = chorus("--version >/dev/null; cp " CHORUS_PROGRAM " " + folder_.string() + "/chorus; " +
                               folder_.string() + "/chorus list");
  EXPECT_EQ(alone.status, 4);
  EXPECT_THAT(alone.output, AllOf(HasSubstr("chorus-main: No such file"), HasSubstr("belongs beside chorus")));
}

TEST_F(CliTest, MistypedCommandsAndOptions) {
  const Outcome command = chorus("valdate x.yaml");
  EXPECT_EQ(command.status, 2);
  EXPECT_THAT(command.output, HasSubstr("chorus: unknown command 'valdate'; did you mean 'validate'?"));
  const Outcome option = chorus("list --jsn");
  EXPECT_EQ(option.status, 2);
  EXPECT_THAT(option.output,
              AllOf(HasSubstr("unknown option --jsn; did you mean '--json'?"), HasSubstr("Try 'chorus list --help'")));
  EXPECT_EQ(chorus("validate").status, 2);
  EXPECT_EQ(chorus("--verbose").status, 2);
  EXPECT_EQ(chorus("list --quiet --verbose").status, 2);
}

TEST_F(CliTest, NumbersOutOfRange) {
  const Outcome make = chorus("data make -f seq2seq -o " + (folder_ / "x.jsonl").string() + " -n -5");
  EXPECT_EQ(make.status, 2);
  EXPECT_THAT(make.output, AllOf(HasSubstr("-5 is negative"), HasSubstr("Try 'chorus data make --help'")));
  EXPECT_FALSE(fs::exists(folder_ / "x.jsonl"));
  for (const char* command : {"data sample x.csv -n -1", "data info x.csv --labels -1", "partition show x.h5 --rows -3",
                              "tokenizer train --type bpe --out x --vocab-size -3 x.txt", "data make --clients -1",
                              "sweep x.yaml --first-seed -1", "score --task lm --predictions x --seed -1",
                              "tokenize --tokenizer x --max-length 0", "tokenize --tokenizer x --stride -1"}) {
    const Outcome outcome = chorus(command);
    EXPECT_EQ(outcome.status, 2) << command << ": " << outcome.output;
    EXPECT_LT(outcome.output.size(), 200U) << outcome.output;
  }
  EXPECT_THAT(chorus("sweep x.yaml --first-seed -1").output, HasSubstr("-1 is"));
  EXPECT_THAT(chorus("data make -f seq2seq -o x -n 1e3").output,
              HasSubstr("--examples: '1e3' is not a number that it can have"));
  const std::string made = "formulation=text_classification,labels=4,seed=7,examples=99999999999999";
  const Outcome many = chorus("validate " CHORUS_SOURCE_DIR "/configs/demo.yaml 'data.train=[\"" + made + "\"]'");
  EXPECT_EQ(many.status, 2);
  EXPECT_THAT(many.output, HasSubstr("examples is 99999999999999, but must be 0 to 1000000000"));
  EXPECT_THAT(chorus("dashboard --port 99999").output, HasSubstr("99999 not in range 0 to 65535"));
  EXPECT_THAT(chorus("tokenizer train --type unigram --out x x.txt").output,
              HasSubstr("unigram is none of wordpiece, bpe"));
}

TEST_F(CliTest, ValidateFindsWhatDoesNotExist) {
  const std::string root = CHORUS_SOURCE_DIR;
  const std::string config = file("e.yaml", "kind: experiment\ntask: text_classification\ndata: {train: [" + root +
                                                "/README.md]}\nmodel: {from: " + root + "/models/chorus-mini}\n");
  EXPECT_EQ(chorus("validate " + config).status, 0) << chorus("validate " + config).output;
  const auto refused = [&](const std::string& override, const std::string& part) {
    const Outcome outcome = chorus("validate " + config + " '" + override + "'");
    EXPECT_EQ(outcome.status, 2) << override << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(part));
  };
  refused("data.train=[none.jsonl]", "data.train: none.jsonl does not exist");
  refused("data={format: synthetic, train: [none.jsonl]}", "none.jsonl");
  refused("data.format=synthetic", "README.md is a file, but data.format is synthetic");
  refused("clients.file=none.h5", "clients.file: none.h5 does not exist");
  refused("model.from=" + root + "/models/none", "models/none");
  refused("evaluation.metric=acuracy", "this task has no score \"acuracy\"; it has eval_loss, accuracy");
  refused("trainer.learning_rate=inf", "trainer.learning_rate: 'inf' is not finite");
  refused("emulation={fleet: [{profile: nokia}]}", "nokia");
  refused("device=gpu", "did you mean 'cuda'?");
  refused("model={fresh: {model_type: bert, hiden_size: 32}, tokenizer: " + root + "/models/chorus-mini}",
          "'hiden_size'; did you mean 'hidden_size'?");
}

TEST_F(CliTest, DamagedInputIsReportedWithoutLibraryMessages) {
  fs::create_symlink("loop", folder_ / "loop");
  file("config.json", "{\"model_type\": \"bert\",");
  file("model.safetensors.index.json", "{\"weight_map\": {");
  for (const std::string& command :
       {"data info " + (folder_ / "loop").string(), "model info " + folder_.string(),
        "fill --model " + (folder_ / "loop").string(), "tokenize --tokenizer " + (folder_ / "loop").string()}) {
    const Outcome outcome = chorus(command);
    EXPECT_THAT(outcome.status, ::testing::AnyOf(2, 3, 4)) << command;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(folder_.string()), Not(HasSubstr("filesystem error")),
                                      Not(HasSubstr("json.exception")), Not(HasSubstr("[json"))));
  }
  file("config.json", "{\"model_type\": \"bert\"}");
  const Outcome index = chorus("model info " + folder_.string());
  EXPECT_EQ(index.status, 3);
  EXPECT_THAT(index.output, AllOf(HasSubstr("not valid JSON at byte"), Not(HasSubstr("exception"))));
}

TEST_F(CliTest, ListShowsKindsAndNames) {
  const Outcome all = chorus("list");
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(all.output, AllOf(HasSubstr("kind"), HasSubstr("summary")));
  EXPECT_EQ(chorus("list --quiet").output, all.output);
  EXPECT_THAT(chorus("list --json").output, HasSubstr("["));
  const Outcome wrong = chorus("list nothing-like-it");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.output, HasSubstr("unknown kind 'nothing-like-it'"));
  const Outcome nobody = chorus("describe nothing-like-it");
  EXPECT_EQ(nobody.status, 2);
  EXPECT_THAT(nobody.output, HasSubstr("unknown name 'nothing-like-it'"));
}

TEST_F(CliTest, ValidateReportsMistakes) {
  EXPECT_EQ(chorus("validate " + (folder_ / "none.yaml").string()).status, 3);
  EXPECT_EQ(chorus("validate " + folder_.string()).status, 3);
  const Outcome broken = chorus("validate " + file("broken.yaml", "a: [1\nb: 2\n"));
  EXPECT_EQ(broken.status, 2);
  EXPECT_THAT(broken.output, AllOf(HasSubstr("broken.yaml:2:"), HasSubstr("is not valid YAML")));
  const Outcome binary = chorus("validate " + file("binary.yaml", std::string("\x7f"
                                                                              "ELF\0\0\1",
                                                                              7)));
  EXPECT_EQ(binary.status, 2);
  EXPECT_THAT(binary.output, HasSubstr("is not a text file"));
  const Outcome kind = chorus("validate " + file("kind.yaml", "kind: exprimnt-of-mine\n"));
  EXPECT_EQ(kind.status, 2);
  EXPECT_THAT(kind.output, HasSubstr("kind: unknown config 'exprimnt-of-mine'"));
}

TEST_F(CliTest, PrivacyGraphRoundsSharesUpAndSaysSo) {
  const Outcome usual = chorus("privacy graph --clients 200");
  EXPECT_THAT(usual.output, AllOf(HasSubstr("of 200 clients 20 may collude with the server (corrupt 0.1) and 40 may "
                                            "vanish (dropout 0.2)"),
                                  HasSubstr("neighbours 44, threshold 20 ")));
  const Outcome small = chorus("privacy graph --clients 6 --dropout 0.3");
  EXPECT_THAT(small.output, AllOf(HasSubstr("of 6 clients 1 may collude"), HasSubstr("2 may vanish (dropout 0.3)"),
                                  HasSubstr("neighbours 4, threshold 2 ")));
  const Outcome published =
      chorus("privacy graph --clients 1000 --corrupt 0.05 --dropout 0.05 --server semi-malicious");
  EXPECT_THAT(published.output, HasSubstr("neighbours 52, threshold 37 (semi-malicious server"));
  const Outcome precise = chorus("privacy graph --clients 200 --security-bits 300");
  EXPECT_EQ(precise.status, 2);
  EXPECT_THAT(precise.output, HasSubstr("at most 200"));
}

TEST_F(CliTest, AFullDiskIsReported) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const Outcome list = chorus("list --json >/dev/full; echo status $?");
  EXPECT_THAT(list.output, AllOf(HasSubstr("the output cannot be written"), HasSubstr("status 4")));
}

TEST_F(CliTest, AWrongLogLevelIsNamed) {
  ::setenv("CHORUS_LOG", "loud", 1);
  const Outcome outcome = chorus("list --verbose");
  ::unsetenv("CHORUS_LOG");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("CHORUS_LOG: 'loud' is not a log level"));
}

}  // namespace
