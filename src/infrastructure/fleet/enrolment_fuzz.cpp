// Any line is a failure or a message that survives being written and read again (tools/fuzz). What it contains goes
// through the parsers of certificates and requests, as in an enrolment.
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/fleet/enrolment_messages.h"

namespace {

template <typename Call>
void may_refuse(Call call) {
  try {
    call();
  } catch (const chorus::Error&) {  // one sentence for the log
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace chorus;
  const std::string line(reinterpret_cast<const char*>(bytes), size);
  static const std::string kKey = make_key(), kRoot = make_authority({kKey, "fuzz", 0, 1'000'000'000});
  const auto sign = [&](const std::string& request) {
    may_refuse([&] { (void)sign_request({kRoot, kKey, request, "name", 0, 1'000'000}); });
  };
  sign(line);
  may_refuse([&] { (void)certificate_facts(line); });
  if (const auto admission = read_admission(line); admission.ok()) {
    const auto again = read_admission(admission_text(admission.value()));
    if (!again.ok() || again.value().secret != admission.value().secret) std::abort();
    sign(admission.value().request);
  }
  if (const auto reply = read_reply(line); reply.ok()) {
    may_refuse([&] { (void)certificate_facts(reply.value().certificate); });
    may_refuse([&] { (void)key_fits(kKey, reply.value().certificate); });
  }
  return 0;
}
