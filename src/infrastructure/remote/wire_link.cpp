#include <thread>

#include "core/base/error.h"
#include "core/ports/link.h"
#include "infrastructure/remote/client_service.h"
#include "infrastructure/remote/remote_federation.h"

namespace chorus::inline remote {
namespace {

/// A server's half and a client process's half, on a thread of its own.
class WireLink : public LinkedFederation {
 public:
  explicit WireLink(const LinkInput& input)
      : server_(input.serves ? input.transport.listen() : nullptr),
        client_(input.transport.connect()),
        service_([this, &clients = input.clients, sizes = input.states_sizes] {
          ClientServiceHooks hooks;
          hooks.states_sizes = sizes;
          ClientService(*client_, clients, hooks).run();
        }) {
    if (!input.serves) return;
    RemoteFederationInput remote{*server_, input.run, input.layout, input.stop};
    remote.sharing = input.sharing;
    remote_ = std::make_unique<RemoteFederation>(remote);
    // Other processes read their data meanwhile.
    const double seconds = input.others > 0 || input.sharing > 1 ? 3600 : 60;
    try {
      check(remote_->wait_for(input.clients.roster().size() + input.others, seconds), "the clients did not join");
    } catch (...) {
      end();
      throw;
    }
  }
  ~WireLink() override { end(); }
  WireLink(const WireLink&) = delete;
  WireLink& operator=(const WireLink&) = delete;

  const Roster& roster() const override { return remote_->roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return remote_->ask(cohort, std::move(request));
  }
  void end_session(std::uint64_t session) override { remote_->end_session(session); }
  Traffic traffic() const override { return remote_->traffic(); }

 private:
  void end() {
    remote_.reset();
    server_.reset();  // which ends the service
    service_.join();
  }

  std::unique_ptr<ServerTransport> server_;
  std::unique_ptr<ClientTransport> client_;
  std::thread service_;
  std::unique_ptr<RemoteFederation> remote_;
};

const Registration<LinkedFederations> kRegisteredWireLink{
    "wire", "a server and its clients that exchange frames over a transport",
    [](const LinkInput& input) { return std::make_unique<WireLink>(input); }};

}  // namespace
}  // namespace chorus::inline remote
