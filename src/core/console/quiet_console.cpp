#include "core/console/quiet_console.h"

#include <algorithm>

#include "core/console/progress.h"

namespace chorus::inline console {

QuietConsole::QuietConsole() : level_(log_level()), progress_(progress_enabled()) {
  set_log_level(std::max(level_, LogLevel::kError));
  set_progress_enabled(false);
}

QuietConsole::~QuietConsole() {
  set_log_level(level_);
  set_progress_enabled(progress_);
}

}  // namespace chorus::inline console
