#include "algorithm/secure_mean/secure_procedures.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithm/secure/messages.h"
#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/rare_rows.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr const char* kKeptName = "secure";

/// What a client keeps between two asks.
struct Seat {
  std::unique_ptr<SumParty> party;  // null: it has left
  std::vector<at::Tensor> tensors;  // until they are masked
  WorkFacts facts;
};

/// The clients of a workbench, and the sum that all of them began.
class SecureClients : public Kept {
 public:
  SecureClients(SumPlan of, SumSession first) : plan(std::move(of)), begun(std::move(first)) {}

  SumPlan plan;
  SumSession begun;
  std::vector<Seat> seats;

  void retain(std::span<const std::size_t> clients) override {
    std::vector<Seat> staying;
    for (const std::size_t i : clients) staying.push_back(std::move(seats.at(i)));
    seats = std::move(staying);
  }
};

/// What the training procedure may see of the request.
Request inner_of(const Request& request) {
  Request inner = request;
  inner.procedure = request.body.text(kInnerField);
  if (inner.procedure.starts_with("secure/")) throw DataError("a secure sum inside a secure sum");
  const auto secure = [](const auto& entry) { return std::string_view(entry.first).starts_with(kSecurePrefix); };
  std::erase_if(inner.body.tensors, secure);
  std::erase_if(inner.body.numbers, secure);
  std::erase_if(inner.body.texts, secure);
  return inner;
}

std::vector<ClientId> cohort_of(const Message& body, std::size_t clients) {
  const at::Tensor& ids = body.tensor(kCohortField);
  if (ids.scalar_type() != at::kLong || ids.dim() != 1 || static_cast<std::size_t>(ids.numel()) != clients) {
    throw DataError("the list of who is invited does not fit the secure sum");
  }
  const at::Tensor values = ids.to(at::kCPU).contiguous();
  std::vector<ClientId> cohort;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const std::int64_t id = values.data_ptr<std::int64_t>()[i];
    if (id < 0 || id >= static_cast<std::int64_t>(kEverybody) || (!cohort.empty() && id <= cohort.back())) {
      throw DataError("the list of who is invited is not in order");
    }
    cohort.push_back(static_cast<ClientId>(id));
  }
  return cohort;
}

Digest nonce_of(const Message& body) {
  const ByteView bytes = bytes_of(body, kNonceField);
  Digest nonce;
  if (bytes.size() != nonce.size()) throw DataError("the secure sum's nonce has another length");
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

Answer answer_with(ByteView message) {
  Answer answer;
  answer.body.tensors[kMessageField] = tensor_of(message);
  return answer;
}

Answer failed(std::string why) {
  Answer answer;
  answer.failure = std::move(why);
  return answer;
}

}  // namespace

namespace {

/// A request that begins a sum, read and checked.
struct Invitation {
  SumPlan plan;
  InputCodec codec;
  SumSession session;            // of values, or of counts of rows
  PublicIdentities identities;   // against an active server
  std::vector<RowTable> tables;  // where rare rows are left out
};

/// `first`: the sum of counts that this one goes on from; null: this is the first sum of a session.
Invitation read_invitation(const Request& request, const Workbench& bench, const SumSession* first) {
  // What one client alone was told is not in the hash that enters every key.
  if (!request.own.empty()) throw DataError("a request of a secure sum says something to single clients");
  const SumPlan plan = SumPlan::read(request);
  std::vector<ClientId> cohort = cohort_of(request.body, plan.scale.clients);
  try {
    Invitation invitation{plan, InputCodec(plan), {}, {}, {}};
    if (plan.rare > 0) invitation.tables = word_tables(bench.layout());
    const bool counts = first == nullptr && plan.rare > 0;
    if (counts && rows_of(invitation.tables) == 0) throw DataError("this network trains no word table");
    const std::size_t length = counts ? rows_of(invitation.tables) : invitation.codec.length();
    const Digest agreed = first == nullptr ? digest_of(request) : agreed_after(first->agreed, request);
    SumSession& session = invitation.session;
    session = session_of(plan, {cohort, nonce_of(request.body), agreed, length});
    if (plan.trust == Trust::kActive) {
      invitation.identities = read_identities(bytes_of(request.body, kIdentitiesField), cohort);
      session.identities = keys_of(invitation.identities);
    }
    if (const std::string mistake = session.parameters.mistake(); !mistake.empty()) throw DataError(mistake);
    return invitation;
  } catch (const ConfigError& error) {
    throw DataError(error.what());  // a server's mistake, not this user's
  }
}

/// A sum of values goes on among those who were in the sum of counts, on the same terms.
void check_continues(const SecureClients& clients, const Invitation& values) {
  const SumSession& begun = clients.begun;
  const auto& cohort = values.session.cohort;
  if (clients.plan.rare == 0) throw DataError("the secure sum that was begun has no second part");
  if (!clients.plan.same_terms(values.plan)) throw DataError("the second secure sum states other terms than the first");
  if (!std::includes(begun.cohort.begin(), begun.cohort.end(), cohort.begin(), cohort.end())) {
    throw DataError("the second secure sum invites clients that the first did not");
  }
  if (cohort.size() < begun.parameters.least_cohort) throw DataError("the second secure sum invites too few clients");
}

/// Starts a client's state machine with an input.
Answer begin(const Invitation& invitation, Workbench& bench, std::size_t i, Seat& seat, RingVector input) {
  const SumSession& session = invitation.session;
  const ClientId self = bench.clients()[i];
  if (!std::binary_search(session.cohort.begin(), session.cohort.end(), self)) {
    return failed("it is not on the list of who is invited");
  }
  PartyInput party{self, std::move(input), nullptr};
  if (invitation.plan.trust == Trust::kActive) {
    meet(bench.state(i), self, invitation.identities);
    party.identity = identity_in(bench.state(i));
  }
  seat.party = make_party(invitation.plan, session, std::move(party));
  return answer_with(seat.party->advertise());
}

Answer begin_values(const Invitation& invitation, Workbench& bench, std::size_t i, Seat& seat) {
  auto input = invitation.codec.encode(seat.tensors, seat.facts, bench.clients()[i]);
  if (!input) throw DataError(input.failure().message);
  seat.tensors.clear();
  return begin(invitation, bench, i, seat, std::move(input).value());
}

/// Random-k with error feedback (Stich et al. 2018): what is not sent is added to the next update.
void feed_back(const Invitation& invitation, ClientState& state, Seat& seat) {
  const at::Tensor& positions = invitation.codec.positions();
  if (!positions.defined()) return;
  for (std::size_t t = 0; t < seat.tensors.size(); ++t) {
    at::Tensor& tensor = seat.tensors[t];
    at::Tensor& lost = state["secure.residual." + invitation.plan.tensors[t].name];
    if (lost.defined() && lost.sizes() == tensor.sizes()) tensor = tensor + lost.to(tensor.device());
    lost = tensor.clone().index_fill_(0, positions.to(tensor.device()), 0);
  }
}

}  // namespace

