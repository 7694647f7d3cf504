#pragma once

#include <atomic>

namespace chorus::inline base {

/// While it lives, the work of this thread ends at its next stop_point() once `stop` is true. Borrows the flag, which
/// any thread may set. Scopes may nest; the innermost counts.
///
///     const StopScope scope(abandoned);        // who hands out work, in the thread that does it
///     for (...) { stop_point(); step(); }      // the work, far below
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>& stop);
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;
  ~StopScope();

 private:
  const std::atomic<bool>* outer_;
};

/// For long work, between steps that take a noticeable time: throws Interrupted when nobody wants the result any more.
/// Without a StopScope it does nothing, so it never changes a result.
void stop_point();

}  // namespace chorus::inline base
