#pragma once

#include <c10/core/Device.h>

#include <CLI/CLI.hpp>
#include <string>

#include "apps/cli/version.h"  // CHORUS_VERSION calls version()

namespace chorus::inline cli {

/// Parses the command line, runs the subcommand, and turns every error into one message and its exit status.
int run(int argc, char** argv);

/// Headings of the subcommands in `chorus --help`: `sub->group(kLookAround)`.
inline constexpr const char* kLookAround = "Look around";
inline constexpr const char* kData = "Data";
inline constexpr const char* kModels = "Models and text";
inline constexpr const char* kRuns = "Runs";
inline constexpr const char* kFleets = "Fleets";

/// Each subcommand adds itself to the program: options, help text and a callback that does the work. The callback
/// throws chorus::Error on failure, with ExitCode::kCheckFailed when it worked and the answer is no. One file per
/// subcommand, listed in cli.cpp. `--verbose` and `--quiet` belong to the program and work anywhere on the command
/// line.
void add_list(CLI::App& app);
void add_doctor(CLI::App& app);
void add_completion(CLI::App& app);
void add_manual(CLI::App& app);
void add_init(CLI::App& app);
void add_describe(CLI::App& app);
void add_validate(CLI::App& app);
void add_data(CLI::App& app);
void add_data_encode(CLI::App& app);  ///< a subcommand of `data`: call it after add_data
void add_data_make(CLI::App& app);    ///< a subcommand of `data`: call it after add_data
void add_data_export(CLI::App& app);  ///< a subcommand of `data`: call it after add_data
void add_data_shares(CLI::App& app);  ///< a subcommand of `data`: call it after add_data
void add_score(CLI::App& app);
void add_partition(CLI::App& app);
void add_model(CLI::App& app);
void add_model_get(CLI::App& app);  ///< a subcommand of `model`: call it after add_model
void add_generate(CLI::App& app);
void add_embed(CLI::App& app);
void add_fill(CLI::App& app);
void add_tokenize(CLI::App& app);
void add_tokenizer(CLI::App& app);
void add_tokenizer_private(CLI::App& app);  ///< a subcommand of `tokenizer`: call it after add_tokenizer
void add_compare(CLI::App& app);
void add_report(CLI::App& app);
void add_dashboard(CLI::App& app);
void add_sweep(CLI::App& app);
void add_run(CLI::App& app);  ///< and resume
void add_predict(CLI::App& app);
void add_plan(CLI::App& app);
void add_privacy(CLI::App& app);
void add_profile(CLI::App& app);
void add_unlearn(CLI::App& app);
void add_fleet(CLI::App& app);
void add_join(CLI::App& app);
void add_serve(CLI::App& app);
void add_status(CLI::App& app);  ///< and pause, and stop
void add_egress(CLI::App& app);
void add_privacy_audit(CLI::App& app);  ///< a subcommand of `privacy`: call it after the others of it
void add_privacy_graph(CLI::App& app);  ///< a subcommand of `privacy`: call it after the others of it

/// "cpu" or "cuda"; ConfigError for anything else or a missing GPU.
c10::Device device_named(const std::string& name);

}  // namespace chorus::inline cli