std::vector<Answer> SecureBegin::run(const Request& request, Workbench& bench) const {
  const Invitation invitation = read_invitation(request, bench, nullptr);
  const SumPlan& plan = invitation.plan;
  const Request inner = inner_of(request);
  const std::vector<Answer> trained = Procedures::make(inner.procedure)->run(inner, bench);
  auto clients = std::make_unique<SecureClients>(plan, invitation.session);
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    Seat& seat = clients->seats.emplace_back();
    if (!trained[i].failure.empty()) {
      answers.push_back(failed(trained[i].failure));
      continue;
    }
    try {
      for (const AggregatedTensor& tensor : plan.tensors) {
        seat.tensors.push_back(trained[i].body.vector(tensor.name, plan.size));
      }
      seat.facts = facts_of(trained[i].body, plan.weighting);
      feed_back(invitation, bench.state(i), seat);
      answers.push_back(plan.rare == 0 ? begin_values(invitation, bench, i, seat)
                                       : begin(invitation, bench, i, seat,
                                               touched_rows(seat.tensors[0], invitation.tables,
                                                            invitation.session.parameters.ring_bits)));
    } catch (const DataError& error) {
      answers.push_back(failed(error.what()));
    }
  }
  bench.keep(kKeptName, std::move(clients));
  return answers;
}

std::vector<Answer> SecureValues::run(const Request& request, Workbench& bench) const {
  auto* clients = dynamic_cast<SecureClients*>(bench.kept(kKeptName));
  if (clients == nullptr) throw DataError("no secure sum is under way");
  const Invitation invitation = read_invitation(request, bench, &clients->begun);
  check_continues(*clients, invitation);
  const ByteView rows = bytes_of(request.body, kRowsField);
  if (rows.size() != rows_of(invitation.tables)) throw DataError("the list of rows has another length");
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    if (clients->seats.at(i).tensors.empty()) {
      answers.push_back(failed("no secure sum is under way"));
      continue;
    }
    Seat& seat = clients->seats[i];
    try {
      for (at::Tensor& tensor : seat.tensors) tensor = without_rows(tensor, invitation.tables, rows);
      answers.push_back(begin_values(invitation, bench, i, seat));
      answers.back().body.numbers["batches"] = 0;
    } catch (const DataError& error) {
      answers.push_back(failed(error.what()));
    }
  }
  return answers;
}

std::vector<Answer> SecureIdentify::run(const Request&, Workbench& bench) const {
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    answers.push_back(answer_with(write_identity(public_identity_in(bench.state(i)))));
    answers.back().body.numbers["batches"] = 0;
  }
  return answers;
}

std::vector<Answer> SecureNext::run(const Request& request, Workbench& bench) const {
  auto* clients = dynamic_cast<SecureClients*>(bench.kept(kKeptName));
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    if (clients == nullptr || clients->seats.at(i).party == nullptr) {
      answers.push_back(failed("no secure sum is under way"));
      continue;
    }
    const Message& own = request.own_of(i);
    const Message& from = own.has_tensor(kMessageField) ? own : request.body;
    auto reply = clients->seats[i].party->receive(bytes_of(from, kMessageField));
    if (reply) {
      answers.push_back(answer_with(reply.value()));
      answers.back().body.numbers["batches"] = 0;  // for the emulated clock: this is no training
    } else {
      answers.push_back(failed(reply.failure().message));
    }
  }
  return answers;
}

namespace {

const ProcedureRegistration<SecureBegin> kSecureBegin{kBeginProcedure, "train, and reply with keys of a secure sum"};
const ProcedureRegistration<SecureIdentify> kSecureIdentify{kIdentifyProcedure,
                                                            "the public identity of a client in secure sums"};
const ProcedureRegistration<SecureValues> kSecureValues{kValuesProcedure, "the second sum, without rare rows"};
const ProcedureRegistration<SecureNext> kSecureNext{kNextProcedure, "the next step of a secure sum"};

}  // namespace
}  // namespace chorus::inline secure_mean
