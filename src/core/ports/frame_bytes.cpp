#include "core/ports/frame_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace chorus::inline ports {

void FrameBytes::add(std::string bytes) {
  auto held = std::make_shared<const std::string>(std::move(bytes));
  const std::string_view view = *held;
  add(view, std::move(held));
}

void FrameBytes::add(std::string_view bytes, std::shared_ptr<const void> owner) {
  if (bytes.empty()) return;
  parts_.push_back({bytes, std::move(owner)});
  size_ += bytes.size();
}

std::vector<std::string_view> FrameBytes::parts(std::size_t offset, std::size_t bytes) const {
  check(offset <= size_ && bytes <= size_ - offset, "a frame has not so many bytes");
  std::vector<std::string_view> found;
  for (const Part& part : parts_) {
    if (bytes == 0) break;
    const std::size_t before = std::min(offset, part.bytes.size());
    offset -= before;
    const std::string_view here = part.bytes.substr(before, bytes);
    bytes -= here.size();
    if (!here.empty()) found.push_back(here);
  }
  return found;
}

void FrameBytes::read(std::size_t offset, std::span<char> to) const {
  char* out = to.data();
  for (const std::string_view part : parts(offset, to.size())) {
    std::memcpy(out, part.data(), part.size());
    out += part.size();
  }
}

std::string FrameBytes::flat() const {
  std::string bytes(size_, '\0');
  read(0, bytes);
  return bytes;
}

}  // namespace chorus::inline ports
