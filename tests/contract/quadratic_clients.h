#pragma once

#include <torch/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/ports/algorithm.h"
#include "core/ports/forwarding_federation.h"
#include "core/ports/variants.h"
#include "core/ports/workbench.h"
#include "core/tensor/layout.h"
#include "infrastructure/federation/local_federation.h"

/// Clients whose training can be worked out by hand: client k minimises F_k(w) = a_k / 2 |w - b_k|^2 by `steps_k` steps
/// of gradient descent. No data, no model; everything else is as in a real federation.
namespace chorus::quadratic {

struct Client {
  double curvature = 1;  // a
  double target = 0;     // b, the same in every coordinate, plus the coordinate's number / 10
  int steps = 1;
  double examples = 1;
  bool broken = false;  // its loss is not a number
};

struct World {
  std::vector<Client> clients;
  std::int64_t parameters = 4;
  double learning_rate = 0.1;
  std::size_t room = 1000;  // more clients at once do not fit into memory
  bool parts = false;       // a variant is so many leading elements as it is wide

  std::map<ClientId, ClientState> states = {};  // between rounds
  std::mutex mutex = {};
  std::vector<double> sizes() const;
  std::unique_ptr<Workbench> open(std::span<const ClientId> ids, const Variant& variant = {});
};

/// Of what they train: the first half is layer 0, the second the head.
Layout layout_of(const World& world);

/// An algorithm that is prepared for a world. Options as YAML; "{}" gives methods that need some, or whose defaults do
/// not fit this layout, what they need.
std::unique_ptr<Algorithm> make_algorithm(const std::string& name, const World& world, std::string options = "{}");

/// Parts of these clients' vector: its leading elements.
class LeadingElements : public Variants {
 public:
  explicit LeadingElements(std::int64_t parameters) : parameters_(parameters) {}
  Variant whole() const override { return {1, static_cast<int>(parameters_)}; }
  int unit() const override { return 1; }
  at::Tensor places(const Variant& variant) const override;

 private:
  std::int64_t parameters_;
};

/// Every reply takes a second of the emulated clock.
class OneSecond : public ForwardingFederation {
 public:
  using ForwardingFederation::ForwardingFederation;
  Replies ask(std::span<const ClientId> cohort, Request request) override;
};

/// Whether this build can turn messages into bytes.
bool has_wire();

/// For a federation of all of a world's clients, which must outlive it.
LocalFederationInput federation_input(World& world, std::size_t cohort_batch = 2, std::size_t workers = 1);

}  // namespace chorus::quadratic
