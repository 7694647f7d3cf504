#include "apps/experiment/compatibility.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config.h"

namespace chorus::inline experiment {
namespace {

/// An aggregation that reveals sums only, as secure ones will.
class HiddenSum : public Aggregation {
 public:
  Aggregated aggregate(AggregationInput) override { return {}; }
};
const Registration<Aggregations> kHiddenSum{
    "test_hidden_sum", "for tests", [] { return std::make_unique<HiddenSum>(); }, {.shows_updates = false}};

/// An algorithm with AdaFL's needs.
class TimedTrials : public Algorithm {
 public:
  RoundResult round(const RoundInput&) override { return {}; }
};
const Registration<Algorithms> kTimedTrials{"test_timed_trials",
                                            "for tests",
                                            [] { return std::make_unique<TimedTrials>(); },
                                            {.variants = true, .clock = true}};

std::string mistake_in(const std::string& more) {
  const std::string yaml =
      "kind: experiment\ntask: text_classification\nmodel: {from: somewhere}\ndata: {train: [x.jsonl]}\n" + more;
  try {
    ConfigDocument::parse(yaml, "test.yaml").load<ExperimentConfig>();
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Compatibility, WhatCannotWorkIsRefusedWhenItIsRead) {
  using testing::HasSubstr;
  EXPECT_EQ(mistake_in(""), "");
  EXPECT_EQ(mistake_in("aggregation: test_hidden_sum\nalgorithm: fedprox"), "");
  for (const char* name : {"fednova", "signsgd", "q_fedavg"}) {
    EXPECT_THAT(mistake_in(std::string("aggregation: test_hidden_sum\nalgorithm: ") + name),
                HasSubstr("looks at each client's update"));
  }
  EXPECT_THAT(mistake_in("aggregation: test_hidden_sum\nalgorithm: local"), HasSubstr("nothing to aggregate"));
  EXPECT_EQ(mistake_in("aggregation: {name: krum, attackers: 3}\nclients_per_round: 9"), "");
  EXPECT_THAT(mistake_in("aggregation: {name: fltrust, trusted: 20}\nclients: {count: 20}"),
              HasSubstr("there is no client 20"));
  EXPECT_EQ(mistake_in("aggregation: {name: fltrust, trusted: 19}\nclients: {count: 20}"), "");
  // The one client of a round may be the trusted one, whose update is only compared with.
  EXPECT_THAT(mistake_in("aggregation: {name: fltrust, trusted: 0}\nclients: {count: 3}\nclients_per_round: 1"),
              HasSubstr("needs 2 updates per round, but clients_per_round is 1"));
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, rule: fltrust}\nclients_per_round: 20"),
              HasSubstr("cannot combine means of groups"));
  EXPECT_THAT(mistake_in("attacks: {share: 0.2}\nalgorithm: local"), HasSubstr("could be attacked"));
  EXPECT_THAT(mistake_in("attacks: {share: 0.2}\ncompression: {up: [qsgd]}"), HasSubstr("compression.up"));
  EXPECT_THAT(mistake_in("algorithm: scaffold"), HasSubstr("needs plain gradient steps"));
  EXPECT_EQ(mistake_in("algorithm: scaffold\ntrainer: {optimizer: sgd, clip: 0}"), "");
  for (const char* trainer : {"{optimizer: {name: sgd, momentum: 0.9}, clip: 0}", "{optimizer: sgd, clip: 1}",
                              "{optimizer: sgd, clip: 0, weight_decay: 0.01}", "{optimizer: adamw, clip: 0}"}) {
    EXPECT_THAT(mistake_in(std::string("algorithm: scaffold\ntrainer: ") + trainer),
                HasSubstr("needs plain gradient steps"));
  }
  EXPECT_THAT(mistake_in("algorithm: fedlora"), HasSubstr("set tuning to"));
  EXPECT_EQ(mistake_in("algorithm: fedlora\ntuning: lora"), "");
  const std::string dp = "aggregation: {name: private_mean, noise: 1}\n", equal = "weighting: equal\n",
                    poisson = "selection: poisson\n";
  EXPECT_EQ(mistake_in(dp + equal + poisson), "");
  EXPECT_EQ(mistake_in(dp + equal + poisson + "algorithm: fedopt"), "");
  EXPECT_EQ(mistake_in(dp + equal + poisson + "algorithm: {name: ds_fl, send: votes}\npublic: {}"), "");
  EXPECT_NE(mistake_in(dp + equal + poisson + "algorithm: fedid\npublic: {}"), "");
  EXPECT_THAT(mistake_in(dp + poisson), HasSubstr("weighting: equal"));
  EXPECT_THAT(mistake_in(dp + equal), HasSubstr("selection: poisson"));
  EXPECT_THAT(mistake_in(dp + equal + "selection: {name: poisson, secret: false}"), HasSubstr("secret"));
  EXPECT_THAT(mistake_in(dp + equal + poisson + "algorithm: scaffold\ntrainer: {optimizer: sgd, clip: 0}"),
              HasSubstr("one sum"));
  EXPECT_THAT(mistake_in(dp + equal + poisson + "algorithm: fednova"), HasSubstr("looks at each client's update"));
  EXPECT_THAT(mistake_in(dp + equal + poisson + "emulation: {over_selection: 2}"), HasSubstr("push another one out"));
  EXPECT_THAT(mistake_in("aggregation: private_mean\n" + equal + poisson), HasSubstr("without noise"));
  const std::string shares = "aggregation: {name: private_sum, noise: 1}\n";
  EXPECT_EQ(mistake_in(shares + equal), "");
  EXPECT_THAT(mistake_in(shares + equal + poisson), HasSubstr("known number of clients"));
  EXPECT_THAT(mistake_in(shares), HasSubstr("weighting: equal"));
  EXPECT_THAT(mistake_in(shares + equal + "compression: {up: [qsgd]}"), HasSubstr("compression.up"));
  EXPECT_THAT(mistake_in("algorithm: fedbuff\nemulation: {over_selection: 2}"), HasSubstr("over_selection"));
  EXPECT_THAT(mistake_in("algorithm: {name: fedbuff, buffer: 4}\nclients_per_round: 4"),
              HasSubstr("fedbuff has 4 candidates in a round and waits for 4 updates"));
  const std::string four = "algorithm: {name: fedbuff, buffer: 4}\nclients_per_round: 8\n";
  EXPECT_EQ(mistake_in("algorithm: {name: fedbuff, buffer: 4}\nclients_per_round: 5"), "");
  EXPECT_EQ(mistake_in(four + "serving: {min_clients: 4}"), "");
  EXPECT_THAT(mistake_in(four + "serving: {min_clients: 5}"),
              HasSubstr("serving.min_clients is 5, but a step of algorithm: fedbuff is made from only 4 updates "
                        "(algorithm.buffer)"));
  EXPECT_EQ(mistake_in("algorithm: fedavg\nclients_per_round: 8\nserving: {min_clients: 5}"), "");
}

// The matrix of what can be combined with secure sums.
TEST(Compatibility, WhatSecureSumsCannotHideOrSumIsRefused) {
  using testing::HasSubstr;
  for (const std::string name : {"secagg", "secagg_plus", "light_secagg"}) {
    const std::string secure = "aggregation: " + name + "\n";
    for (const char* fits : {"", "algorithm: fedprox", "algorithm: fedopt", "weighting: equal", "weighting: batches",
                             "tuning: lora", "algorithm: scaffold\ntrainer: {optimizer: sgd, clip: 0}",
                             "algorithm: mhat\npublic: {}", "algorithm: ds_fl\npublic: {}"}) {
      EXPECT_EQ(mistake_in(secure + fits), "") << name << " " << fits;
    }
    for (const char* up : {"top_k", "qsgd", "sign"}) {
      EXPECT_THAT(mistake_in(secure + "compression: {up: [" + up + "]}"), HasSubstr("compression.up"));
    }
    EXPECT_THAT(mistake_in(secure + "algorithm: fednova"), HasSubstr("looks at each client's update"));
    EXPECT_THAT(mistake_in(secure + "algorithm: fedid\npublic: {}"), HasSubstr("looks at each client's update"));
    EXPECT_EQ(mistake_in(secure + "algorithm: fedbuff\nclients_per_round: 20"), "");
    EXPECT_THAT(mistake_in(secure + "algorithm: {name: fedbuff, buffer: 2}"), HasSubstr("algorithm.buffer is 2"));
    EXPECT_THAT(mistake_in("aggregation: {name: " + name + ", rare_rows: 2}\ntrainer: {weight_decay: 0.01}"),
                HasSubstr("trainer.weight_decay: 0"));
    EXPECT_EQ(mistake_in("aggregation: {name: " + name + ", rare_rows: 2}"), "");
    EXPECT_EQ(mistake_in(secure + "trainer: {weight_decay: 0.01}"), "");
    EXPECT_THAT(mistake_in(secure + "selection: power_of_choice"), HasSubstr("its loss"));
    EXPECT_THAT(mistake_in(secure + "selection: {name: weighted, replacement: true}"), HasSubstr("counts once"));
    EXPECT_THAT(mistake_in(secure + "evaluation: {per_client: true}"), HasSubstr("per_client"));
    EXPECT_THAT(mistake_in(secure + "attacks: {share: 0.2}"), HasSubstr("mode: cost"));
    EXPECT_EQ(mistake_in("aggregation: {name: " + name + ", mode: cost}\nattacks: {share: 0.2}"), "");
    EXPECT_THAT(mistake_in(secure + "clients_per_round: 2"), HasSubstr("needs 3 updates"));
  }
  for (const char* looks : {"q_fedavg", "ifca", "fedlora", "heterofl", "fedmd"}) {
    EXPECT_NE(mistake_in(std::string("aggregation: secagg\nalgorithm: ") + looks), "") << looks;
  }
  for (const char* rule :
       {"median", "{name: krum, attackers: 1}", "{name: bulyan, attackers: 0}", "geometric_median"}) {
    EXPECT_THAT(mistake_in(std::string("algorithm: fedbuff\nclients_per_round: 20\naggregation: ") + rule),
                HasSubstr("averages in its own way"));
  }
  // 4c, case 14: a sum that could overflow is refused when the file is read.
  EXPECT_THAT(mistake_in("aggregation: {name: secagg, bits: 31, most_examples: 1000000000}\nclients_per_round: 100"),
              HasSubstr("ring"));
  EXPECT_THAT(
      mistake_in("aggregation: {name: light_secagg, bits: 31, most_examples: 1000000000}\nclients_per_round: 100"),
      HasSubstr("field"));
  EXPECT_THAT(mistake_in("aggregation: {name: light_secagg, corrupt: 0.5, dropout: 0.5}"), HasSubstr("too many"));
  EXPECT_THAT(mistake_in("aggregation: {name: secagg, server: active, rare_rows: 2}"), HasSubstr("cannot check it"));
  for (const char* sum : {"{name: secagg, server: active}",
                          "{name: secure_groups, groups: 2, rule: mean, sum: {name: secagg, server: active}}"}) {
    EXPECT_THAT(mistake_in(std::string("algorithm: fedbuff\nclients_per_round: 20\naggregation: ") + sum),
                HasSubstr("set server: semi_honest"));
  }
  EXPECT_EQ(mistake_in("aggregation: {name: secure_groups, groups: 3}\nclients_per_round: 9"), "");
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, groups: 4}\nclients_per_round: 10"),
              HasSubstr("2 clients each"));
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, groups: 4, rule: {name: krum, attackers: 1}}\n"
                         "clients_per_round: 20"),
              HasSubstr("needs 5 groups"));
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, sum: median}\nclients_per_round: 20"),
              HasSubstr("no secure sum"));
}

