#pragma once

#include <CLI/CLI.hpp>

namespace chorus::cli {

/// Parses the command line, runs the subcommand, and turns every error into one sentence and its exit code.
int run(int argc, char** argv);

/// Each subcommand adds itself to the program: options, help text, and a callback that does the work. The callback
/// throws chorus::Error on failure. One file a subcommand; the list of them stands in cli.cpp.

}  // namespace chorus::cli
