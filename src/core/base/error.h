#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace chorus::inline base {

/// Exit statuses of the program (docs/reference/cli.md). Scripts depend on the values.
enum class ExitCode : int {
  kOk = 0,
  kCheckFailed = 1,   ///< the command worked, and the answer is no (a check missed its tolerance)
  kUsage = 2,         ///< a wrong option, or a mistake in a configuration
  kData = 3,          ///< a file that is missing, damaged or of the wrong kind
  kWorld = 4,         ///< an external failure: full disk, lost peer, timeout
  kInternal = 70,     ///< a bug in Chorus
  kInterrupted = 130  ///< Ctrl-C
};

/// Base of every exception that Chorus throws. `what()` is one sentence: what is wrong, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// A mistake in a configuration or on the command line. Name the key, the value and what is allowed.
class ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& message) : Error(ExitCode::kUsage, message) {}
};

/// A missing or invalid file. Name the file (and line), what was found and what to do.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message) : Error(ExitCode::kData, message) {}
};

/// An external failure that no caller handled (a failed `Result` at the top of the program).
class WorldError : public Error {
 public:
  explicit WorldError(const std::string& message) : Error(ExitCode::kWorld, message) {}
};

/// The user pressed Ctrl-C, and the work has stopped where it can resume.
class Interrupted : public Error {
 public:
  Interrupted() : Error(ExitCode::kInterrupted, "interrupted") {}
  explicit Interrupted(const std::string& message) : Error(ExitCode::kInterrupted, message) {}
};

/// The source location of a call: std::source_location, which clang 14 (our linter and fuzzer) lacks.
struct SourceLocation {
  const char* file;
  int line;
  static constexpr SourceLocation current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

/// A bug in Chorus, with its source location.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message, SourceLocation where = SourceLocation::current());
};

/// Throws InternalError when `condition` is false: `check(i < size(), "index out of range");`
inline void check(bool condition, std::string_view message, SourceLocation where = SourceLocation::current()) {
  if (!condition) throw InternalError(std::string(message), where);
}

}  // namespace chorus::inline base