// Every size of cohort that a run deals out must be able to sum, not only that of a round.
TEST(Compatibility, SecureSumsOverPartsOfARoundAreRefusedWhereAPartIsTooSmall) {
  using testing::HasSubstr;
  // 13 clients in three groups: 4, 4 and 5, where 5 may lose 2 and bear 1.
  const std::string groups = "aggregation: {name: secure_groups, groups: 3, sum: {name: secagg_plus, dropout: 0.4}}\n";
  EXPECT_EQ(mistake_in(groups + "clients_per_round: 12"), "");
  EXPECT_THAT(mistake_in(groups + "clients_per_round: 13"), HasSubstr("of 5 clients 1 may collude and 2 may vanish"));
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, groups: 7, rule: {name: krum, attackers: 3}}\n"
                         "clients_per_round: 21"),
              HasSubstr("rule: krum with these settings needs 9 groups, and groups is 7; raise groups"));
  EXPECT_THAT(mistake_in("aggregation: {name: secure_groups, sum: {name: private_sum, noise: 1}}\n"
                         "clients_per_round: 20"),
              HasSubstr("private_sum is no secure sum of groups"));

  const std::string parts = "algorithm: test_timed_trials\ntuning: pfeiffer\nemulation: {}\nclients_per_round: ";
  EXPECT_EQ(mistake_in(parts + "12\naggregation: {name: secagg_plus, dropout: 0.4}"), "");
  EXPECT_THAT(mistake_in(parts + "15\naggregation: {name: secagg_plus, dropout: 0.4}"),
              HasSubstr("with 5 of 15 clients per round in a group of algorithm: test_timed_trials"));
  for (const char* needs : {"secagg", "secagg_plus", "light_secagg", "{name: trimmed_mean, attackers: 1}"}) {
    EXPECT_THAT(mistake_in(parts + "8\naggregation: " + needs),
                HasSubstr("needs 3 updates, but algorithm: test_timed_trials deals 8 clients per round into 3 groups, "
                          "which have 2"));
    EXPECT_EQ(mistake_in(parts + "9\naggregation: " + needs), "");
  }

  const std::string fedbuff = "aggregation: {name: secagg_plus, dropout: 0.4}\nalgorithm: {name: fedbuff, buffer: ";
  EXPECT_EQ(mistake_in(fedbuff + "4}\nclients_per_round: 5"), "") << "only the buffer is summed";
  EXPECT_THAT(mistake_in(fedbuff + "5}\nclients_per_round: 8"), HasSubstr("with algorithm.buffer: 5"));
}

