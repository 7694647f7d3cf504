#pragma once

#include <string>
#include <vector>

#include "apps/experiment/run_experiment.h"

namespace chorus::inline cli {

/// A request of this program that Ctrl-C ends after its round, a second Ctrl-C at once. `words`: the command as typed.
RunRequest interruptible_request(const std::vector<std::string>& words);

/// What a run came to, on standard output.
void print_report(const RunReport& report);

}  // namespace chorus::inline cli
