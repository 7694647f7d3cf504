#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/central_dp/correlated_noise.h"
#include "algorithm/privacy/accountant.h"
#include "algorithm/privacy/participation.h"
#include "algorithm/privacy/shuffling.h"
#include "apps/cli/cli.h"
#include "core/base/error.h"
#include "infrastructure/tracking/run_summary.h"

namespace chorus::inline cli {
namespace {

struct PrivacyOptions {
  std::string mechanism = "gaussian", accountant, adjacency, sampling = "poisson", run;
  std::optional<double> noise = {};
  double sampling_rate = 1, steps = 1, delta = 1e-5, group = 1, buckets = 2;
  double l2 = 1, l1 = 0, epsilon = 0, participations = 1, separation = 1, bands = 1, buffers = 6, users = 1;
  std::vector<std::string> also;
  bool json = false;
};

std::int64_t whole(const char* option, double value) {
  if (!(std::abs(value) < 1e15) || value != std::floor(value)) {
    throw ConfigError(fmt::format("{} {}: give a whole number", option, value));
  }
  return static_cast<std::int64_t>(value);
}

double number(const std::string& key, const std::string& text) {
  try {
    std::size_t used = 0;
    const double value = std::stod(text, &used);
    if (used == text.size()) return value;
  } catch (const std::exception&) {
  }
  throw ConfigError(fmt::format("--also: {} is '{}'; give a number", key, text));
}

/// "laplace,noise=2,steps=3,sampling-rate=0.1"
Mechanism also_mechanism(const std::string& text) {
  Mechanism result;
  std::size_t begin = 0;
  for (bool first = true; begin <= text.size(); first = false) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (first) {
      result.kind = mechanism_named(part);
      continue;
    }
    const std::size_t equals = part.find('=');
    const std::string key = part.substr(0, equals), value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "noise") {
      result.noise = number(key, value);
    } else if (key == "steps") {
      result.steps = whole("--also: steps", number(key, value));
    } else if (key == "sampling-rate") {
      result.sampling_rate = number(key, value);
    } else if (key == "buckets") {
      result.buckets = whole("--also: buckets", number(key, value));
    } else {
      throw ConfigError(fmt::format("--also: unknown key '{}'; use noise, steps, sampling-rate or buckets", key));
    }
  }
  return result;
}

void check_sampling(const PrivacyOptions& options) {
  if (options.sampling == "poisson") return;
  throw ConfigError(
      fmt::format("--sampling {}: no accountant here is proven for it, and the numbers of Poisson sampling would be "
                  "too small; draw "
                  "each record independently (poisson), or account without sampling (--sampling-rate 1)",
                  options.sampling));
}

/// Matrix mechanisms are one Gaussian release with the sensitivity of all steps together.
bool is_matrix(const std::string& name) { return name == "tree" || name == "banded" || name == "blt"; }

/// What another mechanism would need is refused: whoever gives it expects that it counts.
void check_options(const PrivacyOptions& options) {
  const std::string& name = options.mechanism;
  const auto only = [&](bool given, const char* option, bool fits, const char* whose) {
    if (given && !fits)
      throw ConfigError(fmt::format("{} is for --mechanism {}, not for {}; leave it out", option, whose, name));
  };
  const bool shuffle = name == "shuffle";
  only(options.participations != 1, "--participations", is_matrix(name), "tree, banded or blt");
  only(options.separation != 1, "--separation", is_matrix(name), "tree, banded or blt");
  only(options.bands != 1, "--bands", name == "banded", "banded");
  only(options.buffers != 6, "--buffers", name == "blt", "blt");
  only(options.buckets != 2, "--buckets", name == "randomized_response", "randomized_response");
  only(options.l2 != 1 || options.l1 != 0, "--l2 or --l1", name == "skellam", "skellam");
  only(options.users != 1, "--users", shuffle, "shuffle");
  if (!shuffle) return;
  const bool once = options.steps == 1 && options.group == 1 && options.also.empty();
  if (!once || options.sampling_rate != 1 || options.noise || !options.accountant.empty()) {
    throw ConfigError(
        "--mechanism shuffle is accounted for as one answer of each user; leave out everything but --epsilon, --users "
        "and --delta");
  }
  if (!(options.epsilon > 0))
    throw ConfigError("--mechanism shuffle: give --epsilon, what each answer costs by itself");
}

double sensitivity_of(const PrivacyOptions& options) {
  if (options.sampling_rate < 1) {
    throw ConfigError(
        fmt::format("--mechanism {}: accounted for without sampling; leave out --sampling-rate", options.mechanism));
  }
  const Participation participation{.steps = whole("--steps", options.steps),
                                    .most = whole("--participations", options.participations),
                                    .separation = whole("--separation", options.separation)};
  validate(participation);
  MatrixConfig matrix{.kind = options.mechanism == "tree"     ? MatrixKind::kTree
                              : options.mechanism == "banded" ? MatrixKind::kBanded
                                                              : MatrixKind::kBlt,
                      .bands = whole("--bands", options.bands),
                      .buffers = whole("--buffers", options.buffers)};
  if (matrix.bands < 1 || matrix.bands > participation.steps) {
    throw ConfigError(fmt::format("--bands {}: give 1 to {} (the steps)", matrix.bands, participation.steps));
  }
  if (matrix.buffers < 1 || matrix.buffers > 64) {
    throw ConfigError(fmt::format("--buffers {}: give 1 to 64", matrix.buffers));
  }
  return matrix_sensitivity(matrix, participation);
}

