#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>

#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline cli {
namespace {

const auto kAll = [](const CLI::App*) { return true; };

/// "chorus data make".
std::string path_of(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : path_of(*app.get_parent()) + " " + app.get_name();
}

void for_each_command(const CLI::App& app, const std::function<void(const CLI::App&)>& use) {
  use(app);
  for (const CLI::App* sub : app.get_subcommands(kAll)) for_each_command(*sub, use);
}

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// The words that may follow a command: its subcommands and options.
std::vector<std::string> words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands(kAll)) words.push_back(sub->get_name());
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

/// Text of a manual page: no character of it is a command of troff.
std::string roff(const std::string& text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    line_begins = c == '\n';
  }
  return result;
}

std::string manual_page(const CLI::App& app) {
  std::string title = path_of(app);
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string page = fmt::format(".TH \"{}\" 1 \"\" \"Chorus {}\" \"Chorus\"\n.SH NAME\n{} \\- {}\n", roff(title),
                                 roff(CHORUS_VERSION), roff(title), roff(app.get_description()));
  std::string synopsis = path_of(app), positionals, options;
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> names = option_names(*option);
    std::string text = roff(option->get_description());
    if (!option->get_default_str().empty()) text += fmt::format(" (default: {})", roff(option->get_default_str()));
    if (names.empty()) {
      const std::string name = option->get_name(true);
      const bool many = option->get_expected_max() > 1;
      const std::string shown = name + (many ? "..." : "");
      synopsis += option->get_required() ? " " + shown : " [" + shown + "]";
      positionals += fmt::format(".TP\n.B {}\n{}\n", roff(name), text);
    } else {
      options += fmt::format(".TP\n.B {}\n{}\n", roff(fmt::format("{}", fmt::join(names, ", "))), text);
    }
  }
  const auto subs = app.get_subcommands(kAll);
  if (!subs.empty()) synopsis += " COMMAND";
  if (!options.empty()) synopsis += " [OPTIONS]";
  page += ".SH SYNOPSIS\n" + roff(synopsis) + "\n";
  if (!positionals.empty()) page += ".SH ARGUMENTS\n" + positionals;
  if (!options.empty()) page += ".SH OPTIONS\n" + options;
  if (!subs.empty()) page += ".SH COMMANDS\n";
  for (const CLI::App* sub : subs) {
    page += fmt::format(".TP\n.B {}\n{}\n", roff(sub->get_name()), roff(sub->get_description()));
  }
  if (!app.get_footer().empty()) page += ".SH NOTES\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
  return page;
}

std::string bash_completion(const CLI::App& root) {
  std::string commands, words;
  for_each_command(root, [&](const CLI::App& app) {
    if (&app != &root) commands += fmt::format("{}\"{}\"", commands.empty() ? "" : " | ", path_of(app));
    words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path_of(app), fmt::join(words_of(app), " "));
  });
  return fmt::format(R"(# Completion of chorus for bash: source <(chorus completion bash)
_chorus() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} path=chorus words= word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
      {}) path="$path $word" ;;
    esac
  done
  case "$path" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _chorus chorus
)",
                     commands, words);
}

std::string fish_text(std::string text) {
  text = text.substr(0, text.find('\n'));
  std::string quoted;
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "'" + quoted + "'";
}

std::string fish_completion(const CLI::App& root) {
  std::string lines = "# Completion of chorus for fish: chorus completion fish | source\n";
  for_each_command(root, [&](const CLI::App& app) {
    std::string when = &app == &root ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + app.get_name();
    if (app.get_parent() != nullptr && app.get_parent() != &root) {
      when = fmt::format("__fish_seen_subcommand_from {}; and {}", app.get_parent()->get_name(), when);
    }
    for (const CLI::App* sub : app.get_subcommands(kAll)) {
      lines += fmt::format("complete -c chorus -n '{}' -a {} -d {}\n", when, sub->get_name(),
                           fish_text(sub->get_description()));
    }
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        lines +=
            fmt::format("complete -c chorus -n '{}' -l {} -d {}\n", when, name, fish_text(option->get_description()));
      }
    }
  });
  return lines;
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand("completion", "Print a script that completes commands and options in a shell");
  const auto shell = std::make_shared<std::string>();
  command->group(kLookAround);
  command->footer("Examples:\n  source <(chorus completion bash)\n  chorus completion fish | source");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app] {
    if (*shell == "zsh") fmt::print("autoload -U +X bashcompinit && bashcompinit\n");
    fmt::print("{}", *shell == "fish" ? fish_completion(app) : bash_completion(app));
  });
}

void add_manual(CLI::App& app) {
  CLI::App* command = app.add_subcommand("manual", "Write a manual page for every command");
  const auto folder = std::make_shared<std::filesystem::path>();
  command->group(kLookAround);
  command->add_option("FOLDER", *folder, "Where to write chorus.1, chorus-run.1 and so on")->required();
  command->callback([folder, &app] {
    std::error_code error;
    std::filesystem::create_directories(*folder, error);
    if (error) throw DataError(fmt::format("{}: cannot be made: {}", folder->string(), error.message()));
    std::size_t pages = 0;
    for_each_command(app, [&](const CLI::App& one) {
      std::string name = path_of(one);
      std::replace(name.begin(), name.end(), ' ', '-');
      write_file(*folder / (name + ".1"), manual_page(one));
      ++pages;
    });
    fmt::print("{} pages in {}\n", pages, folder->string());
  });
}

}  // namespace chorus::inline cli
