#include "algorithm/distillation/own_models.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "algorithm/distillation/table5.h"
#include "algorithm/federated/own_models.h"
#include "core/base/error.h"

namespace chorus::inline distillation {
namespace {

double epochs_in(const Message& body, const char* name) {
  const double value = body.number(name, 0);
  if (!(value >= 0 && value <= 1e6 && value == std::floor(value))) {
    throw DataError(fmt::format("the request's number \"{}\" is {}, which is no count", name, value));
  }
  return value;
}

double rate_in(const Message& body) {
  const double rate = body.number("rate");
  if (!(rate > 0 && rate <= kMostRate)) throw DataError(fmt::format("the request's number \"rate\" is {}", rate));
  return rate;
}

Sent sent_named(const std::string& name) {
  for (const Sent sent : {Sent::kLogits, Sent::kProbabilities, Sent::kVotes}) {
    if (name_of(sent) == name) return sent;
  }
  throw DataError(fmt::format("\"{}\" is nothing that a client could send of its predictions", name));
}

/// The work of a procedure's clients so far.
struct Done {
  explicit Done(std::size_t clients) : failures(clients), numbers(clients) {}

  void add(const TrainResult& result) {
    for (std::size_t i = 0; i < failures.size(); ++i) {
      numbers[i][kLoad] += result.batches[i];
      add(i, result);
    }
  }
  void add(const LearnResult& result, std::uint64_t texts) {
    for (std::size_t i = 0; i < failures.size(); ++i) {
      numbers[i][kLoadTexts] += static_cast<double>(texts);
      add(i, result);
    }
  }
  /// Drops what these clients did in vain.
  void forget(const std::vector<bool>& clients) {
    for (std::size_t i = 0; i < failures.size(); ++i) {
      if (!clients[i]) continue;
      numbers[i].clear();
      failures[i].clear();
    }
  }
  std::vector<Answer> answers() {
    std::vector<Answer> result(failures.size());
    for (std::size_t i = 0; i < failures.size(); ++i) {
      result[i].failure = failures[i];
      result[i].body.numbers.insert(numbers[i].begin(), numbers[i].end());
      result[i].body.numbers.try_emplace(kLoad, 0);
    }
    return result;
  }

  std::vector<std::string> failures;
  std::vector<std::map<std::string, double>> numbers;

 private:
  template <typename Result>
  void add(std::size_t i, const Result& result) {
    auto& mine = numbers[i];
    mine["steps"] += result.steps[i];
    mine["seconds"] += result.seconds / static_cast<double>(failures.size());
    if (failures[i].empty()) failures[i] = result.failures[i];
  }
};

// A client's local batches when it last trained: what its predictions weigh by batches.
constexpr const char* kBatches = "distill.batches";

void keep_batches(Workbench& bench, const TrainResult& trained, const std::vector<bool>& except = {}) {
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    if (!except.empty() && except[i]) continue;
    bench.state(i)[kBatches] = at::full({1}, trained.batches[i], at::kDouble);
  }
}

std::optional<double> kept_batches(const ClientState& state) {
  const auto found = state.find(kBatches);
  if (found == state.end() || found->second.numel() != 1) return std::nullopt;
  return found->second.item<double>();
}

class Predict : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const Message& body = request.body;
    const PublicOrder order = read_order(request, bench);
    const bool own = !body.has_tensor("model");
    const Sent sent = body.texts.contains("answers") ? sent_named(body.text("answers")) : Sent::kLogits;
    KeptRows kept;
    if (own) kept = kept_rows(bench, kOwnModel, bench.beginning());
    at::Tensor values = own ? kept.values : body.vector("model", bench.parameters());
    const bool once = body.number("once", 0) != 0;
    if (once && !own) throw DataError("the server's model is trained in every round; leave out the number \"once\"");
    Done done(bench.clients().size());
    std::optional<TrainResult> trained;
    if (!once || !kept.all()) trained = train(bench, body, order, values, done);
    if (trained) values = trained->values;
    if (once) {  // in a batch with newcomers the others train, too
      values = kept_or(kept, values);
      done.forget(kept.kept);
      if (trained) keep_batches(bench, *trained, kept.kept);
    }
    if (own) keep_models(bench, values);
    const at::Tensor logits = to_send(bench.predict(values, order.all()), sent);
    std::vector<Answer> answers = done.answers();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      auto& numbers = answers[i].body.numbers;
      numbers[kLoadTexts] += static_cast<double>(order.rows) / 3;
      numbers["examples"] = bench.examples(i);
      numbers.try_emplace("steps", 0);
      if (once && kept.kept[i]) {
        if (const auto batches = kept_batches(bench.state(i))) numbers["batches"] = *batches;
      } else {
        numbers["batches"] = trained->batches[i];
        numbers["loss"] = trained->loss[i];
      }
      answers[i].body.tensors["predictions"] = logits[static_cast<std::int64_t>(i)].flatten().contiguous();
    }
    return answers;
  }

 private:
  // From `values` [C, P]: transfer learning, if any, then the clients' own data.
  static TrainResult train(Workbench& bench, const Message& body, const PublicOrder& order, at::Tensor values,
                           Done& done) {
    if (const double epochs = epochs_in(body, "transfer"); epochs > 0) {
      LearnerWish wish;
      wish.steps = static_cast<std::int64_t>(epochs) * static_cast<std::int64_t>(order.batches());
      const auto learner = bench.learner(values, wish);
      for (std::int64_t step = 0; step < *wish.steps; ++step) {
        const std::vector<std::uint32_t> rows = order.batch(static_cast<std::uint64_t>(step));
        done.add(learner->fit(rows, {}), rows.size());
      }
      values = learner->values().clone();
    }
    TrainResult result = bench.train(values);
    done.add(result);
    return result;
  }
};

