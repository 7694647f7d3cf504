#include "apps/serving/serve.h"
#include "apps/serving/take_part.h"

namespace chorus::inline serving {
namespace {

class Processes final : public Deployment {
 public:
  RunReport serve(const ExperimentConfig& config, const ServeRequest& request) override {
    return serve_experiment(config, request);
  }
  void join(const JoinRequest& request) override { take_part(request); }
  void record_enrolment(const std::filesystem::path& identity, const std::string& server,
                        const std::string& message) override {
    EgressLog(identity / "egress.jsonl")
        .append({.what = "enrolment: the client's name, its request for a certificate and the secret of its invitation",
                 .server = server,
                 .bytes = message.size(),
                 .digest = sha256_hex(message),
                 .time = std::time(nullptr)});
  }
  EgressReport egress(const std::filesystem::path& identity) override { return read_egress(identity / "egress.jsonl"); }
};

const Registration<Deployments> kRegisteredProcesses{"processes", "a server and clients on other machines",
                                                     [] { return std::make_unique<Processes>(); }};

}  // namespace
}  // namespace chorus::inline serving
