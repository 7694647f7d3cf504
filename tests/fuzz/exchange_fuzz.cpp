// Rounds of every algorithm, aggregation and filter with peers that send anything that a frame can carry (tools/fuzz):
// updates, compressed updates, predictions, control variates, gradients, messages of secure sums, and the requests for
// them. Whoever sends nonsense fails alone: a round ends without an exception, and the model stays finite.
#include <ATen/ATen.h>

#include <cstdio>
#include <cstdlib>

#include "algorithm/compression/filtered_federation.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/console/quiet_console.h"
#include "core/device/torch_runtime.h"
#include "core/ports/algorithm.h"
#include "core/ports/forwarding_federation.h"
#include "tests/contract/linear_clients.h"
#include "tests/contract/quadratic_clients.h"
#include "tests/fuzz/forgery.h"

namespace chorus::inline fuzz {
namespace {

constexpr std::int64_t kParameters = 1100;  // more than the shortest vector that is compressed
constexpr int kRounds = 2;

/// Changes what passes. The first client is honest.
class Forger : public ForwardingFederation {
 public:
  Forger(Federation& inner, Dice& dice) : ForwardingFederation(inner), dice_(dice) {}
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    if (++asks_ > 200) std::abort();  // a round has an end
    for (std::size_t i = dice_.below(8); i > 6 && !dice_.over(); --i) {
      lied_ = true;
      const bool own = !request.own.empty() && dice_.below(2) == 1;
      Message& message = own ? request.own[dice_.below(request.own.size())] : request.body;
      forge(message, dice_);
      for (auto& entry : message.numbers) {  // a server may let its clients work for long, but not here
        if (entry.second > 100 && entry.second <= 1e9) entry.second = 100;
      }
    }
    const auto replies = std::make_shared<Replies>(inner().ask(cohort, std::move(request)));
    return Replies([this, replies] {
      std::optional<Reply> reply = replies->next();
      if (!reply) return reply;
      reply->finite.clear();  // does not travel
      const std::size_t changes = reply->client == 0 ? 0 : dice_.below(4);
      for (std::size_t i = changes; i > 0 && !dice_.over(); --i) forge(reply->body, dice_);
      for (const auto& entry : reply->body.tensors) {
        if (!entry.second.is_floating_point() || entry.second.numel() == 0) continue;
        wild_ = wild_ || entry.second.to(at::kDouble).abs().max().item<double>() > 1e10;
      }
      return reply;
    });
  }
  bool lied() const { return lied_; }  // to clients
  bool wild() const { return wild_; }  // some update is so large that sums may overflow

 private:
  Dice& dice_;
  bool lied_ = false, wild_ = false;
  int asks_ = 0;
};

const std::vector<std::string>& compressions() {
  static const std::vector<std::string> all{
      "{}",
      "{up: [{name: uniform, bits: 4}], down: [{name: uniform, bits: 8}]}",
      "{up: [{name: top_k, k: 0.05}, {name: uniform, bits: 8}, zstd], down: [{name: ecq, bits: 8}]}",
      "{up: [{name: random_k, k: 0.1}, fp16], down: [bf16]}",
      "{up: [{name: power_sgd, rank: 2}], down: [{name: power_sgd, rank: 2, error_feedback: false}, fp16]}",
      "{up: [{name: qsgd, bits: 8}, zstd], down: [{name: qsgd, bits: 8}]}",
      "{up: [sign]}"};
  return all;
}

[[noreturn]] void finding(const std::string& what, const std::string& why) {
  std::fprintf(stderr, "finding: %s: %s\n", what.c_str(), why.c_str());
  std::abort();
}

/// Algorithms that ask these clients for something.
std::vector<std::string> algorithms(bool distilling) {
  std::vector<std::string> names;
  for (const std::string& name : Algorithms::names()) {
    const AlgorithmTraits traits = Algorithms::traits(name);
    if (!traits.pooled && !traits.splits && traits.distills == distilling) names.push_back(name);
  }
  return names;
}

std::vector<std::string> aggregations() {
  std::vector<std::string> names;
  for (const std::string& name : Aggregations::names()) {
    if (!Aggregations::traits(name).noisy_sum) names.push_back(name);
  }
  return names;
}

/// Some rounds of one choice.
struct Trial {
  Dice& dice;
  std::string algorithm, aggregation, compression;
  at::Tensor model = {};
  bool wild = false;

