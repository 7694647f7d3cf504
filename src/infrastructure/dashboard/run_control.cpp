#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/dashboard/dashboard.h"
#include "infrastructure/tracking/report/run_process.h"
#include "infrastructure/tracking/run_folder.h"

namespace chorus::inline dashboard {

std::string control_run(const std::filesystem::path& folder, const std::string& action) {
  const auto process = process_of_run(folder);
  const std::string name = folder.filename().string();
  if (!process) throw DataError(fmt::format("{}: no process works on this run", name));
  const auto send = [&](int signal) {
    if (::kill(static_cast<pid_t>(*process), signal) == 0) return;
    throw WorldError(
        fmt::format("{}: its process cannot be reached: {}", name, std::generic_category().message(errno)));
  };
  const bool served = read_run_info(folder).command.starts_with("chorus serve");
  if (served && action == "pause") {
    write_file(folder / "pause", "");
    return fmt::format("{} pauses after this round.", name);
  }
  if (served && action == "continue") {
    std::error_code ignored;
    std::filesystem::remove(folder / "pause", ignored);
    return fmt::format("{} continues.", name);
  }
  if (action == "stop") {
    send(SIGINT);
    if (process_is_paused(*process)) send(SIGCONT);
    return fmt::format("{} stops after this round.", name);
  }
  if (action == "pause") {
    send(SIGSTOP);
    return fmt::format("{} is paused.", name);
  }
  if (action == "continue") {
    send(SIGCONT);
    return fmt::format("{} continues.", name);
  }
  throw ConfigError(fmt::format("'{}' is none of stop, pause and continue", action));
}

std::string random_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw WorldError("the system gives no random numbers");
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace chorus::inline dashboard
