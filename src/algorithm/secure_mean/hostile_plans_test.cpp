// Servers that ask clients for other sums than they say.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "algorithm/secure/messages.h"
#include "algorithm/secure_mean/rare_rows.h"
#include "algorithm/secure_mean/secure_mean.h"
#include "algorithm/secure_mean/secure_procedures.h"
#include "core/base/error.h"
#include "tests/support.h"
#include "tests/word_clients.h"

namespace chorus::inline secure_mean {
namespace {

using testing::Each;
using testing::HasSubstr;

at::Tensor row_of(const WordTrial& trial, std::int64_t row) {
  const RowTable table = word_tables(trial.clients.layout).at(0);
  return trial.model.narrow(0, table.begin + row * table.width, table.width);
}

TEST(HostilePlans, ARareRowOfTheModelStaysAsItIs) {
  for (const std::string mode : {"real", "cost"}) {
    WordTrial trial("{clip: 2, rare_rows: 2, mode: " + mode + "}");
    const at::Tensor before = trial.model.clone();
    ASSERT_TRUE(trial.step()) << testing::PrintToString(trial.clients.failures);
    WordTrial start("{}");
    start.model = before;
    for (const std::int64_t row : {2, 3, 4, 5}) EXPECT_TRUE(row_of(trial, row).equal(row_of(start, row))) << row;
    for (const std::int64_t row : {0, 1}) EXPECT_FALSE(row_of(trial, row).equal(row_of(start, row))) << row;
  }
}

TEST(HostilePlans, AClientWithAModelOfItsOwnIsNotInTheSum) {
  for (const char* options : {"{clip: 2}", "{clip: 2, rare_rows: 2}"}) {
    WordTrial trial(options);
    trial.clients.tamper = [](ClientId client, Request& request) {
      if (client == 1 && request.body.has_tensor("model")) {
        request.body.tensors["model"] = request.body.tensor("model") + 1e-6;
      }
    };
    const Aggregated result = trial.round();
    for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(result.clients[i].failure.empty(), i != 1) << options;
  }
}

// The request for the values names no model, so it must enter their keys through the request for the counts. A server
// may skip the sum of counts.
TEST(HostilePlans, TheValuesSumIsBoundToTheModel) {
  WordTrial trial("{clip: 2, rare_rows: 2}");
  std::map<std::string, Bytes> contexts;
  Request begin{.procedure = kBeginProcedure, .round = 3}, values{.procedure = kValuesProcedure, .round = 3};
  SumPlan plan;
  plan.protocol = SumProtocol::kSecAgg;
  plan.scale = {.clip = 2, .bits = 16, .most_weight = 1000, .clients = 5};
  plan.size = trial.clients.layout.trainable_size();
  plan.rare = 2;
  at::Tensor cohort = at::arange(5, at::kLong);
  for (Request* request : {&begin, &values}) {
    plan.write(request->body);
    request->body.tensors[kNonceField] = at::zeros({32}, at::kByte);
    request->body.tensors[kCohortField] = cohort;
  }
  begin.body.texts[kInnerField] = "train";
  values.body.tensors[kRowsField] = at::ones({6}, at::kByte);
  const auto context_of = [&](const at::Tensor& model) {
    Session session(trial.clients);
    begin.body.tensors["model"] = model;
    const ClientId client = 0;
    EXPECT_TRUE(session.ask({&client, 1}, begin).next()->ok());
    const Reply reply = *session.ask({&client, 1}, values).next();
    EXPECT_EQ(reply.failure, "");
    const auto head = read_head(bytes_of(reply.body, kMessageField));
    return head->tag;
  };
  EXPECT_EQ(context_of(trial.model), context_of(trial.model));
  EXPECT_NE(context_of(trial.model), context_of(trial.model + 1e-6));
}

TEST(HostilePlans, TheValuesSumHasTheTermsAndTheClientsOfTheFirst) {
  const auto with_values = [](const std::string& options, const std::function<void(Request&)>& change) {
    WordTrial trial(options);
    trial.clients.tamper = [&](ClientId, Request& request) {
      if (request.procedure == kValuesProcedure) change(request);
    };
    EXPECT_FALSE(trial.step());
    return trial.clients.failures;
  };
  const std::string rare = "{clip: 2, rare_rows: 2, least_clients: 4}";
  for (const auto& [name, value] : std::map<std::string, double>{
           {"secure.least", 3}, {"secure.corrupt", 0.02}, {"secure.clip", 1}, {"secure.rare", 3}, {"secure.seed", 9}}) {
    EXPECT_THAT(with_values(rare, [&](Request& request) { request.body.numbers[name] = value; }),
                Each(HasSubstr("other terms")))
        << name;
  }
  const auto invite = [](std::vector<std::int64_t> ids) {
    return [ids](Request& request) {
      request.body.numbers["secure.clients"] = static_cast<double>(ids.size());
      at::Tensor cohort = at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
      std::copy(ids.begin(), ids.end(), cohort.data_ptr<std::int64_t>());
      request.body.tensors[kCohortField] = cohort;
    };
  };
  EXPECT_THAT(with_values(rare, invite({0, 1, 2, 3, 4, 77})), Each(HasSubstr("the first did not")));
  EXPECT_THAT(with_values(rare, invite({0, 1, 2})), Each(HasSubstr("too few clients")));
  EXPECT_THAT(with_values(rare, [](Request& request) { request.own.emplace_back(); }),
              Each(HasSubstr("single clients")));
}

// Without a sum of counts nothing says which rows are rare, and the plan of the second request would be the only one.
TEST(HostilePlans, ValuesAreRefusedWithoutASumOfCounts) {
  WordTrial trial("{clip: 2}");
  trial.clients.tamper = [](ClientId, Request& request) {
    if (request.procedure != kNextProcedure) return;
    request.procedure = kValuesProcedure;
    SumPlan plan;
    plan.scale = {.clip = 2, .bits = 16, .most_weight = 1000, .clients = 5};
    plan.size = word_layout().trainable_size();
    plan.write(request.body);
    request.body.tensors = {{kNonceField, at::zeros({32}, at::kByte)},
                            {kCohortField, at::arange(5, at::kLong)},
                            {kRowsField, at::empty({0}, at::kByte)}};
  };
  EXPECT_FALSE(trial.step());
  EXPECT_THAT(trial.clients.failures, Each(HasSubstr("no second part")));
}

TEST(HostilePlans, RareRowsAreRefusedAgainstAnActiveServer) {
  const auto active = aggregation_of("secagg_plus", "{server: active, rare_rows: 2}");
  EXPECT_THAT(active->refusal(10, Weighting::kExamples), HasSubstr("rare_rows"));
  EXPECT_EQ(aggregation_of("secagg_plus", "{rare_rows: 2}")->refusal(10, Weighting::kExamples), "");
  Request request;
  SumPlan plan;
  plan.scale.clients = 5;
  plan.size = 1;
  plan.rare = 2;
  plan.write(request.body);
  EXPECT_NO_THROW(SumPlan::read(request));
  request.body.numbers["secure.active"] = 1;
  EXPECT_THROW(SumPlan::read(request), DataError);
}

// A model for one client alone would be in its own part of the request, which no key depends on.
TEST(HostilePlans, ARequestWithAPartForOneClientIsRefused) {
  WordTrial trial("{clip: 2}");
  trial.own.resize(5);
  trial.own[2].tensors["model"] = at::ones_like(trial.model);
  EXPECT_FALSE(trial.step());
  EXPECT_THAT(trial.clients.failures, Each(HasSubstr("single clients")));
}

TEST(HostilePlans, RareRowsAreRefusedWhereTheOutputLayerChangesEveryRow) {
  Layout layout;
  layout.begin_layer(kEmbeddingLayer);
  const ParamId words = layout.add("words", {6, 3}, Init::zeros());
  layout.mark_head_table(words);
  layout.freeze([](const ParamSpec&) { return false; });
  AggregationSetting setting;
  setting.clients = setting.clients_per_round = 5;
  setting.layout = &layout;
  const auto sum = aggregation_of("secagg", "{rare_rows: 2}");
  EXPECT_THAT(message_of<ConfigError>([&] { sum->prepare(setting); }), HasSubstr("every row of words"));
  layout.freeze([](const ParamSpec&) { return true; });
  EXPECT_NO_THROW(sum->prepare(setting));
}

// A number and a text of eight bytes must not be confused, nor a text and a tensor's.
TEST(DigestOf, DependsOnTheKindOfAField) {
  Request number{.procedure = "p"}, text{.procedure = "p"};
  const double value = 0.25;
  number.body.numbers["x"] = value;
  text.body.texts["x"] = std::string(reinterpret_cast<const char*>(&value), sizeof value);
  EXPECT_EQ(digest_of(number), digest_of(number));
  EXPECT_NE(digest_of(number), digest_of(text));
}

}  // namespace
}  // namespace chorus::inline secure_mean