class Learn : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const Message& body = request.body;
    const PublicOrder order = read_order(request, bench);
    const at::Tensor& flat = body.tensor("answers");
    const std::int64_t rows = order.answers();
    if (flat.scalar_type() != at::kFloat) throw DataError("the teacher's answers are not float32");
    if (flat.dim() != 1 || flat.numel() == 0 || flat.numel() % rows != 0) {
      throw DataError("the teacher's answers are not as many as the public set has");
    }
    const at::Tensor teacher = flat.view({rows, -1});
    const auto epochs = static_cast<std::int64_t>(epochs_in(body, "epochs"));
    LearnerWish wish;
    wish.steps = std::max<std::int64_t>(epochs * static_cast<std::int64_t>(order.batches()), 1);
    wish.rate = rate_in(body);
    const auto learner = bench.learner(own_models(bench), wish);
    if (const std::int64_t size = learner->predict(std::vector<std::uint32_t>{0}).size(-1); size != teacher.size(1)) {
      throw DataError(fmt::format("the teacher answers with {} numbers, this network with {}", teacher.size(1), size));
    }
    Done done(bench.clients().size());
    Lessons lessons{teacher, order, epochs, lesson_named(body.text("lesson")), body.number("temperature")};
    lessons.text_loss = text_loss_in(body);
    if (epochs > 0) done.add(teach(*learner, lessons), static_cast<std::uint64_t>(epochs) * order.rows);
    at::Tensor values = learner->values();
    if (body.number("train", 0) != 0) {
      const TrainResult trained = bench.train(values);
      done.add(trained);
      keep_batches(bench, trained);
      values = trained.values;
    }
    keep_models(bench, values);
    return done.answers();
  }
};

class OwnEvaluate : public OwnModels {
 public:
  at::Tensor models(const Request&, Workbench& bench) const override { return own_models(bench); }
};

const ProcedureRegistration<Predict> kPredict{"distill/predict", "train the client's own model and predict"};
const ProcedureRegistration<Learn> kLearn{"distill/learn", "learn from a teacher's predictions"};
const ProcedureRegistration<OwnEvaluate> kOwnEvaluate{"distill/evaluate", "score the client's own model"};

}  // namespace

double text_loss_in(const Message& body) {
  const double share = body.number("text_loss", 0);
  if (!(share >= 0 && share <= 1)) throw DataError(fmt::format("the request's number \"text_loss\" is {}", share));
  return share;
}

std::string name_of(Sent sent) {
  return sent == Sent::kLogits ? "logits" : sent == Sent::kProbabilities ? "probabilities" : "votes";
}

at::Tensor to_send(const at::Tensor& logits, Sent sent) {
  if (logits.size(-1) == 1 || sent == Sent::kLogits) return logits;
  if (sent == Sent::kProbabilities) return at::softmax(logits, -1);
  return at::one_hot(logits.argmax(-1), logits.size(-1)).to(at::kFloat);
}

at::Tensor own_models(Workbench& bench) { return kept_rows(bench, kOwnModel, bench.beginning()).values; }

