#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace chorus::inline tests {

/// Exit status and output of a run of the program.
struct Outcome {
  int status = -1;  ///< exit status, or 128 + the signal that ended it
  std::string output;
};

/// Runs a program through a shell in the root of the repository, with one line of input (without quotes). The output is
/// standard output; with 2>&1 among the arguments also standard error.
///
///     const Outcome info = run_program(CHORUS_PROGRAM, "model info " + folder + " 2>&1");
inline Outcome run_program(const std::string& program, const std::string& arguments, const std::string& input = "") {
  const std::string command =
      "cd " CHORUS_SOURCE_DIR " && printf '%s\n' '" + input + "' | " + program + " " + arguments;
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) outcome.output.append(buffer, got);
  const int status = ::pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace chorus::inline tests
