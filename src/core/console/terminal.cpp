#include "core/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>

namespace chorus::inline console {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Calls `visit(bytes, columns)` for each user-perceived character, made printable, until it returns false.
void for_each_character(std::string_view text, const std::function<bool(std::string_view, std::size_t)>& visit) {
  std::string cluster;
  std::size_t width = 0;
  utf8proc_int32_t state = 0;
  utf8proc_int32_t previous = -1;
  while (!text.empty()) {
    utf8proc_int32_t point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    // A character has at most four bytes; the library takes a signed length.
    const auto used =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size(), 4)), &point);
    std::string_view shown = text.substr(0, used > 0 ? static_cast<std::size_t>(used) : 1);
    text.remove_prefix(shown.size());
    if (used > 0 && (point == '\n' || point == '\r' || point == '\t')) {
      shown = " ";
      point = ' ';
    } else if (used <= 0 || point < 0x20 || (point >= 0x7F && point < 0xA0)) {
      shown = kReplacement;
      point = 0xFFFD;
    }
    const bool starts = previous < 0 || utf8proc_grapheme_break_stateful(previous, point, &state);
    if (starts && !cluster.empty()) {
      if (!visit(cluster, width)) return;
      cluster.clear();
      width = 0;
    }
    cluster += shown;
    const std::size_t columns = point == 0xFE0F ? 2 : static_cast<std::size_t>(std::max(0, utf8proc_charwidth(point)));
    width = std::max(width, columns);
    previous = point;
  }
  if (!cluster.empty()) visit(cluster, width);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t total = 0;
  for_each_character(text, [&](std::string_view, std::size_t width) {
    total += width;
    return true;
  });
  return total;
}

std::string printable(std::string_view text) {
  std::string result;
  for_each_character(text, [&](std::string_view character, std::size_t) {
    result += character;
    return true;
  });
  return result;
}

std::string shortened(std::string_view text, std::size_t columns) {
  if (columns == 0) return "";
  std::string result;
  std::size_t used = 0;
  std::size_t room_for_dots = 0;  // length of `result` that leaves one column free
  bool cut = false;
  for_each_character(text, [&](std::string_view character, std::size_t width) {
    if (used + width > columns) {
      cut = true;
      return false;
    }
    used += width;
    result += character;
    if (used < columns) room_for_dots = result.size();
    return true;
  });
  if (cut) {
    result.resize(room_for_dots);
    result += "…";
  }
  return result;
}

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

std::size_t terminal_columns(int descriptor, std::size_t otherwise) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return otherwise;
}

bool wants_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && (no_colour == nullptr || *no_colour == '\0');
}

}  // namespace chorus::inline console