TEST(Compatibility, OverSelectionThatASecureSumDoesNotBearIsRefused) {
  using testing::HasSubstr;
  const auto mistake = [](const std::string& aggregation, double factor) {
    return mistake_in(
        fmt::format("aggregation: {}\nclients_per_round: 20\nemulation: {{over_selection: {}}}", aggregation, factor));
  };
  for (const auto& [aggregation, most] : {std::pair("secagg", 1.9),
                                          {"{name: secagg, server: active}", 1.4},
                                          {"secagg_plus", 1.25},
                                          {"{name: secagg_plus, dropout: 0.4}", 1.65},
                                          {"light_secagg", 1.4},
                                          {"{name: secagg_plus, mode: cost}", 1.25},
                                          {"{name: secure_groups, groups: 5}", 1.25}}) {
    EXPECT_EQ(mistake(aggregation, most), "") << aggregation;
    const std::string refused = mistake(aggregation, 2);
    EXPECT_THAT(refused, HasSubstr("emulation.over_selection: 2 asks ")) << aggregation;
    EXPECT_EQ(refused.find("raise aggregation.dropout") == std::string::npos,
              std::string(aggregation).find("{name: secagg,") == 0 || aggregation == std::string("secagg"));
  }
  EXPECT_THAT(mistake("secagg_plus", 2),
              HasSubstr("asks 40 clients for a secure sum and takes the first 20 replies, but aggregation: secagg_plus "
                        "bears 8 missing; lower it"));
}

