#include "algorithm/distillation/fedid.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "algorithm/distillation/fedid_client.h"
#include "algorithm/distillation/mhat.h"
#include "algorithm/distillation/table5.h"
#include "algorithm/federated/read_updates.h"
#include "core/base/error.h"

namespace chorus::inline distillation {

void FedIdConfig::describe(ConfigVisitor& visitor) {
  teaching.describe(visitor);
  visitor.field("preset", preset, "as in the published code, or as in the paper")
      .one_of({"as_published", "as_written"});
  visitor.field("labels", labels, "hard: most probable classes; soft: probabilities").one_of({"hard", "soft"});
  visitor.field("feedback", feedback, "difference of the query loss, its gradient (equation 14), or none")
      .one_of({"difference", "gradient", "none"});
  visitor.field("new_optimizer", new_optimizer, "a new optimizer for every batch, on both sides");
  visitor.field("feedback_dropout", feedback_dropout, "dropout while clients predict and the server measures");
  visitor.field("distillation", distillation, "clients learn the ensemble; false: feedback only (ablation)");
  visitor.check([this]() -> std::string {
    if (!distillation && how_feedback() == Feedback::kNone)
      return "without distillation and feedback nothing is learned";
    return "";
  });
}

Feedback FedIdConfig::how_feedback() const {
  const std::string name = feedback.value_or(published() ? "difference" : "gradient");
  return name == "difference" ? Feedback::kDifference : name == "gradient" ? Feedback::kGradient : Feedback::kNone;
}

namespace {

/// A client in the session.
struct Participant {
  ClientId client = 0;
  double times = 1;   // how often it was drawn
  double weight = 0;  // w_k, before normalization
  double loss = 0;    // of its training
  at::Tensor logits = {};
};

/// The server's side of a round. Its parts are timed: seconds_local (local training and the first predictions),
/// seconds_server (steps and query losses), seconds_clients (steps and predictions), seconds_last (the last step, and
/// keeping the models).
class Interaction {
 public:
  Interaction(const FedIdConfig& config, const RoundInput& input)
      : config_(config), input_(input), order_(order_of(input, config.teaching)), session_(input.federation) {
    order_.strided = config.published();
    steps_ = static_cast<std::uint64_t>(config.teaching.epochs) * order_.batches();
    LearnerWish wish;
    wish.steps = config.renews() ? 1 : static_cast<std::int64_t>(steps_);
    wish.rate = config.teaching.rate_of_server();
    text_loss_ = text_loss_of(input, config.teaching);
    server_ = input.server->learner(input.model, wish);
    size_ = server_->predict(std::vector<std::uint32_t>{0}).size(-1);
    if (size_ == 1 && config.how_feedback() == Feedback::kDifference) throw ConfigError(kNoDifferenceOfScores);
    const Roster& roster = input.federation.roster();
    for (const Member& member : input.cohort) clients_.push_back({member.client, member.times});
    std::sort(clients_.begin(), clients_.end(), [&](const Participant& a, const Participant& b) {
      const double left = roster.size_of(a.client), right = roster.size_of(b.client);
      return left != right ? left > right : a.client < b.client;
    });
  }

  RoundResult run() {
    const auto timed = [&](const char* part, const auto& work) {
      const auto begun = std::chrono::steady_clock::now();
      work();
      result_.numbers[part] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    };
    timed("seconds_local", [&] { begin(); });
    for (std::uint64_t step = 0; step < steps_ && !clients_.empty(); ++step) {
      Request request;
      timed("seconds_server", [&] { request = teach_server_batch(step); });
      if (step + 1 < steps_) {
        timed("seconds_clients", [&] { exchange(std::move(request), step + 1); });
      } else {
        timed("seconds_last", [&] { exchange(std::move(request), std::nullopt); });
      }
    }
    if (used_ > 0) {
      input_.model.copy_(server_->values()[0]);
      if (config_.how_feedback() != Feedback::kNone) {
        result_.numbers["feedback"] = feedback_ / static_cast<double>(taught_);
        result_.numbers["query_loss"] = query_loss_ / static_cast<double>(taught_);
      }
    }
    const auto predictions = static_cast<double>(order_.answers() * size_);
    note_traffic(input_, {predictions, predictions, sent_, received_}, result_);
    result_.loss = weights_ > 0 ? result_.loss / weights_ : std::nan("");
    return std::move(result_);
  }

 private:
  Request request(const char* procedure, std::optional<std::uint64_t> next) {
    Request request{.procedure = procedure, .round = input_.round};
    request.ask = asks_++;
    write_order(order_, request.body);
    if (next) request.body.numbers["batch"] = static_cast<double>(*next);
    request.body.numbers["dropout"] = config_.dropout() ? 1 : 0;
    return request;
  }

