#include "algorithm/secure_mean/secure_procedures.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "algorithm/secure/messages.h"
#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/input_codec.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/base/error.h"

namespace chorus::inline secure_mean {
namespace {

constexpr const char* kKeptName = "secure";

/// The state machines of the clients of a workbench; null for those that have left.
class SecureClients : public Kept {
 public:
  std::vector<std::unique_ptr<SumParty>> parties;

  void retain(std::span<const std::size_t> clients) override {
    std::vector<std::unique_ptr<SumParty>> staying;
    for (const std::size_t i : clients) staying.push_back(std::move(parties.at(i)));
    parties = std::move(staying);
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

std::vector<Answer> SecureBegin::run(const Request& request, Workbench& bench) const {
  const SumPlan plan = SumPlan::read(request.body);
  const std::vector<ClientId> cohort = cohort_of(request.body, plan.scale.clients);
  SumSession session;
  std::optional<InputCodec> codec;
  try {
    codec.emplace(plan);
    session = session_of(plan, cohort, nonce_of(request.body), digest_of(request));
    if (plan.trust == Trust::kActive) {
      session.identities = read_keys_tensor(bytes_of(request.body, kIdentitiesField), cohort);
    }
    if (const std::string mistake = session.parameters.mistake(); !mistake.empty()) throw DataError(mistake);
  } catch (const ConfigError& error) {
    throw DataError(error.what());  // a server's mistake, not this user's
  }
  const Request inner = inner_of(request);
  const std::vector<Answer> trained = Procedures::make(inner.procedure)->run(inner, bench);
  auto clients = std::make_unique<SecureClients>();
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const ClientId self = bench.clients()[i];
    clients->parties.push_back(nullptr);
    if (!trained[i].failure.empty()) {
      answers.push_back(failed(trained[i].failure));
      continue;
    }
    if (!std::binary_search(cohort.begin(), cohort.end(), self)) {
      answers.push_back(failed("it is not on the list of who is invited"));
      continue;
    }
    try {
      std::vector<at::Tensor> tensors;
      for (const AggregatedTensor& tensor : plan.tensors) {
        tensors.push_back(trained[i].body.vector(tensor.name, plan.size));
      }
      auto input = codec->encode(tensors, facts_of(trained[i].body, plan.weighting), self, request.round);
      if (!input) throw DataError(input.failure().message);
      PartyInput party{self, std::move(input).value(), nullptr};
      if (plan.trust == Trust::kActive) {
        meet(bench.state(i), self, session.identities);
        party.identity = identity_in(bench.state(i));
      }
      clients->parties.back() = make_party(plan, session, std::move(party));
      answers.push_back(answer_with(clients->parties.back()->advertise()));
    } catch (const DataError& error) {
      answers.push_back(failed(error.what()));
    }
  }
  bench.keep(kKeptName, std::move(clients));
  return answers;
}

std::vector<Answer> SecureIdentify::run(const Request&, Workbench& bench) const {
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    answers.push_back(answer_with(identity_in(bench.state(i))->open));
    answers.back().body.numbers["batches"] = 0;
  }
  return answers;
}

std::vector<Answer> SecureNext::run(const Request& request, Workbench& bench) const {
  auto* clients = dynamic_cast<SecureClients*>(bench.kept(kKeptName));
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < bench.clients().size(); ++i) {
    if (clients == nullptr || clients->parties.at(i) == nullptr) {
      answers.push_back(failed("no secure sum is under way"));
      continue;
    }
    const Message& own = request.own_of(i);
    const Message& from = own.has_tensor(kMessageField) ? own : request.body;
    auto reply = clients->parties[i]->receive(bytes_of(from, kMessageField));
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
const ProcedureRegistration<SecureNext> kSecureNext{kNextProcedure, "the next step of a secure sum"};

}  // namespace
}  // namespace chorus::inline secure_mean
