#include "apps/experiment/run_checkpoints.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "core/base/error.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline experiment {
namespace {

constexpr double kAutoCheckpointSeconds = 30;

// Of the GPU memory that is free when a run begins, 0.7 trains (machine.cpp), and this may hold states of clients.
std::size_t gpu_for_states(const ExperimentConfig& config) {
  constexpr double kShare = 0.15;
  return config.device == "cpu" ? 0 : static_cast<std::size_t>(free_gpu_memory() * kShare);
}

double seconds_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

RunCheckpoints::RunCheckpoints(const RunFolder& folder, const ExperimentConfig& config)
    : folder_(folder.path()),
      every_(config.checkpoint.every),
      checkpoints_(folder.checkpoints(), static_cast<std::size_t>(config.checkpoint.keep)),
      clients_(folder.clients(), {.memory_bytes = static_cast<std::size_t>(config.federation.state_memory) << 20,
                                  .gpu_bytes = gpu_for_states(config)}) {}

void RunCheckpoints::begin(const ServerHalf& server, const std::string& data) {
  state_.data = data;
  if (const auto checkpoint = load_federation(checkpoints_, clients_)) {
    RunState saved = to_run_state(*checkpoint);
    if (saved.data != state_.data) {
      throw DataError(
          fmt::format("{}: the data is no longer what the run was started with; put the old data back, or "
                      "start a new run",
                      folder_.string()));
    }
    state_ = std::move(saved);
    const at::Device device = server.model().device();
    state_.loop.model = state_.loop.model.to(device);
    if (state_.loop.best_model.defined()) state_.loop.best_model = state_.loop.best_model.to(device);
  } else {
    state_.loop.model = server.start();
  }
  if (state_.loop.model.numel() != server.model().model().layout().trainable_size()) {
    throw DataError(fmt::format("{}: the checkpoint is of another network", folder_.string()));
  }
  saved_at_ = std::chrono::steady_clock::now();
}

StateShelf RunCheckpoints::shelf() {
  return {[this](ClientId id) { return clients_.load(id); },
          [this](ClientId id, std::uint64_t round, ClientState kept) {
            clients_.store(id, static_cast<std::int64_t>(round), kept);
          }};
}

std::int64_t RunCheckpoints::newest_round() const {
  const auto rounds = checkpoints_.rounds();
  return rounds.empty() ? 0 : rounds.back();
}

void RunCheckpoints::save(const ServerMemory& memory, bool last, Tracker& tracker) {
  const auto now = std::chrono::steady_clock::now();
  const std::int64_t round = state_.loop.round;
  const bool due = every_ > 0 ? round % every_ == 0 : seconds_between(saved_at_, now) >= kAutoCheckpointSeconds;
  report(writer_.poll(), tracker);
  if (!last && !due) return;
  report(writer_.wait(), tracker);
  remember(memory, state_);
  // Before the checkpoint: a resumed run keeps the events up to its round.
  tracker.flush();
  writer_.save(to_checkpoint(state_));
  state_.server.clear();
  state_.aggregation.clear();
  state_.filters.clear();
  saved_at_ = now;
}

void RunCheckpoints::wait(Tracker& tracker) { report(writer_.wait(), tracker); }

void RunCheckpoints::report(const std::optional<WrittenCheckpoint>& written, Tracker& tracker) {
  if (!written) return;
  state_.checkpoint_seconds += written->waited;
  state_.checkpoint_background_seconds += written->writing;
  tracker.record(
      {"checkpoint", written->round, {{"seconds", written->waited}, {"background_seconds", written->writing}}, {}});
}

}  // namespace chorus::inline experiment