TEST(Compatibility, WhatMeasuresByTheEmulatedClockNeedsOne) {
  using testing::HasSubstr;
  EXPECT_THAT(mistake_in("algorithm: test_timed_trials\ntuning: pfeiffer"), HasSubstr("give `emulation`"));
  EXPECT_THAT(mistake_in("algorithm: test_timed_trials\nemulation: {}"), HasSubstr("set tuning to"));
  EXPECT_EQ(mistake_in("algorithm: test_timed_trials\ntuning: pfeiffer\nemulation: {}"), "");
  EXPECT_EQ(mistake_in("algorithm: fedbuff\nclients_per_round: 20\nemulation: {}"), "");
  EXPECT_EQ(mistake_in("algorithm: fedavg\nemulation: {over_selection: 2}"), "");
}

// A method that is registered later must not slip past these rules: its traits decide, not its name.
TEST(Compatibility, EveryAlgorithmThatLooksAtUpdatesRefusesHiddenOnes) {
  int looking = 0;
  for (const std::string& name : Algorithms::names()) {
    const AlgorithmTraits traits = Choice<Algorithms>(name).traits();
    if (!traits.individual_updates) continue;
    ++looking;
    EXPECT_NE(mistake_in("aggregation: test_hidden_sum\nalgorithm: " + name), "") << name;
  }
  EXPECT_GE(looking, 2);
}

