#include "infrastructure/transport/inproc/inproc.h"

#include "core/base/error.h"
#include "infrastructure/transport/wire/wire.h"

namespace chorus {

Replies InprocFederation::ask(std::span<const ClientId> cohort, Request request) {
  const std::string bytes = encode_request(request);
  auto arrived = decode_request(bytes);
  check(arrived.ok(), "our own request cannot be read");
  const auto replies = std::make_shared<Replies>(far_end_.ask(cohort, std::move(arrived).value()));
  const std::uint64_t size = bytes.size();
  return Replies([this, replies, size]() -> std::optional<Reply> {
    const std::optional<Reply> answer = replies->next();
    if (!answer) return std::nullopt;
    const std::string sent = encode_reply(*answer);
    traffic_.down += size;
    traffic_.up += sent.size();
    auto reply = decode_reply(sent);
    check(reply.ok(), "our own reply cannot be read");
    return std::move(reply).value();
  });
}

namespace {

const Registration<Transports> kRegisteredInproc{
    "inproc", "messages become bytes and come back, in this process",
    [](Federation& far_end) { return std::make_unique<InprocFederation>(far_end); }};

}  // namespace
}  // namespace chorus