Releases releases_of(const PrivacyOptions& options) {
  check_sampling(options);
  check_options(options);
  const bool matrix = is_matrix(options.mechanism);
  if (options.mechanism == "shuffle") {
    throw ConfigError("--mechanism shuffle is for chorus privacy account, with --epsilon and --users");
  }
  Mechanism first{.kind = matrix ? MechanismKind::kGaussian : mechanism_named(options.mechanism),
                  .noise = options.noise.value_or(0),
                  .sampling_rate = options.sampling_rate,
                  .steps = matrix ? 1 : whole("--steps", options.steps),
                  .buckets = whole("--buckets", options.buckets),
                  .sensitivity = options.l2,
                  .l1_sensitivity = options.l1 > 0 ? options.l1 : options.l2 * options.l2,
                  .group = whole("--group", options.group)};
  if (matrix) first.noise /= sensitivity_of(options);
  Releases releases{
      .mechanisms = {first},
      .adjacency = options.adjacency.empty() ? usual_adjacency(first.kind) : adjacency_named(options.adjacency),
      .delta = options.delta};
  for (const std::string& text : options.also) {
    releases.mechanisms.push_back(also_mechanism(text));
    releases.mechanisms.back().group = first.group;
  }
  return releases;
}

/// PLD by default; RDP where only divergences are known.
AccountantKind kind_for(const Releases& releases, const PrivacyOptions& options) {
  if (!options.accountant.empty()) return accountant_named(options.accountant);
  const bool divergences = std::any_of(releases.mechanisms.begin(), releases.mechanisms.end(), [](const Mechanism& m) {
    return m.kind == MechanismKind::kSkellam || m.kind == MechanismKind::kConcentrated;
  });
  return divergences ? AccountantKind::kRdp : AccountantKind::kPld;
}

nlohmann::ordered_json to_json(const Releases& releases, AccountantKind kind, const Spent& spent) {
  nlohmann::ordered_json result = {{"epsilon", spent.epsilon},
                                   {"delta", releases.delta},
                                   {"accountant", name_of(kind)},
                                   {"adjacency", name_of(releases.adjacency)}};
  if (spent.rdp) result["epsilon_rdp"] = *spent.rdp;
  if (spent.pld) result["epsilon_pld"] = *spent.pld;
  return result;
}

void account_command(const PrivacyOptions& options) {
  if (options.mechanism == "shuffle") {
    check_options(options);
    const double epsilon = shuffled_epsilon(options.epsilon, whole("--users", options.users), options.delta);
    if (options.json) {
      fmt::print("{}\n", nlohmann::ordered_json{{"epsilon", epsilon}, {"delta", options.delta}}.dump(2));
    } else {
      fmt::print("epsilon {:.6f} at delta {:g} (shuffled)\n", epsilon, options.delta);
    }
    return;
  }
  if (!options.noise) throw ConfigError("give --noise (see chorus privacy account --help)");
  const Releases releases = releases_of(options);
  const AccountantKind kind = kind_for(releases, options);
  const Spent spent = account(releases, kind);
  if (options.json) {
    fmt::print("{}\n", to_json(releases, kind, spent).dump(2));
  } else {
    fmt::print("epsilon {:.6f} at delta {:g} ({}, {})\n", spent.epsilon, releases.delta, name_of(kind),
               name_of(releases.adjacency));
  }
}

void calibrate_command(const PrivacyOptions& options) {
  PrivacyOptions unit = options;
  unit.noise = 1;
  Releases releases = releases_of(unit);
  const AccountantKind kind = kind_for(releases, options);
  const double scale = is_matrix(options.mechanism) ? sensitivity_of(options) : 1;
  const double noise = calibrate(releases, options.epsilon, kind);
  releases.mechanisms.front().noise = noise;
  const Spent spent = account(releases, kind);
  if (options.json) {
    nlohmann::ordered_json result = {{"noise", noise * scale}};
    result.update(to_json(releases, kind, spent));
    fmt::print("{}\n", result.dump(2));
  } else {
    fmt::print("noise {:.6f} for epsilon {:.6f} at delta {:g} ({}, {})\n", noise * scale, spent.epsilon, releases.delta,
               name_of(kind), name_of(releases.adjacency));
  }
}

