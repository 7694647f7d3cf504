#include "algorithm/secure_mean/secure_settings.h"

namespace chorus::inline secure_mean {

void SecureMeanConfig::describe(ConfigVisitor& v) {
  v.field("clip", clip, "largest absolute value of an element of an update; larger ones are cut off")
      .above(0)
      .at_most(1e6);
  v.field("norm", norm, "largest L2 norm of an update, scaled down to before; 0: none").at_least(0).at_most(1e9);
  v.field("bits", bits, "of a quantised element, sign included").at_least(2).at_most(31);
  v.field("most_examples", most_examples, "a client's weight is cut off here, where weights are not equal")
      .at_least(1)
      .at_most(1e9);
  v.field("least_clients", least_clients, "a sum over fewer clients is never revealed").at_least(3).at_most(1e6);
  v.field("keep", keep, "share of elements that is summed, at random positions that all share, with error feedback")
      .above(0)
      .at_most(1);
  v.field("rare_rows", rare_rows, "leave out rows of word tables that fewer clients changed (a second sum); 0: none")
      .at_least(0)
      .at_most(1e6);
  v.field("mode", mode, {{"real", Mode::kReal}, {"cost", Mode::kCost}},
          "cost: simulate only; plain sums that give the same bits, with the protocol's bytes and time added");
  v.field("vanish", vanish, "in a simulation: share of clients that vanish, each before a random step of the sum")
      .at_least(0)
      .below(1);
}

namespace {

void describe_server(ConfigVisitor& v, Trust& server) {
  v.field("server", server, {{"semi_honest", Trust::kSemiHonest}, {"active", Trust::kActive}},
          "what the server is trusted with. active: it may lie, so clients sign keys and the list of survivors");
}

}  // namespace

void SecAggConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  describe_server(v, server);
}

void SecAggPlusConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  describe_server(v, server);
  v.field("corrupt", corrupt, "share of clients that may collude with the server").at_least(0.01).below(0.9);
  v.field("dropout", dropout, "share of clients that may vanish without ending the sum").at_least(0).below(0.9);
}

void LightSecAggConfig::describe(ConfigVisitor& v) {
  SecureMeanConfig::describe(v);
  v.field("corrupt", corrupt, "T / clients: share that may collude with the server").at_least(0.01).below(0.9);
  v.field("dropout", dropout, "share of clients that may vanish without ending the sum").at_least(0).below(0.9);
}

}  // namespace chorus::inline secure_mean
