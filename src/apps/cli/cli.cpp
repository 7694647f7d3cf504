#include "apps/cli/cli.h"

#include <fmt/format.h>

#include "core/error.h"

namespace chorus::cli {

int run(int argc, char** argv) {
  CLI::App app{"Chorus: federated learning for language models"};
  app.name("chorus");
  app.require_subcommand(1);
  app.set_version_flag("--version", CHORUS_VERSION);

  try {
    app.parse(argc, argv);
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  } catch (const Error& error) {
    fmt::print(stderr, "chorus: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "chorus: internal error: {}\n", error.what());
    return static_cast<int>(ExitCode::kInternal);
  }
}

}  // namespace chorus::cli
