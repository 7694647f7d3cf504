#include "apps/experiment/server_desk.h"

#include <array>
#include <limits>

namespace chorus::inline experiment {
namespace {

// In the keys of its random draws; no client has it.
constexpr ClientId kDesk = std::numeric_limits<ClientId>::max();

ClientPoolInput desk_input(const TaskModel& model, const ServerPublic& shared, const ClientLists& lists,
                           std::uint64_t rounds) {
  ClientPoolInput input{.trainer = {model.task(), model.model(), model.params()},
                        .data = shared.query_data,
                        .train = shared.queries.encoded};
  input.config = model.config().trainer;
  input.network = &model.network();
  input.train_lists = &lists;
  input.ids = {kDesk};
  input.public_set = shared.set;
  input.seed = model.seed();
  input.rounds = rounds;
  return input;
}

ClientLists one_list(std::span<const std::uint32_t> examples) {
  ClientLists lists;
  lists.append(examples);
  return lists;
}

}  // namespace

ServerDesk::ServerDesk(const TaskModel& model, const ServerPublic& shared, std::uint64_t rounds)
    : lists_(one_list(shared.queries.examples)), pool_(desk_input(model, shared, lists_, rounds)) {}

std::unique_ptr<Workbench> ServerDesk::open(std::uint64_t round) const {
  return pool_.open(std::array<ClientId, 1>{kDesk}, round);
}

}  // namespace chorus::inline experiment