  void begin() {
    Request first = request(kFedIdBegin, 0);
    first.enough = input_.enough;
    first.body.numbers["rate"] = config_.teaching.rate;
    first.body.numbers["steps"] = config_.renews() ? 1 : static_cast<double>(steps_);
    ask(std::move(first), order_.answers(order_.batch(0)), [&](Reply& reply, Participant& client) {
      client.weight = weight_of(reply, input_.weighting) * client.times;
      client.loss = reply.body.number("loss");
      if (!std::isfinite(client.loss)) throw DataError("its loss is not a number");
    });
    std::map<ClientId, const Participant*> in_order;
    for (const Participant& client : clients_) in_order[client.client] = &client;
    for (const auto& [id, client] : in_order) {
      weights_ += client->weight;
      result_.loss += client->weight * client->loss;
    }
    used_ = clients_.size();
  }

  /// The server's step on the batch that the clients have predicted, and the request with its feedback.
  Request teach_server_batch(std::uint64_t step) {
    const std::vector<std::uint32_t> rows = order_.batch(step);
    double total = 0;
    for (const Participant& client : clients_) total += client.weight;
    std::vector<at::Tensor> each;
    at::Tensor weights = at::empty({static_cast<std::int64_t>(clients_.size()), 1, 1}, at::kFloat);
    for (const Participant& client : clients_) {
      weights.data_ptr<float>()[each.size()] = static_cast<float>(client.weight / total);
      each.push_back(client.logits);
    }
    weights = weights.to(input_.model.device());
    const at::Tensor logits = at::stack(each);  // [K, n, classes]
    const at::Tensor votes = (votes_of(logits, config_.lesson()) * weights).sum(0);
    Targets targets;
    (size_ == 1 ? targets.scores : targets.votes) = votes;
    targets.own = text_loss_;
    if (config_.renews()) server_->renew(1);
    const Feedback how = config_.how_feedback();
    const ProbeWish probe{.dropout = config_.dropout()};
    const auto query = static_cast<std::int64_t>(step);
    const at::Tensor before = how == Feedback::kGradient ? server_->values().clone() : at::Tensor();
    const double old_loss = step == 0 ? query_loss_at(0) : old_loss_;
    const LearnResult learned = server_->fit(rows, targets);
    if (!learned.failures[0].empty()) throw DataError("the server's distillation failed: " + learned.failures[0]);

    Request request = this->request(kFedIdStep, std::nullopt);
    request.body.numbers["hard"] = config_.lesson() == Lesson::kHard ? 1 : 0;
    request.body.numbers["renew"] = config_.renews() ? 1 : 0;
    if (text_loss_ > 0) request.body.numbers["text_loss"] = text_loss_;
    if (config_.distillation) {
      const bool soft = config_.lesson() == Lesson::kSoft && size_ > 1;
      request.body.tensors["ensemble"] = soft ? votes.clamp_min(1e-12).log() : (logits * weights).sum(0);
    }
    ++taught_;
    if (how == Feedback::kDifference) {
      const double new_loss = server_->probe(query, probe).loss[0];
      feedback_ += old_loss - new_loss;
      query_loss_ += new_loss;
      for (const Participant& client : clients_) {
        Message own;
        own.numbers["feedback"] = client.weight / total * (old_loss - new_loss);
        request.own.push_back(std::move(own));
      }
    } else if (how == Feedback::kGradient) {
      // With a largest element of 1: they have the learning rate as a factor, and would underflow in float16.
      at::Tensor slopes = this->slopes(rows, before, query, learned.rate_sum[0]);
      const double largest = slopes.abs().max().item<double>();
      if (largest > 0) slopes = slopes / largest;
      request.body.tensors["slopes"] = slopes;
      for (const Participant& client : clients_) {
        Message own;
        own.numbers["feedback"] = client.weight / total * largest;
        request.own.push_back(std::move(own));
      }
    }
    return request;
  }

  /// The server's loss on query batch `step`, for feedback by difference.
  double query_loss_at(std::uint64_t step) {
    if (config_.how_feedback() != Feedback::kDifference) return 0;
    return server_->probe(static_cast<std::int64_t>(step), {.dropout = config_.dropout()}).loss[0];
  }

  /// What an answer's loss is linear in: log-probabilities of classes, or 2 f of scores (see the header).
  at::Tensor linear_part(const std::vector<std::uint32_t>& rows) const {
    const at::Tensor logits = server_->predict(rows)[0];
    return size_ == 1 ? 2 * logits : at::log_softmax(logits, -1);
  }

  /// dL_new / dy [n, K] (see the header).
  at::Tensor slopes(const std::vector<std::uint32_t>& rows, const at::Tensor& before, std::int64_t query, double rate) {
    const at::Tensor after = server_->values().clone();
    const ProbeResult probe = server_->probe(query, {.dropout = config_.dropout(), .gradients = true});
    query_loss_ += probe.loss[0];
    const double norm = probe.gradients.norm().item<double>();
    const std::int64_t answers = order_.answers(rows);
    at::Tensor result = at::zeros({answers, size_}, after.options());
    if (norm > 0 && std::isfinite(norm)) {
      // A step of this length is large compared with float32's rounding and small compared with the network's
      // curvature.
      const double length = 1e-2 / norm;
      server_->set_values(before + probe.gradients * length);
      const at::Tensor ahead = linear_part(rows);
      server_->set_values(before - probe.gradients * length);
      const at::Tensor behind = linear_part(rows);
      server_->set_values(after);
      result = (ahead - behind) * ((1 - text_loss_) * rate / (2 * length * static_cast<double>(answers)));
    }
    feedback_ += result.norm().item<double>();
    return result;
  }

