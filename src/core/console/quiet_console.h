#pragma once

#include "core/console/log.h"

namespace chorus::inline console {

/// Shows errors only and no progress while it lives, then restores what was shown before (`--quiet` stays quiet).
///
///     const QuietConsole quiet;
///     run_experiment(trial, request);
class QuietConsole {
 public:
  QuietConsole();
  ~QuietConsole();
  QuietConsole(const QuietConsole&) = delete;
  QuietConsole& operator=(const QuietConsole&) = delete;

 private:
  LogLevel level_;
  bool progress_;
};

}  // namespace chorus::inline console
