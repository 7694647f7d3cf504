#include "core/base/stop_point.h"

#include <utility>

#include "core/base/error.h"

namespace chorus::inline base {
namespace {

thread_local const std::atomic<bool>* stop_flag = nullptr;  // of this thread's innermost scope

}  // namespace

StopScope::StopScope(const std::atomic<bool>& stop) : outer_(std::exchange(stop_flag, &stop)) {}

StopScope::~StopScope() { stop_flag = outer_; }

void stop_point() {
  if (stop_flag != nullptr && *stop_flag) throw Interrupted();
}

}  // namespace chorus::inline base