  /// Sends the feedback for the last batch, and asks for batch `next` if there is one.
  void exchange(Request request, std::optional<std::uint64_t> next) {
    if (next) request.body.numbers["batch"] = static_cast<double>(*next);
    // While the clients work, the server measures its loss before the next step, whose batch it reads.
    const auto meanwhile = [&] {
      old_loss_ = next ? query_loss_at(*next) : 0;
      if (next) server_->read_ahead(order_.batch(*next));
    };
    const auto read = [&](Reply& reply, Participant&) {
      if (!next) reply.accept();
    };
    ask(std::move(request), next ? order_.answers(order_.batch(*next)) : 0, read, meanwhile);
  }

  /// Asks the remaining clients for predictions of `rows` rows; a client that fails leaves the round.
  void ask(Request request, std::int64_t rows, const std::function<void(Reply&, Participant&)>& read,
           const std::function<void()>& meanwhile = {}) {
    std::vector<ClientId> ids;
    for (const Participant& client : clients_) ids.push_back(client.client);
    std::vector<std::string> failures(ids.size(), "it did not reply");
    std::vector<Cost> costs(ids.size());
    std::vector<double> steps(ids.size(), 0), seconds(ids.size(), 0), examples(ids.size(), 0);
    const bool first = request.procedure == kFedIdBegin;
    for (const auto& [name, tensor] : request.body.tensors) {
      received_ += static_cast<double>(tensor.numel()) * static_cast<double>(ids.size());
    }
    Replies replies = session_.ask(ids, std::move(request));
    if (meanwhile) meanwhile();
    for (Reply& reply : replies) {
      costs.at(reply.slot) = reply.cost;
      std::string& failure = failures.at(reply.slot) = reply.failure;
      if (reply.left_out) result_.emulated.left_out.push_back(reply.client);
      if (!reply.ok()) continue;
      Participant& client = clients_.at(reply.slot);
      try {
        if (rows > 0) client.logits = logits_of(reply, rows);
        if (rows > 0) sent_ += static_cast<double>(client.logits.numel());
        read(reply, client);
        steps.at(reply.slot) = std::max(reply.body.number("steps", 0), 0.0);
        seconds.at(reply.slot) = std::max(reply.body.number("seconds", 0), 0.0);
        if (first) examples.at(reply.slot) = std::max(reply.body.number("examples", 0), 0.0);
      } catch (const DataError& error) {
        failure = error.what();
      }
    }
    if (rows > 0) leave_out_infinite(failures);
    std::vector<Participant> staying;
    for (std::size_t slot = 0; slot < ids.size(); ++slot) {
      if (failures[slot].empty()) {
        result_.steps += steps[slot];
        result_.seconds += seconds[slot];
        result_.examples += examples[slot];
        staying.push_back(std::move(clients_[slot]));
      } else {
        result_.failed.emplace_back(ids[slot], failures[slot]);
      }
    }
    clients_ = std::move(staying);
    add_costs(result_, cost_of_asking(costs));
  }

  at::Tensor logits_of(const Reply& reply, std::int64_t rows) const {
    return reply.body.vector("predictions", rows * size_).view({rows, size_}).to(input_.model.device());
  }

  // All clients at once, since a GPU is waited for.
  void leave_out_infinite(std::vector<std::string>& failures) const {
    std::vector<at::Tensor> each;
    std::vector<std::size_t> slots;
    for (std::size_t slot = 0; slot < failures.size(); ++slot) {
      if (!failures[slot].empty()) continue;
      each.push_back(clients_[slot].logits);
      slots.push_back(slot);
    }
    if (each.empty()) return;
    const at::Tensor finite = at::isfinite(at::stack(each)).flatten(1).all(1).cpu();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!finite.data_ptr<bool>()[i]) failures[slots[i]] = "its predictions have values that are not finite";
    }
  }

  const FedIdConfig& config_;
  const RoundInput& input_;
  PublicOrder order_;
  Session session_;
  std::uint64_t steps_ = 0, asks_ = 0, taught_ = 0;
  std::int64_t size_ = 0;
  double text_loss_ = 0;
  std::unique_ptr<Learner> server_;
  std::vector<Participant> clients_;
  std::size_t used_ = 0;
  double weights_ = 0, feedback_ = 0, query_loss_ = 0;
  double sent_ = 0, received_ = 0;  // elements of tensors, all clients together
  double old_loss_ = 0;             // on the query batch of the next step
  RoundResult result_;
};

const Registration<Algorithms, FedIdConfig> kRegisteredFedId{
    "fedid", "interactive distillation with feedback from a labelled query set, FedID (Ma et al. 2023)",
    [](const FedIdConfig& config) { return std::make_unique<FedId>(config); }, kLooksAtPredictions};

}  // namespace

RoundResult FedId::round(const RoundInput& input) { return Interaction(config_, input).run(); }

}  // namespace chorus::inline distillation
