#include "application/data/readers/byte_input.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "core/base/error.h"

namespace chorus::inline readers {

namespace fs = std::filesystem;

struct ByteInput::Handle {
  gzFile file = nullptr;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (file != nullptr) gzclose(file);
  }
};

ByteInput::ByteInput(const fs::path& path) : path_(path), handle_(std::make_unique<Handle>()) {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) throw DataError(fmt::format("{}: no such file", path.string()));
  if (fs::is_directory(status)) throw DataError(fmt::format("{}: is a folder; name a file", path.string()));
  errno = 0;
  handle_->file = gzopen(path.c_str(), "rb");
  if (handle_->file == nullptr) {
    throw DataError(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  }
  gzbuffer(handle_->file, 1U << 18);
}

ByteInput::ByteInput(ByteInput&&) noexcept = default;
ByteInput& ByteInput::operator=(ByteInput&&) noexcept = default;
ByteInput::~ByteInput() = default;

std::size_t ByteInput::read(char* to, std::size_t size) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  errno = 0;
  const int count = gzread(handle_->file, to, static_cast<unsigned>(size < kMost ? size : kMost));
  const int system_error = errno;
  int error = Z_OK;
  const char* message = gzerror(handle_->file, &error);
  if (error == Z_BUF_ERROR) {
    throw DataError(
        fmt::format("{}: the gzip data ends too early; the file is incomplete, fetch it again", path_.string()));
  }
  if (error == Z_DATA_ERROR) {
    throw DataError(fmt::format("{}: the gzip data is damaged ({}); fetch the file again", path_.string(), message));
  }
  if (count < 0) throw DataError(fmt::format("{}: cannot be read: {}", path_.string(), std::strerror(system_error)));
  return static_cast<std::size_t>(count);
}

std::string file_head(const fs::path& path, std::size_t bytes) {
  std::error_code code;
  if (fs::is_directory(path, code)) return {};
  ByteInput input(path);
  std::string head(bytes, '\0');
  std::size_t used = 0;
  while (used < bytes) {
    const std::size_t count = input.read(head.data() + used, bytes - used);
    if (count == 0) break;
    used += count;
  }
  head.resize(used);
  return head;
}

}  // namespace chorus::inline readers
