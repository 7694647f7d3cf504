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
      : server_(input.transport.listen()),
        client_(input.transport.connect()),
        service_([this, &clients = input.clients] { ClientService(*client_, clients).run(); }),
        remote_(
            std::make_unique<RemoteFederation>(RemoteFederationInput{*server_, input.run, input.layout, input.stop})) {
    constexpr double kSeconds = 60;
    check(remote_->wait_for(input.clients.roster().size(), kSeconds), "the clients of this process did not join");
  }
  ~WireLink() override {
    remote_.reset();
    server_.reset();  // which ends the service
    service_.join();
  }
  WireLink(const WireLink&) = delete;
  WireLink& operator=(const WireLink&) = delete;

  const Roster& roster() const override { return remote_->roster(); }
  Replies ask(std::span<const ClientId> cohort, Request request) override {
    return remote_->ask(cohort, std::move(request));
  }
  void end_session(std::uint64_t session) override { remote_->end_session(session); }
  Traffic traffic() const override { return remote_->traffic(); }

 private:
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
