#include "core/base/error.h"

#include <fmt/format.h>

#include <filesystem>

namespace chorus::inline base {

InternalError::InternalError(const std::string& message, SourceLocation where)
    : Error(ExitCode::kInternal,
            fmt::format("{} ({}:{})", message, std::filesystem::path(where.file).filename().string(), where.line)) {}

}  // namespace chorus::inline base