TEST(Compatibility, AttacksThatCannotWorkAreRefused) {
  using testing::HasSubstr;
  const std::string ten = "clients: {count: 10}\nclients_per_round: 5\n";
  EXPECT_EQ(mistake_in(ten + "attacks: {share: 0.1}"), "");
  EXPECT_THAT(mistake_in(ten + "attacks: {share: 0.05}"), HasSubstr("0.05 of 10 clients is less than one"));
  EXPECT_THAT(mistake_in(ten + "attacks: {share: 0.2, spared: [99]}"), HasSubstr("there is no client 99"));
  const std::string trusts = ten + "aggregation: {name: fltrust, trusted: 3}\n";
  EXPECT_THAT(mistake_in(trusts + "attacks: {share: 0.2}"), HasSubstr("set attacks.spared: [3]"));
  EXPECT_EQ(mistake_in(trusts + "attacks: {share: 0.2, spared: [3]}"), "");
  // Where groups are asked one after the other, an attacker sees its own group only.
  const std::string groups =
                        "clients: {count: 20}\nclients_per_round: 15\naggregation: {name: secure_groups, sum: "
                        "{name: secagg_plus, mode: cost}}\n",
                    trials = "clients: {count: 20}\nalgorithm: test_timed_trials\ntuning: pfeiffer\nemulation: {}\n";
  for (const std::string& parts : {groups, trials}) {
    for (const char* sees : {"alie", "ipm"}) {
      EXPECT_THAT(mistake_in(parts + "attacks: {attack: " + sees + "}"), HasSubstr("looks at the updates of others"));
    }
    EXPECT_EQ(mistake_in(parts + "attacks: {attack: sign_flip}"), "");
  }
}

