#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace chorus::inline console {

/// Widths are in terminal columns: a CJK character or an emoji takes two, a combining accent none.

/// The columns that the text takes on one line. Control characters and invalid UTF-8 count as `printable` shows them.
std::size_t display_width(std::string_view text);

/// The text made safe for one line: line breaks and tabs become spaces, other control characters and invalid UTF-8
/// become U+FFFD.
std::string printable(std::string_view text);

/// Truncated with '…' to at most `columns`, never inside a character.
std::string shortened(std::string_view text, std::size_t columns);

/// Whether the file descriptor is a terminal that can redraw a line (TERM is not "dumb").
bool is_terminal(int descriptor);

/// The terminal's width, or `otherwise` when the descriptor is not a terminal.
std::size_t terminal_columns(int descriptor, std::size_t otherwise = 80);

/// Whether to use colour: on a terminal, unless NO_COLOR is set (no-color.org).
bool wants_colour(int descriptor);

}  // namespace chorus::inline console
