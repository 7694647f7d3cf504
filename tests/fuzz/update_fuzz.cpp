// Any bytes are refused or are a compressed vector of no more elements than expected (tools/fuzz). The first byte
// chooses the filters; the rest is what a peer sends, after a head that the fuzzer need not guess.
#include <ATen/ATen.h>

#include <cstdlib>

#include "algorithm/compression/filter_end.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/device/torch_runtime.h"
#include "core/ports/filter.h"
#include "tests/fuzz/dice.h"

namespace chorus::inline fuzz {
namespace {

constexpr std::int64_t kElements = 1100;  // more than the shortest vector that is packed

const std::vector<std::string>& filter_lists() {
  static const std::vector<std::string> all{"[{name: uniform, bits: 4}]",
                                            "[{name: top_k, k: 0.05}, {name: uniform, bits: 8}]",
                                            "[{name: random_k, k: 0.1}, fp16]",
                                            "[{name: power_sgd, rank: 2}]",
                                            "[{name: qsgd, bits: 8}]",
                                            "[{name: ecq, bits: 8}]",
                                            "[sign]",
                                            "[bf16, zstd]",
                                            "[zstd]",
                                            "[{name: top_k, k: 0.05}, {name: qsgd, bits: 4}, zstd]"};
  return all;
}

FilterEndInput input_of(const std::string& filters) {
  FilterEndInput input;
  ConfigDocument::parse("{up: " + filters + "}", "fuzz").fill([&](ConfigVisitor& visitor) {
    input.config.describe(visitor);
  });
  input.most_elements = kElements;
  input.blocks = [](std::int64_t size) {
    return size == kElements ? std::vector<FilterBlock>{{0, {30, 30}}, {900, {200}}} : std::vector<FilterBlock>{};
  };
  return input;
}

at::Tensor bytes_of(const std::string& text) {
  return at::tensor(at::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace chorus;
  static const TorchThreads kOne(1);
  static const std::vector<std::string> kLists = filter_lists();
  static std::vector<std::unique_ptr<FilterEnd>> clients, servers;
  static std::vector<std::string> honest;  // what a client sends
  static const GateMoment kMoment{.procedure = "train", .round = 1};
  if (clients.empty()) {
    for (const std::string& list : kLists) {
      clients.push_back(std::make_unique<FilterEnd>(input_of(list), FilterEnd::Side::kClient));
      servers.push_back(std::make_unique<FilterEnd>(input_of(list), FilterEnd::Side::kServer));
      Message message;
      message.tensors["update"] = at::linspace(-1, 2, kElements);
      (void)clients.back()->send(message, kMoment);
      const at::Tensor packed = message.tensor("update.packed");
      honest.emplace_back(static_cast<const char*>(packed.data_ptr()), static_cast<std::size_t>(packed.numel()));
    }
  }
  Dice dice(data, size);
  const std::size_t which = dice.below(kLists.size());
  std::string bytes = honest[which].substr(0, dice.below(honest[which].size() + 1));
  if (dice.below(2) == 1) bytes = honest[which];
  // A few changes of honest bytes, then anything behind them.
  for (std::size_t i = dice.below(8); i > 0 && !bytes.empty(); --i) {
    bytes[dice.below(bytes.size())] = static_cast<char>(dice.byte());
  }
  while (!dice.over()) bytes += static_cast<char>(dice.byte());
  Message message;
  message.tensors["update.packed"] = bytes_of(bytes);
  try {
    (void)servers[which]->receive(message, kMoment);
    const at::Tensor& update = message.tensor("update");
    if (update.numel() > kElements || !at::isfinite(update).all().item<bool>()) std::abort();
  } catch (const DataError&) {  // that client fails
  }
  return 0;
}
