#include "algorithm/split/split_procedures.h"

#include <ATen/ATen.h>

#include <cmath>

#include "core/base/error.h"

namespace chorus::inline split {
namespace {

constexpr const char* kKeptClients = "split";

struct KeptClients : Kept {
  std::vector<std::unique_ptr<SplitClient>> clients;
  at::Tensor start;

  void retain(std::span<const std::size_t> staying) override {
    std::vector<std::unique_ptr<SplitClient>> some;
    for (const std::size_t i : staying) some.push_back(std::move(clients.at(i)));
    clients = std::move(some);
  }
};

KeptClients& kept_clients(Workbench& bench) {
  auto* kept = dynamic_cast<KeptClients*>(bench.kept(kKeptClients));
  if (kept == nullptr || kept->clients.size() != bench.clients().size()) {
    throw DataError("a batch goes on that has not begun");
  }
  return *kept;
}

SplitCut cut_of(const Message& body) {
  const double layers = body.number("layers");
  if (!(layers >= 0 && layers <= 1e6 && layers == std::floor(layers))) throw DataError("\"layers\" is out of range");
  return {static_cast<int>(layers), body.number("labels_stay") != 0};
}

SplitGuard guard_of(const Message& body) {
  const SplitGuard guard{body.number("noise"), body.number("decorrelate")};
  if (!(guard.noise >= 0 && guard.noise < 1e6 && guard.decorrelate >= 0 && guard.decorrelate < 1e6)) {
    throw DataError("the protection of activations is out of range");
  }
  return guard;
}

// Runs `one` for each client; one that a message does not fit fails alone.
template <typename One>
std::vector<Answer> for_each_client(Workbench& bench, One one) {
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    Answer answer;
    try {
      answer.body = one(i);
    } catch (const DataError& error) {
      answer.failure = error.what();
    }
    answers.push_back(std::move(answer));
  }
  return answers;
}

Message next_batch(SplitClient& client) {
  Message body = client.forward();
  body.numbers["steps"] = static_cast<double>(client.steps());
  body.numbers["batches"] = 1;
  return body;
}

const ProcedureRegistration<SplitStart> kSplitStart{"split/start", "run the first batch up to the cut"};
const ProcedureRegistration<SplitAnswer> kSplitAnswer{"split/answer", "compute the loss from hidden states"};
const ProcedureRegistration<SplitStep> kSplitStep{"split/step", "make a step, and run the next batch up to the cut"};

}  // namespace

std::vector<Answer> SplitStart::run(const Request& request, Workbench& bench) const {
  const SplitCut cut = cut_of(request.body);
  const SplitGuard guard = guard_of(request.body);
  auto kept = std::make_unique<KeptClients>();
  kept->start = request.body.tensor("model");
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    kept->clients.push_back(bench.split(i, cut, kept->start, guard));
  }
  std::vector<Answer> answers = for_each_client(bench, [&](std::size_t i) {
    if (kept->clients[i]->done()) throw DataError("it has no rows to train on: its texts are empty after tokenization");
    return next_batch(*kept->clients[i]);
  });
  bench.keep(kKeptClients, std::move(kept));
  return answers;
}

std::vector<Answer> SplitAnswer::run(const Request& request, Workbench& bench) const {
  KeptClients& kept = kept_clients(bench);
  return for_each_client(bench, [&](std::size_t i) {
    Message body = kept.clients[i]->answer(request.own_of(i));
    body.numbers["batches"] = 0;
    return body;
  });
}

std::vector<Answer> SplitStep::run(const Request& request, Workbench& bench) const {
  KeptClients& kept = kept_clients(bench);
  return for_each_client(bench, [&](std::size_t i) {
    SplitClient& client = *kept.clients[i];
    client.backward(request.own_of(i));
    if (!client.done()) return next_batch(client);
    Message body;
    body.tensors["update"] = client.values() - kept.start.to(client.values().device());
    body.numbers = {{"examples", bench.examples(i)},
                    {"steps", static_cast<double>(client.steps())},
                    {"loss", client.loss()},
                    {"tokens", client.tokens()},
                    {"client_memory", client.memory()},
                    {"batches", 0}};
    return body;
  });
}

}  // namespace chorus::inline split