  void judge(const std::function<void(Federation&)>& round, LocalFederationInput local, const FilterEndInput& filters) {
    const FilterEnd gate(filters, FilterEnd::Side::kClient);
    local.gate = &gate;
    LocalFederation clients(local);
    Forger forger(clients, dice);
    FilteredFederation filtered(filters, forger);
    quadratic::OneSecond federation(filtered);
    const std::string what = algorithm + " with " + aggregation + " and " + compression;
    try {
      round(federation);
    } catch (const InternalError& error) {
      finding(what, error.what());
    } catch (const Error& error) {
      if (!forger.lied()) finding(what, error.what());
    } catch (const std::exception& error) {
      finding(what, error.what());
    }
    wild = wild || forger.wild();
    if (!wild && !at::isfinite(model).all().item<bool>()) finding(what, "the model is not finite");
  }

  FilterEndInput filters() const {
    FilterEndInput input;
    ConfigDocument::parse(compression, "fuzz").fill([&](ConfigVisitor& visitor) { input.config.describe(visitor); });
    input.reference = at::zeros({kParameters});
    input.most_elements = 4 * kParameters;
    static const quadratic::LeadingElements parts(kParameters);
    input.variants = &parts;
    input.blocks = [](std::int64_t size) {
      return size == kParameters ? std::vector<FilterBlock>{{0, {30, 30}}, {900, {200}}} : std::vector<FilterBlock>{};
    };
    return input;
  }

  void quadratic() {
    quadratic::World world{.clients = {{.examples = 3}, {.target = 1, .steps = 2, .examples = 5}, {.target = 2}, {}},
                           .parameters = kParameters,
                           .parts = true};
    const std::string options = algorithm == "heterofl" ? "{widths: [0.5, 1]}"
                                : algorithm == "adafl"  ? "{depth: 1, width: 100, width_step: 100, interval: 0.4}"
                                                        : "{}";
    const auto method = quadratic::make_algorithm(algorithm, world, options);
    const quadratic::LeadingElements parts(kParameters);
    const auto rule = Aggregations::make(aggregation);
    rule->prepare({.clients = 4, .clients_per_round = 4, .rounds = kRounds});
    model = at::zeros({kParameters});
    const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}, {3, 1}};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      judge(
          [&](Federation& federation) {
            RoundInput input{federation, *rule, cohort, model, round, 10};
            input.variants = &parts;
            input.judge = [](const at::Tensor& of, const Variant&) { return -of.square().sum().item<double>(); };
            (void)method->round(input);
          },
          quadratic::federation_input(world), filters());
    }
  }

  void linear() {
    linear::World world{
        .clients = {{.examples = 6, .steps = 2}, {.examples = 9, .steps = 3}, {.examples = 5, .steps = 1}}};
    const auto method = Algorithms::make(algorithm);
    const auto rule = Aggregations::make("mean");
    const auto server = world.server();
    model = world.beginning();
    const std::vector<Member> cohort{{0, 1}, {1, 1}, {2, 1}};
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      judge(
          [&](Federation& federation) {
            RoundInput input{federation, *rule, cohort, model, round, 10, 7};
            input.server = server.get();
            (void)method->round(input);
          },
          linear::federation_input(world), filters());
    }
  }
};

}  // namespace
}  // namespace chorus::inline fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  static const QuietConsole kQuiet;
  static const TorchThreads kOne(1);
  static const std::vector<std::string> kPlain = algorithms(false), kDistilling = algorithms(true),
                                        kRules = aggregations();
  Dice dice(bytes, size);
  const bool distilling = dice.below(4) == 3;
  const auto& names = distilling ? kDistilling : kPlain;
  Trial trial{dice, names[dice.below(names.size())], "mean", compressions()[dice.below(compressions().size())]};
  if (!distilling && dice.below(2) == 1) {
    trial.aggregation = kRules[dice.below(kRules.size())];
    trial.algorithm = "fedavg";
    if (Aggregations::traits(trial.aggregation).masked) trial.compression = "{}";
  }
  if (distilling) {
    trial.linear();
  } else {
    trial.quadratic();
  }
  return 0;
}
