#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace chorus {

/// Text as a terminal shows it. Widths are in columns: a CJK character or an emoji takes two, an accent none.

/// Columns the text takes on one line. Control characters and broken UTF-8 count as `printable` would show them.
std::size_t display_width(std::string_view text);

/// The text made safe to print on one line: line breaks and tabs become blanks, other control characters (a terminal
/// would obey them) and broken UTF-8 become U+FFFD.
std::string printable(std::string_view text);

/// At most `columns` wide, cut with '…' where it is longer. Never cuts inside a character.
std::string shortened(std::string_view text, std::size_t columns);

/// Whether the file descriptor is a terminal that can redraw a line (TERM is not "dumb").
bool is_terminal(int descriptor);

/// The terminal's width, or `otherwise` when the descriptor is no terminal.
std::size_t terminal_columns(int descriptor, std::size_t otherwise = 80);

/// Whether to use colour there: a terminal, and NO_COLOR is not set (no-color.org).
bool wants_colour(int descriptor);

}  // namespace chorus
