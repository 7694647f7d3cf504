// Overhead of an ask: several asks in one session, compared with the same asks without a session.
//
//     build/session [--asks 10] [--clients 2] [--steps 0] [--threads 2]
//
// Clients train DistilBERT (66 M parameters) in this process. The procedure creates a Learner in its first ask, keeps
// it, and makes `steps` optimizer steps per ask, which it times itself. Prints one JSON object: milliseconds of the
// first ask and medians for later ones, in total and without the steps, with and without a session.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "application/data/dataset_builder.h"
#include "application/tasks/encode_split.h"
#include "application/text/hugging_face.h"
#include "application/trainer/client_pool.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/device/torch_runtime.h"
#include "core/ports/procedure.h"
#include "infrastructure/federation/local_federation.h"

namespace chorus::inline bench {
namespace {

constexpr std::uint32_t kExamples = 64;  // per client

struct SessionRequest {
  std::int64_t asks = 10, clients = 2, steps = 0;
  int threads = 2;
  std::string tokenizer = "models/chorus-mini";
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Keeps a Learner and runs some steps; replies with the seconds they took.
class KeepLearner : public Procedure {
 public:
  std::vector<Answer> run(const chorus::Request& request, Workbench& bench) const override {
    if (bench.kept("learner") == nullptr) {
      bench.keep("learner", bench.learner(request.body.vector("model", bench.parameters()), {}));
    }
    auto& learner = static_cast<Learner&>(*bench.kept("learner"));
    const auto steps = static_cast<std::int64_t>(request.body.number("steps"));
    const auto begin = std::chrono::steady_clock::now();
    if (steps > 0) learner.train(steps);
    Message body;
    body.numbers["seconds"] = seconds_since(begin);
    return std::vector<Answer>(bench.clients().size(), Answer{body});
  }
};
const ProcedureRegistration<KeepLearner> kKeepLearner{"bench/keep_learner", "for bench/session.cpp"};

Dataset texts(std::int64_t clients) {
  DatasetBuilder builder({.formulation = Formulation::kTextClassification});
  for (std::int64_t i = 0; i < clients * kExamples; ++i) {
    Record record;
    record.id = std::to_string(i);
    record.label = i % 2 == 0 ? "even" : "odd";
    record.text = fmt::format("text number {} of a client that has nothing else to say", i);
    builder.add(record, Split::kTrain);
  }
  return std::move(builder).finish();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// The clients and all they need.
struct Clients {
  explicit Clients(const SessionRequest& request)
      : data(texts(request.clients)), words(load_tokenizer(request.tokenizer)) {
    params.initialise(1);
    for (std::int64_t client = 0; client < request.clients; ++client) {
      std::vector<ExampleId> ids(kExamples);
      std::iota(ids.begin(), ids.end(), static_cast<ExampleId>(client) * kExamples);
      lists.append(ids);
    }
    ClientPoolInput input{.trainer = {*task, *model, params}, .config = config, .data = data, .train = encoded};
    input.train_lists = &lists;
    pool = std::make_unique<ClientPool>(input);
    LocalFederationInput local;
    local.roster = Roster::of_sizes(std::vector<double>(static_cast<std::size_t>(request.clients), kExamples));
    local.open = [this](std::span<const ClientId> ids, const chorus::Request& of) { return pool->open(ids, of.round); };
    local.cohort_batch = 1;  // as in a run on a CPU
    local.workers = 1;
    local.threads = request.threads;
    federation = std::make_unique<LocalFederation>(std::move(local));
  }

  ModelConfig network() const {
    ModelConfig result = ModelConfig::parse(
        R"({"model_type": "distilbert", "vocab_size": 30522, "dim": 768, "n_layers": 6, "n_heads": 12,
            "hidden_dim": 3072})",
        "session");
    result.set_labels(task->labels());
    return result;
  }

  Dataset data;
  std::shared_ptr<const Tokenizer> words;
  std::unique_ptr<Task> task = Tasks::make("text_classification", TaskInput::of(data, words));
  std::unique_ptr<Model> model = make_model(network(), task->head());
  Params params = Params(model->layout(), {});
  std::shared_ptr<const EncodedDataset> encoded = encode_split(*task, data, Split::kTrain, {.cache = "none"}).data;
  TrainerConfig config = ConfigDocument::parse("{batch_size: 8, learning_rate: 5e-5}", "session").load<TrainerConfig>();
  ClientLists lists;
  std::unique_ptr<ClientPool> pool;
  std::unique_ptr<LocalFederation> federation;
};

/// Milliseconds of each ask, and its overhead beyond the steps.
struct Asks {
  std::vector<double> whole, beyond;

  nlohmann::json report() const {
    const std::vector<double> later(whole.begin() + 1, whole.end()), extra(beyond.begin() + 1, beyond.end());
    return {{"first_ms", whole.front()}, {"later_ms", median(later)}, {"beyond_work_ms", median(extra)}};
  }
};

Asks ask(Clients& clients, const SessionRequest& request, bool in_session) {
  std::vector<ClientId> cohort(static_cast<std::size_t>(request.clients));
  std::iota(cohort.begin(), cohort.end(), ClientId{0});
  const at::Tensor model = clients.params.values()[0].clone();
  const Session session(*clients.federation);
  Asks asks;
  for (std::int64_t i = 0; i < request.asks; ++i) {
    chorus::Request one{.procedure = "bench/keep_learner", .round = 1};
    one.session = in_session ? session.id() : 0;
    one.body.tensors["model"] = model;
    one.body.numbers["steps"] = static_cast<double>(request.steps);
    const auto begin = std::chrono::steady_clock::now();
    double work = 0;
    for (Reply& reply : clients.federation->ask(cohort, std::move(one))) {
      if (!reply.ok()) throw WorldError(reply.failure);
      work += reply.body.number("seconds");
    }
    const double seconds = seconds_since(begin);
    asks.whole.push_back(1000 * seconds);
    asks.beyond.push_back(1000 * (seconds - work));
  }
  return asks;
}

int measure(const SessionRequest& request) {
  prepare_torch();
  Clients clients(request);
  nlohmann::json report{{"parameters", clients.model->layout().trainable_size()},
                        {"asks", request.asks},
                        {"clients", request.clients},
                        {"steps", request.steps},
                        {"threads", request.threads}};
  report["session"] = ask(clients, request, true).report();
  report["no_session"] = ask(clients, request, false).report();
  std::cout << report.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace chorus::inline bench

int main(int argc, char** argv) {
  chorus::SessionRequest request;
  CLI::App app("What an ask costs beyond its work, in a session and without");
  const auto several = CLI::Range(2, std::numeric_limits<int>::max());
  const auto positive = CLI::Range(1, std::numeric_limits<int>::max());
  app.add_option("--asks", request.asks)->capture_default_str()->check(several);
  app.add_option("--clients", request.clients)->capture_default_str()->check(positive);
  app.add_option("--steps", request.steps, "optimizer steps per ask")->capture_default_str();
  app.add_option("--threads", request.threads)->capture_default_str()->check(positive);
  app.add_option("--tokenizer", request.tokenizer, "folder of a tokenizer")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return chorus::measure(request);
  } catch (const std::exception& error) {
    std::cerr << "session: " << error.what() << "\n";
    return 1;
  }
}
