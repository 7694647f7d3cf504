#include "core/error.h"

#include <fmt/format.h>

#include <filesystem>

namespace chorus {

InternalError::InternalError(const std::string& message, std::source_location where)
    : Error(ExitCode::kInternal,
            fmt::format("{} ({}:{})", message, std::filesystem::path(where.file_name()).filename().string(),
                        where.line())) {}

}  // namespace chorus