Request OwnModelAlgorithm::ask_own_models(const at::Tensor&, std::uint64_t round, std::span<const ClientId>) const {
  return {.procedure = "distill/evaluate", .round = round};
}

void keep_models(Workbench& bench, const at::Tensor& values) {
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    bench.state(i)[kOwnModel] = values[static_cast<std::int64_t>(i)].clone();
  }
}

Request predict_request(const RoundInput& input, const PublicOrder& order) {
  Request request{.procedure = "distill/predict", .round = input.round};
  request.enough = input.enough;
  write_order(order, request.body);
  return request;
}

Request learn_request(const RoundInput& input, const Lessons& lessons) {
  Request request{.procedure = "distill/learn", .round = input.round};
  request.ask = 1;
  write_order(lessons.order, request.body);
  request.body.tensors["answers"] = lessons.answers.flatten().contiguous().clone();
  request.body.numbers["epochs"] = static_cast<double>(lessons.epochs);
  request.body.numbers["temperature"] = lessons.temperature;
  request.body.numbers["rate"] = lessons.rate;
  if (lessons.text_loss > 0) request.body.numbers["text_loss"] = lessons.text_loss;
  request.body.texts["lesson"] = name_of(lessons.lesson);
  return request;
}

Ensemble gather(const RoundInput& input, Request request, const EnsemblePlan& plan) {
  const std::int64_t rows = order_of(input, {}).answers(), size = answer_size(input);
  // Predictions are aggregated like updates.
  const at::Tensor like = at::empty({rows * size}, input.model.options());
  CollectPlan how;
  how.tensors = {{.name = "predictions"}};
  if (plan.look) how.look = [&](Reply& reply, double weight) { plan.look(reply, weight); };
  Collected collected = collect(part_of(input, input.cohort, like), std::move(request), how);
  Ensemble ensemble{std::move(collected.result), {}};
  if (collected.means[0].defined()) ensemble.mean = collected.means[0].view({rows, size});
  return ensemble;
}

void note_predictions(const RoundInput& input, Ensemble& ensemble, bool back) {
  const auto predictions = static_cast<double>(order_of(input, {}).answers() * answer_size(input));
  const double sent = predictions * used_clients(input, ensemble.result);
  note_traffic(input,
               {.up = predictions,
                .down = back ? predictions : 0,
                .sent = sent,
                .received = back && ensemble.mean.defined() ? sent : 0},
               ensemble.result);
}

void add_costs(RoundResult& result, const EmulatedTotals& more) {
  EmulatedTotals& totals = result.emulated.totals;
  totals.seconds += more.seconds;
  totals.joules += more.joules;
  totals.client_joules += more.client_joules;
  totals.client_bytes += more.client_bytes;
  totals.memory = std::max(totals.memory, more.memory);
}

void ask_to_learn(const RoundInput& input, Request request, RoundResult& result) {
  std::set<ClientId> failed;
  for (const auto& entry : result.failed) failed.insert(entry.first);
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) {
    if (!failed.contains(member.client)) clients.push_back(member.client);
  }
  std::sort(clients.begin(), clients.end());
  if (clients.empty()) return;
  std::vector<Cost> costs(clients.size());
  std::vector<std::string> failures(clients.size(), "it did not reply");
  std::vector<double> steps(clients.size(), 0), seconds(clients.size(), 0);
  std::size_t left_out = 0;
  for (Reply& reply : input.federation.ask(clients, std::move(request))) {
    costs.at(reply.slot) = reply.cost;
    failures.at(reply.slot) = reply.failure;
    if (reply.left_out) {
      result.emulated.left_out.push_back(reply.client);
      ++left_out;
    }
    if (!reply.ok()) continue;
    reply.accept();
    steps.at(reply.slot) = std::max(reply.body.number("steps", 0), 0.0);
    seconds.at(reply.slot) = std::max(reply.body.number("seconds", 0), 0.0);
  }
  const bool nobody = std::none_of(failures.begin(), failures.end(), [](const auto& why) { return why.empty(); });
  if (nobody && left_out == 0) {
    throw TooFewReplies(fmt::format("round {}: no client learned what the server taught; client {}: {}", input.round,
                                    clients[0], failures[0]));
  }
  for (std::size_t slot = 0; slot < clients.size(); ++slot) {
    if (!failures[slot].empty()) result.failed.emplace_back(clients[slot], failures[slot]);
    result.steps += steps[slot];
    result.seconds += seconds[slot];
  }
  add_costs(result, cost_of_asking(costs));
}

}  // namespace chorus::inline distillation
