#include "algorithm/secure/light_server.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace chorus::inline secure {

LightServer::LightServer(SumSession session)
    : PhasedServer(std::move(session), light_context), code_(code_of(session_.parameters)) {
  if (const std::string mistake = light_mistake(session_.parameters); !mistake.empty()) {
    throw ConfigError("secure sum: " + mistake);
  }
  check(session_.cohort.size() == code_.clients, "LightSecAgg's N is everybody invited");
  sum_ = RingVector(session_.parameters.ring_bits, session_.parameters.length + 1);
}

std::size_t LightServer::least_sharing() const {
  return std::max(session_.parameters.threshold, session_.parameters.least_cohort);
}

std::string LightServer::accept_keys(ClientId from, ByteView message) {
  const auto keys = read_advertisement(message);
  if (!keys || keys->client != from) return "keys that cannot be read";
  if (!agree(probe_, keys->sealing)) return "an invalid public key";
  for (const auto& entry : advertised_) {
    if (entry.second.sealing == keys->sealing) return "the public key of another client";
  }
  advertised_[from] = *keys;
  return "";
}

std::string LightServer::accept_shares(ClientId from, ByteView message) {
  auto shares = read_coded(message, code_.piece() * (session_.parameters.ring_bits / 8));
  if (!shares || shares->size() + 1 != advertised_.size()) return "shares that cannot be read";
  for (const SealedShare& entry : *shares) {
    if (entry.client == from || !advertised_.contains(entry.client)) return "a share for a stranger";
  }
  for (SealedShare& entry : *shares) sealed_[entry.client].push_back({from, std::move(entry.sealed)});
  sharing_.insert(from);
  return "";
}

std::optional<RingVector> LightServer::field_vector(ByteView message, std::size_t size) const {
  const auto input = read_masked(message);
  RingVector vector(session_.parameters.ring_bits, 0);
  const std::size_t bytes = size * (vector.bits() / 8);
  if (!input || input->bits != vector.bits() || input->words.size() != bytes) return std::nullopt;
  vector = RingVector(vector.bits(), size);
  vector.add(input->words);
  if (!in_field(vector)) return std::nullopt;
  return vector;
}

std::string LightServer::accept_input(ClientId from, ByteView message) {
  const auto input = field_vector(message, code_.length);
  if (!input) return "an input of another length, or outside the field";
  add_in_field(sum_, *input);
  survivors_.push_back(from);
  return "";
}

std::string LightServer::accept_unmasking(ClientId from, ByteView message) {
  auto sum = field_vector(message, code_.piece());
  if (!sum) return "a sum of shares of another length, or outside the field";
  // More than enough are not kept.
  if (sums_of_shares_.size() < code_.enough) sums_of_shares_.emplace(from, std::move(*sum));
  return "";
}

Result<SumHost::Outgoing> LightServer::finish() {
  if (sums_of_shares_.size() < code_.enough) {
    return aborted(fmt::format("only {} clients sent their sums of shares", sums_of_shares_.size()));
  }
  std::vector<CodedShare> shares;
  const auto& cohort = session_.cohort;
  for (const auto& entry : sums_of_shares_) {
    const auto place = std::lower_bound(cohort.begin(), cohort.end(), entry.first) - cohort.begin();
    shares.push_back({static_cast<std::size_t>(place), &entry.second});
  }
  subtract_in_field(sum_, decode_mask(code_, shares));
  const std::size_t length = session_.parameters.length;
  if (field_checksum(sum_, length, checksum_seed(context_)) != sum_.at(length)) {
    return aborted("the checksum of the sum is wrong");
  }
  sum_ = sum_.part(0, length);
  from_field(sum_);
  sums_of_shares_.clear();
  phase_ = Phase::kDone;
  return Outgoing{};
}

}  // namespace chorus::inline secure
