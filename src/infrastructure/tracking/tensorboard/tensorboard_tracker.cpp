#include "infrastructure/tracking/tensorboard/tensorboard_tracker.h"

#include <event.pb.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <system_error>

#include "core/base/error.h"
#include "infrastructure/tracking/metrics_log.h"
#include "infrastructure/tracking/tensorboard/crc32c.h"

namespace chorus::inline tracking_tensorboard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

[[noreturn]] void fail(const fs::path& path, int error) {
  throw WorldError(fmt::format("{}: cannot be written: {}", path.string(), std::generic_category().message(error)));
}

template <typename Number>
void put(std::string& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

const Registration<Trackers> kRegistered{
    "tensorboard", "event files that TensorBoard shows",
    [](const fs::path& run_folder) { return std::make_unique<TensorBoardTracker>(run_folder); }};

}  // namespace

TensorBoardTracker::TensorBoardTracker(const fs::path& run_folder) : folder_(run_folder / "tensorboard") {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, error.value());
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path().filename().string().starts_with(kPrefix)) fs::remove(file.path());
  }
}

TensorBoardTracker::~TensorBoardTracker() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TensorBoardTracker::record(const Event& event) {
  const Event timed = stamped(event);
  if (descriptor_ < 0) {
    path_ = folder_ / fmt::format("{}{:010}.chorus", kPrefix, static_cast<std::int64_t>(timed.time));
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(path_, errno);
    tensorboard::Event first;
    first.set_wall_time(timed.time);
    first.set_file_version("brain.Event:2");
    append(first.SerializeAsString());
  }
  if (event.kind != "round" && event.kind != "evaluation") return;
  std::string group = event.kind;
  if (const auto split = event.texts.find("split"); event.kind == "evaluation" && split != event.texts.end())
    group = split->second;
  tensorboard::Event message;
  message.set_wall_time(timed.time);
  message.set_step(event.round);
  for (const auto& [name, number] : event.numbers) {
    if (!std::isfinite(number)) continue;
    tensorboard::Summary::Value* value = message.mutable_summary()->add_value();
    value->set_tag(group + "/" + name);
    value->set_simple_value(static_cast<float>(number));
  }
  if (message.has_summary()) append(message.SerializeAsString());
}

void TensorBoardTracker::append(const std::string& message) {
  std::string bytes;
  put(bytes, static_cast<std::uint64_t>(message.size()));
  put(bytes, masked_crc32c(bytes));
  bytes += message;
  put(bytes, masked_crc32c(message));
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t done = ::write(descriptor_, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, errno);
    rest.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace chorus::inline tracking_tensorboard
