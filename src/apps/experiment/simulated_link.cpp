#include "apps/experiment/simulated_link.h"

#include "apps/experiment/emulated_work.h"
#include "core/console/log.h"

namespace chorus::inline experiment {

SimulatedLink::SimulatedLink(const Input& input) : direct_(input.clients) {
  const ExperimentConfig& config = input.model.config();
  if (config.federation.transport == FederationConfig::Transport::kSerialised) {
    transport_ = Transports::make("inproc");
    linked_ =
        LinkedFederations::make("wire", LinkInput{*transport_, input.clients, 0, input.model.layout(), input.stop});
  }
  if (input.ranks != nullptr) {
    LinkInput link{*input.ranks, input.clients, 0, input.model.layout(), input.stop, input.others};
    if (input.shared) link.sharing = static_cast<std::size_t>(input.ranks->place().size);
    linked_ = LinkedFederations::make("wire", link);
    if (input.shared) sums_.emplace(*linked_);
  }
  if (config.emulation) {
    Federation& answering = clients();
    fleet_.emplace(*config.emulation, input.model.seed());
    emulated_.emplace(EmulatedFederationInput{.inner = answering,
                                              .fleet = *fleet_,
                                              .work = emulated_work(input.model),
                                              .network_work = emulated_work(input.networks),
                                              .clock = input.clock,
                                              .batches = [trainer = config.trainer, &answering](ClientId client) {
                                                return round_batches(trainer, answering.roster().size_of(client));
                                              }});
  }
  if (config.attacks) {
    attacked_.emplace(AttackedFederationInput{clients(), *config.attacks, input.model.seed()});
    Log("run").info("{} clients attack: {}", attacked_->attackers().size(), config.attacks->attack.name());
  }
}

std::map<std::string, double> SimulatedLink::numbers() const {
  return attacked_ ? attacked_->numbers() : std::map<std::string, double>{};
}

Federation& SimulatedLink::clients() {
  if (attacked_) return *attacked_;
  if (emulated_) return *emulated_;
  if (sums_) return *sums_;
  if (linked_) return *linked_;
  return direct_;
}

}  // namespace chorus::inline experiment
