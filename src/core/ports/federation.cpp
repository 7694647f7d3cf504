#include "core/ports/federation.h"

#include <atomic>

namespace chorus::inline ports {
namespace {

// Sessions differ by number only; no random draw depends on it.
std::uint64_t next_session() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

const Message& Request::own_of(std::size_t i) const {
  static const Message nothing;
  return i < own.size() ? own[i] : nothing;
}

Session::Session(Federation& federation) : federation_(federation), id_(next_session()) {}

}  // namespace chorus::inline ports
