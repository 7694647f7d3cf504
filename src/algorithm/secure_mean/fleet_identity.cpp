#include <ATen/ATen.h>

#include "algorithm/secure/credential.h"
#include "algorithm/secure_mean/identity.h"
#include "algorithm/secure_mean/sum_plan.h"
#include "core/files/files.h"
#include "core/ports/state_supplement.h"

namespace chorus::inline secure_mean {
namespace {

/// The identity that a client of a fleet has in secure sums.
class FleetIdentityTensors : public StateSupplement {
 public:
  ClientState tensors(const SupplementInput& input) const override {
    const CertifiedKey own{read_file(input.end.certificate), read_file(input.end.key)};
    const SigningKeys keys = signing_keys_of(own);
    const std::string authority = read_file(input.end.authority);
    return {{kOwnKeys, identity_tensor(keys)},
            {kOwnCredential, tensor_of(issue_credential(own, keys.open))},
            {kAuthority, tensor_of(std::as_bytes(std::span(authority)))},
            {kConfiguration, tensor_of(std::as_bytes(std::span(input.job)))}};
  }
};

const Registration<StateSupplements> kRegisteredIdentity{"secure_identity",
                                                         "keys of secure sums, tied to the client's certificate",
                                                         [] { return std::make_unique<FleetIdentityTensors>(); }};

}  // namespace
}  // namespace chorus::inline secure_mean
