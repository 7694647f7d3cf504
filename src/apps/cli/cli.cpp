#include "apps/cli/cli.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/cli/option_checks.h"
#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/console/log.h"
#include "core/console/progress.h"
#include "core/console/terminal.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  chorus list                     names of this build\n"
    "  chorus describe NAME            what a name means and its settings\n"
    "  chorus validate CONFIG a.b=1    check a configuration\n"
    "  chorus COMMAND --help           the options of a command\n"
    "\n"
    "Exit status: 0 done, 1 the answer is no, 2 wrong option or configuration, 3 wrong file,\n"
    "4 external failure (full disk, lost peer, timeout), 70 a bug in Chorus, 130 interrupted.";

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

void add_options(CLI::App& app) {
  app.name("chorus");
  app.require_subcommand(1);
  app.fallthrough();
  app.get_formatter()->column_width(30);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", CHORUS_VERSION, "Print the version and exit");
  auto* verbose = app.add_flag_function(
      "-v,--verbose", [](std::int64_t) { set_log_level(LogLevel::kDebug); }, "Log more, as CHORUS_LOG=debug");
  auto* quiet = app.add_flag_function(
      "-q,--quiet",
      [](std::int64_t) {
        set_log_level(LogLevel::kError);
        set_progress_enabled(false);
      },
      "Log errors only, show no progress");
  quiet->excludes(verbose);
}

void add_commands(CLI::App& app) {
  add_list(app);
  add_describe(app);
  add_validate(app);
  add_doctor(app);
  add_completion(app);
  add_manual(app);
  add_data(app);
  add_data_make(app);
  add_data_export(app);
  add_data_shares(app);
  add_partition(app);
  add_data_encode(app);
  add_model(app);
  add_model_get(app);
  add_generate(app);
  add_embed(app);
  add_fill(app);
  add_tokenize(app);
  add_tokenizer(app);
  add_tokenizer_private(app);
  add_init(app);
  add_plan(app);
  add_run(app);
  add_predict(app);
  add_score(app);
  add_sweep(app);
  add_compare(app);
  add_report(app);
  add_dashboard(app);
  add_privacy(app);
  add_profile(app);
  add_fleet(app);
  add_serve(app);
  add_status(app);
  add_join(app);
  add_egress(app);
  add_privacy_graph(app);
  add_privacy_audit(app);
  add_unlearn(app);
}

/// The deepest command that the arguments name, and the unknown word after it where a command was expected.
struct Named {
  const CLI::App* app;
  std::string unknown;
};

Named command_named(const CLI::App& app, const std::vector<std::string>& arguments) {
  Named named{&app, ""};
  for (const std::string& argument : arguments) {
    if (argument.starts_with('-')) continue;
    if (subcommand_names(*named.app).empty()) break;
    const auto subs = named.app->get_subcommands([&](const CLI::App* sub) { return sub->check_name(argument); });
    if (subs.empty()) return {named.app, argument};
    named.app = subs.front();
  }
  return named;
}

int report_usage(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  const Named named = command_named(app, arguments);
  std::string command = named.app->get_name();
  for (const CLI::App* above = named.app->get_parent(); above != nullptr; above = above->get_parent()) {
    command = above->get_name() + " " + command;
  }
  std::string message = printable(error.what());
  if (!named.unknown.empty()) {
    message = fmt::format("unknown command '{}'{}", shortened(named.unknown, 40),
                          did_you_mean(named.unknown, subcommand_names(*named.app)));
  } else if (constexpr std::string_view raw = "Could not convert: "; message.starts_with(raw)) {
    // "Could not convert: --examples = 1e3"
    const std::string text = message.substr(raw.size());
    const std::size_t sign = std::min(text.find(" = "), text.size());
    const std::string value = sign < text.size() ? text.substr(sign + 3) : "";
    message = fmt::format("{}: '{}' is not a number that it can have", text.substr(0, sign), shortened(value, 40));
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> options;
    for (const CLI::App* level : {named.app, &app}) {
      for (const CLI::Option* option : level->get_options()) {
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      }
    }
    for (const std::string& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      if (!word.starts_with("--") || std::find(options.begin(), options.end(), word) != options.end()) continue;
      message = fmt::format("unknown option {}{}", shortened(word, 40), did_you_mean(word, options));
      break;
    }
  }
  fmt::print(stderr, "chorus: {}\nTry '{} --help'.\n", message, command);
  return static_cast<int>(ExitCode::kUsage);
}

bool log_is_json() {
  const char* format = std::getenv("CHORUS_LOG_FORMAT");
  return format != nullptr && std::string_view(format) == "json";
}

/// As Log writes it: one JSON object per line for machines that read it, or a sentence for people.
void report(const std::string& sentence) {
  if (log_is_json()) {
    Log("chorus").error("{}", sentence);
  } else {
    fmt::print(stderr, "chorus: {}\n", sentence);
  }
}

int report_bug(const std::string& message) {
  fmt::print(
      stderr,
      "chorus: internal error: {}\nThis is a bug in Chorus. Please report this line with the command you ran and "
      "the output of 'chorus --version'.\n",
      printable(message));
  return static_cast<int>(ExitCode::kInternal);
}

}  // namespace

int run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  CLI::App app{"Chorus: federated learning for language models"};
  if (log_is_json()) set_progress_enabled(false);
  try {
    add_options(app);
    add_commands(app);
    refuse_negative_numbers(app);
    app.footer(kExamples);  // added after the commands, which would inherit it
    if (arguments.empty()) arguments = {"--help"};
    if (arguments.front() == "help") {
      arguments.erase(arguments.begin());
      arguments.emplace_back("--help");
    }
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw WorldError("the output cannot be written");
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::Success& done) {
    return app.exit(done);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, arguments);
  } catch (const InternalError& error) {
    return report_bug(first_line(error));
  } catch (const Error& error) {
    report(error.what());
    return static_cast<int>(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    report(fmt::format("{}: {}", printable(error.path1().string()), error.code().message()));
    return static_cast<int>(ExitCode::kWorld);
  } catch (const std::system_error& error) {
    const bool output = std::ferror(stdout) != 0;
    report(output ? "the output cannot be written" : printable(error.what()));
    return static_cast<int>(ExitCode::kWorld);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) return report_bug(first_line(error));
    report(
        "there is not enough memory on this machine or its GPU; train fewer clients at a time "
        "(federation.cohort_batch), use smaller batches (trainer.batch_size) or shorter texts (task.max_length), or "
        "end other programs");
    return static_cast<int>(ExitCode::kWorld);
  } catch (...) {
    return report_bug("an exception of unknown type");
  }
}

}  // namespace chorus::inline cli