/// What a run promises, from its summary.
void explain_run(const std::string& folder) {
  const auto summary = read_run_summary(folder);
  if (!summary) throw DataError(fmt::format("{}: not a finished run (there is no summary.json)", folder));
  if (!summary->privacy) {
    fmt::print(
        "{}: nothing is promised. This run has no differential privacy: whoever has the model or sees updates may "
        "learn what any example says (chorus privacy audit {} measures it).\n",
        folder, folder);
    return;
  }
  const PrivacyReport& p = *summary->privacy;
  fmt::print("{}\n", p.statement);
  fmt::print(
      "In numbers: whatever can be observed is at most {:.4g} times as likely with the protected data as without "
      "it, plus a probability of {:g}. {} releases were charged",
      std::exp(std::min(p.epsilon, 700.0)), p.delta, p.charges);
  fmt::print(", each with noise {:.4g} and a sampling rate of {:.4g}{}.\n", p.noise, p.sampling_rate,
             p.charges == 1 ? "" : " (or more noise, or a smaller rate)");
}

void explain_command(const PrivacyOptions& options) {
  if (!options.run.empty()) return explain_run(options.run);
  if (!options.noise) throw ConfigError("give a run folder, or --noise and what else was done");
  const Releases releases = releases_of(options);
  fmt::print("{}", explain(releases, account(releases, kind_for(releases, options))));
}

CLI::App* add_common(CLI::App& privacy, const char* name, const char* help, PrivacyOptions& options) {
  CLI::App* command = privacy.add_subcommand(name, help);
  command
      ->add_option("--mechanism", options.mechanism,
                   "gaussian, laplace, discrete_gaussian, discrete_laplace, skellam, randomized_response, zcdp, tree, "
                   "banded, blt; account: shuffle")
      ->capture_default_str();
  command->add_option("--sampling-rate", options.sampling_rate, "Probability that a record takes part in a step")
      ->capture_default_str();
  command->add_option("--sampling", options.sampling, "How records are sampled; only poisson is covered")
      ->capture_default_str();
  command->add_option("--steps", options.steps, "How often it is released")->capture_default_str();
  command->add_option("--delta", options.delta, "Probability that the promise fails")->capture_default_str();
  command->add_option("--accountant", options.accountant,
                      "pld (tight) or rdp; default: pld, and rdp for skellam and zcdp");
  command->add_option("--adjacency", options.adjacency, "add_remove or replace; default: the mechanism's own");
  command->add_option("--group", options.group, "Records that are protected together")->capture_default_str();
  command->add_option("--buckets", options.buckets, "Answers of a randomized response")->capture_default_str();
  command->add_option("--l2", options.l2, "skellam: L2 norm of an integer contribution")->capture_default_str();
  command->add_option("--l1", options.l1, "skellam: L1 norm of it; default: the square of the L2 norm");
  command->add_option("--participations", options.participations, "tree, banded, blt: most contributions of a record")
      ->capture_default_str();
  command->add_option("--separation", options.separation, "tree, banded, blt: least steps between two of them")
      ->capture_default_str();
  command->add_option("--bands", options.bands, "banded: bands of the square root of the prefix sum")
      ->capture_default_str();
  command->add_option("--buffers", options.buffers, "blt: exponentials of the matrix")->capture_default_str();
  command->add_option("--also", options.also, "Another release on the same records: laplace,noise=2,steps=3");
  command->add_flag("--json", options.json, "As JSON");
  return command;
}

}  // namespace

void add_privacy(CLI::App& app) {
  CLI::App* privacy = app.add_subcommand("privacy", "Account for differential privacy");
  privacy->group(kRuns);
  privacy->require_subcommand(1);

  auto options = std::make_shared<PrivacyOptions>();
  const char* noise = "Noise per sensitivity; the probability of a random answer for a randomized response";
  CLI::App* account = add_common(*privacy, "account", "Epsilon of what was released", *options);
  account->add_option("--noise", options->noise, noise);
  account->add_option("--epsilon", options->epsilon, "shuffle: epsilon of each local answer");
  account->add_option("--users", options->users, "shuffle: answers that are shuffled");
  account->footer(
      "Example:\n  chorus privacy account --mechanism gaussian --sampling-rate 0.01 --noise 0.7 --steps 120 --delta "
      "1e-5");
  account->callback([options] { account_command(*options); });

  auto wanted = std::make_shared<PrivacyOptions>();
  CLI::App* calibrate = add_common(*privacy, "calibrate", "The smallest noise for a wanted epsilon", *wanted);
  calibrate->add_option("--epsilon", wanted->epsilon, "Wanted epsilon")->required();
  calibrate->footer("Example:\n  chorus privacy calibrate --epsilon 8 --sampling-rate 0.01 --steps 1000 --delta 1e-6");
  calibrate->callback([wanted] { calibrate_command(*wanted); });

  auto words = std::make_shared<PrivacyOptions>();
  CLI::App* explain = add_common(*privacy, "explain", "What epsilon means here, in words", *words);
  explain->add_option("run", words->run, "A run folder: what this run promises; else the options describe it");
  explain->add_option("--noise", words->noise, noise);
  explain->footer(
      "Examples:\n  chorus privacy explain runs/demo_private-001\n  chorus privacy explain --noise 1 "
      "--sampling-rate 0.1 --steps 100");
  explain->callback([words] { explain_command(*words); });
}

}  // namespace chorus::inline cli
