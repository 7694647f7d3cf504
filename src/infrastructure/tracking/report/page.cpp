#include "infrastructure/tracking/report/page.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "core/base/error.h"

namespace chorus::inline report {
namespace {

std::uint32_t nibble(char digit) { return static_cast<std::uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10); }

/// A hexadecimal checksum in base 64, as a content security policy wants it.
std::string base64_of_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(nibble(hex[i]) << 4 | nibble(hex[i + 1]));
  }
  return base64(bytes);
}

/// JSON in which no character can begin a tag or a comment; the value stays the same.
std::string harmless(std::string_view json) {
  std::string text;
  text.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else if (c == '&') {
      text += "\\u0026";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * k) & 63U];
  }
  return text;
}

std::string page_policy(bool live) {
  return fmt::format(
      "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; base-uri 'none'; form-action "
      "'none'{}",
      base64_of_hex(kPage.script_sum), base64_of_hex(kPage.style_sum), live ? "; connect-src 'self'" : "");
}

std::string page_html(std::string_view data, bool live) {
  if (kPage.page.empty()) {
    throw ConfigError(
        "this program was built without its page, because esbuild was missing; install it (apt-get install esbuild), "
        "then build again with: make build");
  }
  std::string html;
  std::string_view rest = kPage.page;
  while (true) {
    const std::size_t begin = rest.find("{{");
    const std::size_t end = rest.find("}}");
    if (begin == std::string_view::npos || end == std::string_view::npos) break;
    html += rest.substr(0, begin);
    const std::string_view place = rest.substr(begin + 2, end - begin - 2);
    if (place == "csp") html += page_policy(live);
    if (place == "style") html += kPage.style;
    if (place == "script") html += kPage.script;
    if (place == "data") html += harmless(data);
    rest.remove_prefix(end + 2);
  }
  html += rest;
  return html;
}

}  // namespace chorus::inline report
