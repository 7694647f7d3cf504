#pragma once

#include <string>
#include <string_view>

namespace chorus::inline report {

/// The bundled page of web/ (cmake/web.cmake); all empty when the program was built without esbuild.
struct PageAssets {
  std::string_view page;  ///< HTML with the places {{csp}}, {{style}}, {{data}} and {{script}}
  std::string_view script, style;
  std::string_view script_sum, style_sum;  ///< SHA-256, hexadecimal
};
extern const PageAssets kPage;

/// Base 64 with padding (RFC 4648).
std::string base64(std::string_view bytes);

/// Which scripts and styles the page may run: its own, by checksum, and nothing else. A `live` page may also ask the
/// server that it came from.
std::string page_policy(bool live);

/// One self-contained HTML document with the data (JSON, made by page_data). Nothing in the data can end its element.
/// ConfigError when the program was built without the page.
///
///     write_file("report.html", page_html(page_data(runs, {}), false));
std::string page_html(std::string_view data, bool live);

}  // namespace chorus::inline report
