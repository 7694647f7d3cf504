#include "apps/serving/sum_promise.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "algorithm/noise_shares/noisy_scale.h"
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

// By NoiseKind, as a request states it, from 1 on. These are values of `mechanism`, too.
constexpr std::array<std::string_view, 2> kNoises{"skellam", "discrete_gaussian"};
static_assert(static_cast<std::size_t>(NoiseKind::kDiscreteGaussian) == kNoises.size());

constexpr double kMostElements = 1e12;

double stated(const Request& request, std::string_view name, double fallback = -1) {
  return request.body.number(std::string(kSecurePrefix) + std::string(name), fallback);
}

std::optional<NoiseTerms> stated_noise(const Request& request) {
  const double kind = stated(request, "noise_kind", 0);
  if (kind == 0) return std::nullopt;
  const bool known = kind >= 1 && kind <= static_cast<double>(kNoises.size());
  return NoiseTerms{.kind = std::string(known ? kNoises[static_cast<std::size_t>(kind) - 1] : "unknown"),
                    .noise = stated(request, "noise"),
                    .clip = stated(request, "noise_clip"),
                    .honest = stated(request, "noise_honest")};
}

const char* server_text(bool active) { return active ? "active" : "semi_honest"; }

bool differ(std::optional<double> promised, std::optional<double> said) {
  return promised && !(std::abs(*promised - said.value_or(0)) <= 1e-9);
}

}  // namespace

std::optional<SumTerms> promised_sum(const Choice<Aggregations>& aggregation, const AggregationSetting& run) {
  if (!aggregation.traits().masked) return std::nullopt;
  const auto rule = aggregation.make();
  if (!rule->masks()) return std::nullopt;
  Choice<Aggregations> settings = aggregation;
  ConfigVisitor visitor;
  settings.describe(visitor);
  const ConfigField* inner = visitor.find("sum");
  if (inner != nullptr && inner->kind == Aggregations::kKind) {
    return promised_sum(static_cast<const Choice<Aggregations>&>(inner->choice(0)), run);
  }
  SumTerms terms;
  terms.protocol = setting<std::string>(visitor, "protocol").value_or(aggregation.name());
  const SumFloor floor = rule->sum_floor(run);
  terms.least = static_cast<double>(floor.clients);
  terms.rare = static_cast<double>(floor.rare);
  terms.active = setting<std::string>(visitor, "server").value_or("") == server_text(true);
  terms.bits = static_cast<double>(setting<std::int64_t>(visitor, "bits").value_or(0));
  terms.corrupt = setting<double>(visitor, "corrupt");
  terms.dropout = setting<double>(visitor, "dropout");
  if (const auto kind = setting<std::string>(visitor, "mechanism"); kind && aggregation.traits().noisy_sum) {
    terms.noise = NoiseTerms{.kind = *kind,
                             .noise = floor.noise,
                             .clip = setting<double>(visitor, "clip").value_or(0),
                             .honest = static_cast<double>(floor.honest)};
  }
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
  sum.terms.rare = stated(request, "rare", 0);
  sum.terms.noise = stated_noise(request);
  const double size = stated(request, "size");
  if (size >= 1 && size <= kMostElements) sum.size = static_cast<std::int64_t>(size);
  return sum;
}

bool is_secure_procedure(std::string_view procedure) { return procedure.starts_with("secure/"); }

bool may_reply_nothing(std::string_view procedure) {
  return procedure == "fedbuff/hold" || procedure == "distill/learn";
}

namespace {

std::string broken(const char* name, const auto& promised, const auto& said) {
  return fmt::format("its job promises secure sums with {}: {}, and this one has {}", name, promised, said);
}

std::string noise_breach(const NoiseTerms& promised, const std::optional<NoiseTerms>& said) {
  if (!said) {
    return fmt::format("its job promises secure sums with noise of the clients (mechanism: {}), and this one has none",
                       promised.kind);
  }
  if (said->kind != promised.kind) return broken("mechanism", promised.kind, said->kind);
  if (!(said->noise >= promised.noise * (1 - 1e-9))) return broken("noise", promised.noise, said->noise);
  if (differ(promised.clip, said->clip)) return broken("clip", promised.clip, said->clip);
  if (!(said->honest <= promised.honest)) {
    return fmt::format(
        "its job promises secure sums whose noise {} clients suffice for, and this one divides it among {}",
        promised.honest, said->honest);
  }
  return "";
}

}  // namespace

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
  if (said.protocol != promised.protocol) return broken("protocol", promised.protocol, said.protocol);
  if (said.active != promised.active) return broken("server", server_text(promised.active), server_text(said.active));
  if (!(said.least >= promised.least)) return broken("least_clients", promised.least, said.least);
  if (said.bits != promised.bits) return broken("bits", promised.bits, said.bits);
  if (differ(promised.corrupt, said.corrupt)) return broken("corrupt", *promised.corrupt, *said.corrupt);
  if (differ(promised.dropout, said.dropout)) return broken("dropout", *promised.dropout, *said.dropout);
  if (!(said.rare >= promised.rare)) return broken("rare_rows", promised.rare, said.rare);
  return promised.noise ? noise_breach(*promised.noise, said.noise) : "";
}

}  // namespace chorus::inline serving
