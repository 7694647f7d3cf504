#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/audits/unlearning_audit.h"
#include "apps/cli/cli.h"
#include "apps/cli/option_checks.h"
#include "apps/experiment/unlearning.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline cli {
namespace {

struct UnlearnCommand {
  UnlearnRequest request;
  std::string run, out;
};

void unlearn_command(UnlearnCommand command) {
  UnlearnRequest& request = command.request;
  request.run = std::filesystem::absolute(command.run);
  if (command.out.empty()) {
    request.out = request.run;
    if (request.out.filename().empty()) request.out = request.out.parent_path();
    request.out += fmt::format("-without-{}", fmt::join(request.clients, "-"));
  } else {
    request.out = std::filesystem::absolute(command.out);
  }
  std::filesystem::current_path(working_directory_of(request.run));
  RunRequest how;
  how.command = "chorus unlearn";
  const RunReport report = unlearn(request, how);
  const RunSummary& after = report.summary;
  const auto before = read_run_summary(request.run);
  const auto score = [&](const RunSummary& summary) {
    const auto found = summary.last.find(summary.metric);
    return found == summary.last.end() ? 0.0 : found->second;
  };
  const AuditedRun old_run(request.run), new_run(request.out);
  fmt::print("{}\n{}  {:<46} {:>8.3f} {:>8.3f}\n", request.out.string(),
             to_text(audit_unlearning(old_run, new_run, request.clients)), after.metric + " on the test set",
             score(*before), score(after));
}

}  // namespace

void add_unlearn(CLI::App& app) {
  const auto command = std::make_shared<UnlearnCommand>();
  CLI::App* sub = app.add_subcommand("unlearn", "Make a finished run forget clients, and measure whether it has");
  sub->group(kRuns);
  sub->add_option("run", command->run, "The run folder, which is left as it is")->required();
  sub->add_option("--client", command->request.clients, "Who is to be forgotten: numbers of clients")->required();
  sub->add_option("--method", command->request.method,
                  "exact: train again without them; rollback: go back to the oldest checkpoint, then correct")
      ->transform(choice<UnlearnRequest::Method>(
          {{"exact", UnlearnRequest::Method::kExact}, {"rollback", UnlearnRequest::Method::kRollback}}));
  sub->add_option("--rounds", command->request.rounds, "rollback: corrective rounds; default: as many as are lost");
  sub->add_option("--out", command->out, "The new run folder; default: RUN-without-CLIENT");
  sub->callback([command] { unlearn_command(*command); });
}

}  // namespace chorus::inline cli