TEST(Compatibility, WhatDistillationCannotDoIsRefused) {
  using testing::HasSubstr;
  const auto with = [](const std::string& algorithm, const std::string& more) {
    return mistake_in("public: {}\nalgorithm: " + algorithm + "\n" + more);
  };
  for (const std::string name :
       {"ds_fl", "mhat", "fedkd", "fedmd", "cronus", "feded", "feddf", "fedid", "calibrated"}) {
    const AlgorithmTraits traits = Choice<Algorithms>(name).traits();
    EXPECT_EQ(with(name, ""), "") << name;
    EXPECT_THAT(with(name, "trainer: {privacy: {noise: 1, clip: 1}, clip: 0}"), HasSubstr("private_mean")) << name;
    EXPECT_EQ(with(name, "selection: power_of_choice") == "", !traits.any_network) << name;
    for (const auto& [direction, predictions] :
         {std::pair("up", traits.predictions_up), {"down", traits.predictions_down}}) {
      const std::string filter = fmt::format("compression: {{{}: [{{name: top_answers, classes: 4}}]}}", direction);
      EXPECT_EQ(with(name, filter) == "", predictions) << name << " " << filter;
    }
    // What was left out belongs to other predictions.
    for (const char* filter : {"top_k", "random_k", "power_sgd", "{name: sign, error_feedback: true}", "ecq"}) {
      const std::string refused = with(name, fmt::format("compression: {{up: [{}]}}", filter));
      EXPECT_EQ(refused != "", traits.predictions_up) << name << " " << filter;
      if (!traits.predictions_up) continue;
      EXPECT_THAT(refused, HasSubstr("error feedback would add")) << name;
      EXPECT_EQ(refused.find("error_feedback: false") == std::string::npos, filter == std::string("ecq")) << refused;
    }
    EXPECT_EQ(with(name, "compression: {down: [ecq]}") != "", traits.predictions_down) << name;
    for (const char* filter : {"top_k", "random_k", "power_sgd", "sign"}) {
      EXPECT_EQ(with(name, fmt::format("compression: {{up: [{{name: {}, error_feedback: false}}]}}", filter)), "");
    }
    EXPECT_EQ(with(name, "attacks: {attack: label_flip}"), "") << name;
    const bool aggregated = traits.one_sum || name == "feddf";
    EXPECT_EQ(with(name, "attacks: {attack: sign_flip}") == "", aggregated) << name;
    EXPECT_EQ(with(name, "attacks: {attack: {name: label_flip, factor: 4}}") == "", aggregated) << name;
    EXPECT_EQ(with(name, "weighting: equal\naggregation: {name: private_sum, noise: 1}") == "", traits.one_sum) << name;
  }
  EXPECT_EQ(mistake_in("compression: {up: [top_k, {name: ecq, bits: 8}]}"), "") << "of updates";
  EXPECT_THAT(mistake_in("compression: {up: [{name: top_answers, classes: 4}]}"),
              HasSubstr("algorithm: fedavg sends none in this direction"));
  EXPECT_THAT(with("{name: ds_fl, rate: 1.0e30}", ""), HasSubstr("rate"));
  EXPECT_THAT(with("{name: ds_fl, server_rate: 1.0e30}", ""), HasSubstr("server_rate"));
}

TEST(Compatibility, AQuerySetIsAskedForOnlyWhereItIsUsed) {
  const auto without_queries = [](const std::string& algorithm) {
    return mistake_in("public: {query_share: 0}\nalgorithm: " + algorithm);
  };
  for (const char* uses : {"fedid", "{name: fedid, preset: as_written}", "calibrated"}) {
    EXPECT_THAT(without_queries(uses), testing::HasSubstr("public.query_share")) << uses;
  }
  for (const char* none : {"{name: fedid, feedback: none}", "{name: calibrated, query: false}", "mhat"}) {
    EXPECT_EQ(without_queries(none), "") << none;
  }
}

// 4c, case 16: more attackers than a rule can bear are refused.
TEST(Compatibility, Case16TooManyAttackersForTheRuleAreRefused) {
  const auto mistake = [](const char* rule, int clients) {
    return mistake_in(fmt::format("aggregation: {}\nclients_per_round: {}", rule, clients));
  };
  struct {
    const char* rule;
    int least;
  } const cases[] = {{"{name: trimmed_mean, attackers: 4}", 9},
                     {"{name: krum, attackers: 4}", 11},
                     {"{name: krum, attackers: 4, keep: 6}", 12},
                     {"{name: bulyan, attackers: 2}", 11},
                     {"{name: spectral_filter, attackers: 4}", 9},
                     {"{name: median, mixing: 4}", 9},
                     {"{name: trimmed_mean, attackers: 1, mixing: 4}", 9},
                     {"{name: krum, attackers: 4, mixing: 4}", 11}};
  for (const auto& [rule, least] : cases) {
    EXPECT_EQ(mistake(rule, least), "");
    EXPECT_THAT(mistake(rule, least - 1), testing::HasSubstr(fmt::format("needs {} updates per round", least)));
  }
  // 4f + 3 must not wrap.
  EXPECT_THAT(mistake("{name: bulyan, attackers: 4611686018427387904}", 20), testing::HasSubstr("attackers"));
}

}  // namespace
}  // namespace chorus::inline experiment
