#pragma once

#include <c10/core/Device.h>

#include <CLI/CLI.hpp>
#include <string>

namespace chorus::cli {

/// Parses the command line, runs the subcommand, and turns every error into one sentence and its exit code.
int run(int argc, char** argv);

/// The headings under which `chorus --help` lists the subcommands: `sub->group(kLookAround)`.
inline constexpr const char* kLookAround = "Look around";
inline constexpr const char* kData = "Data";
inline constexpr const char* kModels = "Models and text";
inline constexpr const char* kRuns = "Runs";

/// Each subcommand adds itself to the program: options, help text, and a callback that does the work. The callback
/// throws chorus::Error on failure, with ExitCode::kCheckFailed when it worked and its answer is no. One file a
/// subcommand; the list of them stands in cli.cpp. `--verbose` and `--quiet` belong to the program and work in every
/// place.
void add_list(CLI::App& app);
void add_describe(CLI::App& app);
void add_validate(CLI::App& app);
void add_data(CLI::App& app);
void add_data_encode(CLI::App& app);  ///< after add_data, whose subcommand it joins
void add_data_make(CLI::App& app);    ///< after add_data, whose subcommand it joins
void add_data_shares(CLI::App& app);  ///< after add_data, whose subcommand it joins
void add_score(CLI::App& app);
void add_partition(CLI::App& app);
void add_model(CLI::App& app);
void add_generate(CLI::App& app);
void add_embed(CLI::App& app);
void add_fill(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_compare(CLI::App& app);
void add_sweep(CLI::App& app);
void add_run(CLI::App& app);  ///< and resume
void add_predict(CLI::App& app);
void add_plan(CLI::App& app);
void add_profile(CLI::App& app);

/// "cpu" or "cuda"; ConfigError when it is something else or not there.
c10::Device device_named(const std::string& name);

}  // namespace chorus::cli
