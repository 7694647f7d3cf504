#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/run_fixture.h"
#include "tests/support.h"

namespace chorus::inline integration {

/// A program in the background that does not outlive its test.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const fs::path& output) : program_(arguments, output) {}
  ~Child() {
    if (waited_) return;
    send(SIGKILL);
    (void)wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void send(int signal) const { program_.send(signal); }
  int wait() {
    waited_ = true;
    return program_.wait();
  }
  std::string output() const { return program_.output(); }

 private:
  Chorus program_;
  bool waited_ = false;
};

/// A server and clients as processes of their own, as a user starts them, on this machine's loopback.
class ServingTest : public testing::Test {
 protected:
  ServingTest();
  ~ServingTest() override;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Runs `chorus ARGUMENTS` to its end.
  int chorus(const std::vector<std::string>& arguments);
  /// Creates the fleet, invites these clients and keeps their tokens.
  void make_fleet(const std::vector<std::string>& names);
  /// Writes config.yaml: `more` follows what all tests have in common. `server`: without the clients' data.
  void write_config(const std::string& name, const std::string& more, bool server);

  std::unique_ptr<Child> serve(const std::string& name, const std::vector<std::string>& more = {});
  /// `once`: it ends with the run.
  std::unique_ptr<Child> join(const std::string& name, const std::vector<std::string>& more = {}, bool once = true);
  using Clients = std::map<std::string, std::unique_ptr<Child>>;
  /// a, b, c and d, who have examples: all members of a fleet that most tests need.
  Clients join_four(const std::vector<std::string>& more = {});
  static void expect_success(const Clients& clients);
  /// The server's status as JSON; null when no server is running.
  json status();
  /// Until `condition` of the status holds; a minute at most.
  template <typename Condition>
  bool eventually(Condition condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < limit) {
      const json now = status();
      if (!now.is_null() && condition(now)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  /// Until the run has a checkpoint of this round or a later one; a minute at most.
  bool reaches(const std::string& run, int round) const;
  std::string weights(const std::string& run) const { return read(folder_ / run / "model" / "model.safetensors"); }

  TemporaryFolder folder_;
  int port_;
  std::map<std::string, std::string> tokens_;
  std::string output_;
  int calls_ = 0;
};

}  // namespace chorus::inline integration
