#include "infrastructure/checkpoint/checkpoint_writer.h"

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/console/log.h"
#include "core/device/tensor_snapshot.h"
#include "core/device/torch_runtime.h"

namespace chorus::inline checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_from(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

struct FrozenFederation {
  Checkpoint checkpoint;  // without its tensors
  std::map<std::string, TensorSnapshot> tensors;
  ClientStateSnapshot clients;
};

FrozenFederation freeze(const Checkpoint& checkpoint, ClientStateStore& clients) {
  FrozenFederation frozen{{checkpoint.round, checkpoint.phase, {}, checkpoint.texts, checkpoint.numbers}, {}, {}};
  for (const auto& [name, tensor] : checkpoint.tensors) frozen.tensors.emplace(name, tensor);
  frozen.clients = clients.freeze(checkpoint.round);
  return frozen;
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointStore& checkpoints, ClientStateStore& clients)
    : checkpoints_(checkpoints), clients_(clients) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    (void)wait();
  } catch (const std::exception& error) {
    Log("checkpoint").error("{}", error.what());
  }
}

void CheckpointWriter::save(const Checkpoint& checkpoint) {
  check(!writing_.valid(), "the checkpoint before this one is still being written");
  const auto begin = Clock::now();
  auto frozen = std::make_unique<FrozenFederation>(freeze(checkpoint, clients_));
  writing_ = std::async(std::launch::async, [this, frozen = std::move(frozen)]() mutable {
    const auto begun = Clock::now();
    const TorchThreads one(1);
    Checkpoint whole = std::move(frozen->checkpoint);
    for (const auto& [name, tensor] : frozen->tensors) whole.tensors[name] = tensor.on_host();
    frozen->tensors.clear();  // frees GPU memory
    save_federation(checkpoints_, clients_, std::move(whole), frozen->clients);
    frozen.reset();
    return seconds_from(begun);
  });
  last_ = {.round = checkpoint.round, .waited = seconds_from(begin)};
}

std::optional<WrittenCheckpoint> CheckpointWriter::poll() {
  if (!writing_.valid() || writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return std::nullopt;
  return wait();
}

std::optional<WrittenCheckpoint> CheckpointWriter::wait() {
  if (!writing_.valid()) return std::nullopt;
  const auto begin = Clock::now();
  last_.writing = writing_.get();
  last_.waited += seconds_from(begin);
  return last_;
}

}  // namespace chorus::inline checkpoint
