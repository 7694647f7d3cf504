#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace chorus {

/// What the program's exit status says. Documented in docs/cli.md; scripts depend on the numbers.
enum class ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,   ///< the command worked, and its answer is no (a check missed its tolerance)
  kUsage = 2,         ///< a wrong option, or a mistake in a configuration
  kData = 3,          ///< a file that is missing, damaged, or not what it should be
  kWorld = 4,         ///< a full disk, a lost peer, a time-out
  kInternal = 70,     ///< a bug in Chorus
  kInterrupted = 130  ///< Ctrl-C
};

/// Every exception Chorus throws on purpose. `what()` is one sentence for a person: what is wrong, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// The user's configuration or command line is wrong. Name the key, the value, what is allowed.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

/// A file is wrong. Name the file (and line), what was found, what to do.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

/// The world failed and nobody below could handle it (a `Result` turned into an exception at the top).
class WorldError : public Error {
 public:
  explicit WorldError(const std::string& message) : Error(ExitCode::kWorld, message) {}
};

/// The user asked to stop (Ctrl-C), and the work has stopped at a place from which it can go on.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ExitCode::kInterrupted, "interrupted") {}
  explicit Interrupted(const std::string& message) : Error(ExitCode::kInterrupted, message) {}
};

/// Where a call stands in the source: std::source_location, which clang 14 (our linter and fuzzer) lacks.
struct SourceLocation {
  const char* file;
  int line;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A bug in Chorus. Carries the place.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message, SourceLocation where = SourceLocation::current());
};

/// Throws InternalError when `condition` is false: `check(i < size(), "index out of range");`
inline void check(bool condition, std::string_view message, SourceLocation where = SourceLocation::current()) {
  if (!condition) throw InternalError(std::string(message), where);
}

}  // namespace chorus
