// What clients of FedBuff hold and release; whole rounds are in tests/contract/fedbuff_test.cpp.
#include "algorithm/federated/fedbuff.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ports/procedure.h"
#include "tests/word_clients.h"

namespace chorus::inline federated {
namespace {

/// A client that holds an update of version 3 of the model.
struct Holder {
  Holder() {
    Request hold{.procedure = "fedbuff/hold", .round = 4};
    hold.body.tensors["model"] = model;
    hold.body.numbers["fedbuff.version"] = 3;
    Reply reply = ask(hold);
    EXPECT_EQ(reply.failure, "");
    reply.accept();
  }
  Reply ask(const Request& request) {
    const ClientId client = 0;
    return *clients.ask({&client, 1}, request).next();
  }
  Reply release(double version, double staleness) {
    Request request{.procedure = "fedbuff/release", .round = 9};
    request.body.numbers = {{"fedbuff.version", version}, {"fedbuff.staleness", staleness}};
    return ask(request);
  }
  /// Of the update in a reply and the one that is held.
  double factor(const Reply& reply) {
    const at::Tensor& sent = reply.body.tensor("update");
    return (sent.sum() / clients.update_of(0, model).sum()).item<double>();
  }

  WordClients clients{{{0}}};
  at::Tensor model = at::linspace(-0.3, 0.6, clients.layout.trainable_size());
};

TEST(FedBuffHeld, AClientWorksOutWhatItsUpdateCountsFor) {
  Holder holder;
  EXPECT_NEAR(holder.factor(holder.release(3, 0.5)), 1, 1e-6);
  EXPECT_NEAR(holder.factor(holder.release(6, 0.5)), 0.5, 1e-6);
  EXPECT_NEAR(holder.factor(holder.release(1026, 0.5)), 1.0 / 32, 1e-6);
}

// A server could single out one client by making all others count for nothing.
TEST(FedBuffHeld, NoUpdateCountsForNothing) {
  Holder holder;
  EXPECT_NEAR(holder.factor(holder.release(4, 100)), 1.0 / 32, 1e-6);
  EXPECT_NEAR(holder.factor(holder.release(1e300, 0.5)), 1.0 / 32, 1e-6);
  for (const double staleness : {-1.0, 101.0, std::nan("")}) {
    EXPECT_THAT(holder.release(4, staleness).failure, testing::HasSubstr("staleness"));
  }
  for (const double version : {2.0, std::nan("")}) {
    EXPECT_THAT(holder.release(version, 0.5).failure, testing::HasSubstr("later model"));
  }
  Request named{.procedure = "fedbuff/release", .round = 9};
  named.body.tensors["fedbuff.clients"] = at::zeros({1}, at::kLong);
  named.body.tensors["fedbuff.factors"] = at::full({1}, 1e-300, at::kDouble);
  EXPECT_FALSE(holder.ask(named).ok());
}

}  // namespace
}  // namespace chorus::inline federated
