#include "infrastructure/tracking/sweep/child_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "core/base/error.h"

namespace chorus::inline sweep {
namespace {

volatile std::sig_atomic_t pressed = 0;
struct sigaction before {};

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

ChildPrograms::ChildPrograms(std::filesystem::path program, std::size_t threads)
    : program_(std::move(program)), threads_(threads) {
  pressed = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { pressed = 1; };
  ::sigaction(SIGINT, &action, &before);
}

ChildPrograms::~ChildPrograms() {
  while (!children_.empty()) (void)wait();
  ::sigaction(SIGINT, &before, nullptr);
}

bool ChildPrograms::interrupted() { return pressed != 0; }

pid_t ChildPrograms::start(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (output < 0) throw WorldError(fmt::format("{}: cannot be written: {}", log.string(), reason(errno)));
  // Allocate before the fork: afterwards only async-signal-safe calls are allowed.
  std::string program = program_.string();
  std::vector<std::string> copies = arguments;
  std::vector<char*> words = {program.data()};
  for (std::string& word : copies) words.push_back(word.data());
  words.push_back(nullptr);
  std::string threads = fmt::format("OMP_NUM_THREADS={}", threads_);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  if (threads_ > 0 && std::getenv("OMP_NUM_THREADS") == nullptr) environment.push_back(threads.data());
  environment.push_back(nullptr);

  const pid_t child = ::fork();
  if (child == 0) {
    const int input = ::open("/dev/null", O_RDONLY);
    if (input >= 0) ::dup2(input, STDIN_FILENO);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execve(program.c_str(), words.data(), environment.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(output);
  if (child < 0) throw WorldError(fmt::format("a process cannot be started: {}", reason(error)));
  children_.push_back(child);
  return child;
}

std::pair<pid_t, int> ChildPrograms::wait() {
  check(!children_.empty(), "waiting for a child when none runs");
  for (;;) {
    for (auto child = children_.begin(); child != children_.end(); ++child) {
      int status = 0;
      const pid_t ended = ::waitpid(*child, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
      const pid_t id = *child;
      children_.erase(child);
      if (ended < 0) return {id, 127};
      return {id, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
    }
    ::usleep(10'000);
  }
}

}  // namespace chorus::inline sweep
