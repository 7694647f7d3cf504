#include "apps/serving/sum_promise.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "algorithm/secure_mean/secure_procedures.h"
#include "algorithm/secure_mean/sum_plan.h"

namespace chorus::inline serving {
namespace {

// By SumProtocol, as a request states it. These are names of aggregations, too.
constexpr std::array<std::string_view, 3> kProtocols{"secagg", "secagg_plus", "light_secagg"};
static_assert(static_cast<std::size_t>(SumProtocol::kLightSecAgg) + 1 == kProtocols.size());

/// A setting of the aggregation; nothing where it has none of that name.
template <typename T>
std::optional<T> setting(ConfigVisitor& visitor, std::string_view name) {
  const ConfigField* field = visitor.find(name);
  if (field == nullptr || field->type == ConfigField::Type::kChoice || field->get().empty()) return std::nullopt;
  const ConfigScalar value = field->get().front().second;
  const T* found = std::get_if<T>(&value);
  return found == nullptr ? std::nullopt : std::optional<T>(*found);
}

double stated(const Request& request, std::string_view name) {
  return request.body.number(std::string(kSecurePrefix) + std::string(name), -1);
}

const char* server_text(bool active) { return active ? "active" : "semi_honest"; }

bool differ(std::optional<double> promised, std::optional<double> said) {
  return promised && std::abs(*promised - said.value_or(0)) > 1e-9;
}

}  // namespace

std::optional<SumTerms> promised_sum(const Choice<Aggregations>& aggregation) {
  if (!aggregation.traits().masked) return std::nullopt;
  const auto rule = aggregation.make();
  if (!rule->masks()) return std::nullopt;
  Choice<Aggregations> settings = aggregation;
  ConfigVisitor visitor;
  settings.describe(visitor);
  const ConfigField* inner = visitor.find("sum");
  if (inner != nullptr && inner->kind == Aggregations::kKind) {
    return promised_sum(static_cast<const Choice<Aggregations>&>(inner->choice(0)));
  }
  SumTerms terms;
  terms.protocol = setting<std::string>(visitor, "protocol").value_or(aggregation.name());
  terms.least = static_cast<double>(rule->least_updates());
  terms.active = setting<std::string>(visitor, "server").value_or("") == server_text(true);
  terms.bits = static_cast<double>(setting<std::int64_t>(visitor, "bits").value_or(0));
  terms.corrupt = setting<double>(visitor, "corrupt");
  terms.dropout = setting<double>(visitor, "dropout");
  return terms;
}

std::optional<StatedSum> stated_sum(const Request& request) {
  if (request.procedure != kBeginProcedure && request.procedure != kValuesProcedure) return std::nullopt;
  StatedSum sum;
  const auto trains = request.body.texts.find(kInnerField);
  if (trains != request.body.texts.end()) sum.trains = trains->second;
  const double protocol = stated(request, "protocol");
  const bool known = protocol >= 0 && protocol < static_cast<double>(kProtocols.size());
  sum.terms.protocol = known ? kProtocols[static_cast<std::size_t>(protocol)] : "unknown";
  sum.terms.least = stated(request, "least");
  sum.terms.active = stated(request, "active") == 1;
  sum.terms.bits = stated(request, "bits");
  sum.terms.corrupt = stated(request, "corrupt");
  sum.terms.dropout = stated(request, "dropout");
  return sum;
}

bool is_secure_procedure(std::string_view procedure) { return procedure.starts_with("secure/"); }

bool may_reply_nothing(std::string_view procedure) {
  return procedure == "fedbuff/hold" || procedure == "distill/learn";
}

std::string breach_of(const SumTerms& promised, const Request& request) {
  if (!is_secure_procedure(request.procedure)) {
    if (may_reply_nothing(request.procedure)) return "";
    return fmt::format(
        "its job promises that the server sees sums only ({}), and {} would show what a single client has",
        promised.protocol, request.procedure);
  }
  const std::optional<StatedSum> sum = stated_sum(request);
  if (!sum) return "";
  const SumTerms& said = sum->terms;
  const auto other = [](const char* name, const auto& wanted, const auto& found) {
    return fmt::format("its job promises secure sums with {}: {}, and this one has {}", name, wanted, found);
  };
  if (said.protocol != promised.protocol) return other("protocol", promised.protocol, said.protocol);
  if (said.active != promised.active) return other("server", server_text(promised.active), server_text(said.active));
  if (said.least < promised.least) return other("least_clients", promised.least, said.least);
  if (said.bits != promised.bits) return other("bits", promised.bits, said.bits);
  if (differ(promised.corrupt, said.corrupt)) return other("corrupt", *promised.corrupt, *said.corrupt);
  if (differ(promised.dropout, said.dropout)) return other("dropout", *promised.dropout, *said.dropout);
  return "";
}

}  // namespace chorus::inline serving
