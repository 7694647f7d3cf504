#include "algorithm/federated/read_updates.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/files/file_memory.h"
#include "core/tensor/flat_math.h"

namespace chorus::inline federated {
namespace {

bool all_finite_in(const at::Tensor& x) {
  if (x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous()) {
    if (!lies_in_file(x.data_ptr<float>())) return all_finite(x.data_ptr<float>(), x.numel());
    constexpr std::int64_t kBlock = 1 << 20;  // in memory at a time
    bool finite = true;
    for (std::int64_t at = 0; finite && at < x.numel(); at += kBlock) {
      const std::int64_t n = std::min(kBlock, x.numel() - at);
      expect_pages(x.data_ptr<float>() + at, static_cast<std::size_t>(n) * sizeof(float));
      finite = all_finite(x.data_ptr<float>() + at, n);
      forget_pages(x.data_ptr<float>() + at, static_cast<std::size_t>(n) * sizeof(float));
    }
    return finite;
  }
  return at::isfinite(x).all().item<bool>();
}

constexpr double kMostCounted = 1e15;  // beyond, weighted sums of float32 could overflow

double positive(const Reply& reply, const char* name) {
  const double value = reply.body.number(name);
  if (!(value > 0 && value <= kMostCounted)) {
    throw DataError(std::string("its ") + name + " should be a positive number up to 1e15");
  }
  return value;
}

// Reported, never computed with: a peer's nonsense becomes 0.
double reported(const Reply& reply, const char* name, double fallback) {
  const double value = reply.body.number(name, fallback);
  return std::isfinite(value) && value >= 0 ? value : 0;
}

}  // namespace

double weight_of(const Reply& reply, Weighting weighting) {
  switch (weighting) {
    case Weighting::kExamples:
      return positive(reply, "examples");
    case Weighting::kBatches:
      return positive(reply, reply.body.numbers.contains("batches") ? "batches" : "examples");
    case Weighting::kEqual:
      break;
  }
  return 1;
}

std::string fault_of(const Reply& reply, const std::vector<AggregatedTensor>& tensors, std::int64_t size) {
  for (const AggregatedTensor& wanted : tensors) {
    const at::Tensor& tensor = reply.body.vector(wanted.name, size);
    if (wanted.name != reply.finite && !all_finite_in(tensor))
      return "its " + wanted.name + " has values that are not finite";
  }
  positive(reply, "examples");
  if (!std::isfinite(reply.body.number("loss", 0))) return "its loss is not a number";
  return "";
}

namespace {

void check_enough(const std::vector<ClientReport>& reports, std::size_t least, std::uint64_t round) {
  std::size_t usable = 0;
  std::string last;
  for (const ClientReport& report : reports) {
    usable += report.failure.empty() ? 1 : 0;
    if (!report.failure.empty()) last = "; the last failure: " + report.failure;
  }
  if (usable >= least || reports.size() < least) return;
  throw TooFewReplies(fmt::format("round {}: the updates of only {} of {} clients can be used, and {} are needed{}",
                                  round, usable, reports.size(), least, last));
}

}  // namespace

std::vector<ClientReport> read_updates(AggregationInput& input, const UpdateReader& reader) {
  const std::uint64_t round = input.request.round;
  std::vector<ClientId> clients;
  for (const Member& member : input.cohort) clients.push_back(member.client);
  std::vector<ClientReport> reports(clients.size());
  for (ClientReport& report : reports) report.failure = "it did not reply";
  for (Reply& reply : input.federation.ask(clients, std::move(input.request))) {
    ClientReport& report = reports.at(reply.slot);
    report.cost = reply.cost;
    report.left_out = reply.left_out;
    report.failure = reply.failure;
    std::vector<double> weights;
    std::vector<at::Tensor> tensors;
    const bool summed = reply.ok() && reader.summed && reader.summed(reply);
    if (reply.ok()) {
      try {
        report.failure = summed ? "" : fault_of(reply, input.tensors, input.size);
        if (report.failure.empty()) {
          report.weight = weight_of(reply, input.weighting) * input.cohort[reply.slot].times;
          if (input.look) input.look(reply, report.weight);
        }
      } catch (const DataError& error) {
        report.failure = error.what();
      }
    }
    if (!report.failure.empty()) {
      report.weight = 0;
      reader.skip(reply.slot);
      continue;
    }
    for (const AggregatedTensor& wanted : input.tensors) {
      weights.push_back(wanted.equal ? 1 : report.weight);
      const bool none = summed && !reply.body.tensors.contains(wanted.name);
      tensors.push_back(none ? at::Tensor() : reply.body.vector(wanted.name, input.size).to(input.device));
    }
    reader.use(reply.slot, weights, tensors);
    reply.accept();
    report.examples = reply.body.number("examples");
    report.steps = reported(reply, "steps", 1);
    report.loss = reply.body.number("loss", std::nan(""));  // a client may keep it to itself
    report.seconds = reported(reply, "seconds", 0);
  }
  if (input.federation.real_time()) check_enough(reports, reader.least, round);
  return reports;
}

}  // namespace chorus::inline federated
