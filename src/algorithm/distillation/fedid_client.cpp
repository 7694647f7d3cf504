#include "algorithm/distillation/fedid_client.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "algorithm/distillation/mhat.h"
#include "core/base/error.h"

namespace chorus::inline distillation {
namespace {

constexpr const char* kWork = "fedid";

/// What clients keep between batches.
struct FedIdWork : Kept {
  std::unique_ptr<Learner> learner;
  std::vector<std::uint32_t> rows;  // the rows of the last predictions
  at::Tensor logits;                // [C, n, K]

  void retain(std::span<const std::size_t> clients) override {
    learner->retain(clients);
    at::Tensor index = at::empty({static_cast<std::int64_t>(clients.size())}, at::kLong);
    std::copy(clients.begin(), clients.end(), index.data_ptr<std::int64_t>());
    logits = logits.index_select(0, index.to(logits.device()));
  }
};

std::uint64_t count_in(const Message& body, const char* name) {
  const double value = body.number(name);
  if (!(value >= 0 && value < 1e12 && value == std::floor(value))) {
    throw DataError(fmt::format("the request's number \"{}\" is {}, which is no count", name, value));
  }
  return static_cast<std::uint64_t>(value);
}

// Predicts the next batch and puts the logits into the replies.
void answer_next(const Request& request, Workbench& bench, FedIdWork& work, std::vector<Answer>& answers) {
  const PublicOrder order = read_order(request, bench);
  work.rows = order.batch(count_in(request.body, "batch"));
  const bool dropout = request.body.number("dropout") != 0;
  work.logits = dropout ? work.learner->predict_with_dropout(work.rows) : work.learner->predict(work.rows);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].body.numbers[kLoadTexts] += static_cast<double>(work.rows.size()) / 3;
    answers[i].body.tensors["predictions"] = work.logits[static_cast<std::int64_t>(i)].flatten().contiguous();
  }
}

class FedIdBegin : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    const TrainResult trained = bench.train(own_models(bench));
    LearnerWish wish;
    wish.steps = static_cast<std::int64_t>(std::max<std::uint64_t>(count_in(request.body, "steps"), 1));
    wish.rate = request.body.number("rate");
    if (!(wish.rate > 0 && wish.rate <= kMostRate)) throw DataError("the request's number \"rate\" is not positive");
    auto work = std::make_unique<FedIdWork>();
    work->learner = bench.learner(trained.values, wish);
    std::vector<Answer> answers(bench.clients().size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].failure = trained.failures[i];
      answers[i].body.numbers = {{"examples", trained.examples[i]},
                                 {"batches", trained.batches[i]},
                                 {kLoad, trained.batches[i]},
                                 {"steps", trained.steps[i]},
                                 {"seconds", trained.seconds / static_cast<double>(answers.size())},
                                 {"loss", trained.loss[i]}};
    }
    answer_next(request, bench, *work, answers);
    bench.keep(kWork, std::move(work));
    return answers;
  }
};

class FedIdStep : public Procedure {
 public:
  std::vector<Answer> run(const Request& request, Workbench& bench) const override {
    auto* work = dynamic_cast<FedIdWork*>(bench.kept(kWork));
    if (work == nullptr) throw DataError("it has not begun this round of fedid");
    std::vector<double> feedback;
    for (std::size_t i = 0; i < bench.clients().size(); ++i) {
      feedback.push_back(request.own_of(i).number("feedback", 0));
      if (!std::isfinite(feedback.back())) throw DataError("the server's feedback is not a number");
    }
    if (request.body.number("renew") != 0) work->learner->renew(1);
    const std::vector<std::uint32_t> rows = work->rows;
    Targets targets = fedid_targets(request.body, work->logits, feedback);
    targets.own = text_loss_in(request.body);
    const bool more = request.body.numbers.contains("batch");
    std::vector<Answer> answers(bench.clients().size());
    const LearnResult learned = work->learner->fit(rows, targets, [&] {
      if (more) answer_next(request, bench, *work, answers);
    });
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].failure = learned.failures[i];
      answers[i].body.numbers[kLoad] = 0;
      answers[i].body.numbers[kLoadTexts] += static_cast<double>(rows.size());
      answers[i].body.numbers["steps"] = learned.steps[i];
      answers[i].body.numbers["seconds"] = learned.seconds / static_cast<double>(answers.size());
    }
    if (!more) keep_models(bench, work->learner->values());
    return answers;
  }
};

const ProcedureRegistration<FedIdBegin> kBegin{kFedIdBegin, "train, and predict the first public batch"};
const ProcedureRegistration<FedIdStep> kStep{kFedIdStep, "learn one public batch, and predict the next"};

}  // namespace

Targets fedid_targets(const Message& body, const at::Tensor& own, const std::vector<double>& feedback) {
  const bool hard = body.number("hard") != 0;
  const auto of_batch = [&](const char* name) {
    const at::Tensor& given = body.tensor(name);
    if (given.scalar_type() != at::kFloat || given.sizes() != own.sizes().slice(1)) {
      throw DataError(fmt::format("\"{}\" does not belong to the batch that was answered", name));
    }
    return given.to(own.device());
  };
  at::Tensor factors = at::empty({own.size(0), 1, 1}, at::kFloat);
  for (std::size_t i = 0; i < feedback.size(); ++i) factors.data_ptr<float>()[i] = static_cast<float>(feedback[i]);
  factors = factors.to(own.device());
  Targets targets;
  at::Tensor ensemble;
  if (body.has_tensor("ensemble")) ensemble = of_batch("ensemble");
  if (own.size(-1) == 1) {
    // (1/n) (f - t)^2 + s f has the gradient of (1/n) (f - (t - n s / 2))^2; without an ensemble, t = f.
    targets.scores = ensemble.defined() ? ensemble.unsqueeze(0).expand_as(own) : own;
    if (body.has_tensor("slopes")) {
      const double half = static_cast<double>(own.size(1)) / 2;
      targets.scores = targets.scores - of_batch("slopes").unsqueeze(0) * factors * half;
    }
    return targets;
  }
  at::Tensor votes = at::zeros_like(own);
  if (ensemble.defined()) votes += votes_of(ensemble, hard ? Lesson::kHard : Lesson::kSoft);
  if (body.has_tensor("slopes")) {
    targets.rewards = -of_batch("slopes").unsqueeze(0) * factors * own.size(1);
  } else {
    votes += factors * votes_of(own, hard ? Lesson::kHard : Lesson::kSoft);
  }
  targets.votes = votes;
  return targets;
}

}  // namespace chorus::inline distillation
