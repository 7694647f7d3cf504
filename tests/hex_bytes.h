#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithm/secure/secret.h"

namespace chorus::inline tests {

inline Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

template <typename T>
T array_of(std::string_view hex) {
  T value{};
  const Bytes bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), value.size());
  std::copy(bytes.begin(), bytes.end(), value.data());
  return value;
}

template <std::size_t N>
Secret<N> secret_of(std::string_view hex) {
  Secret<N> secret;
  const Bytes bytes = from_hex(hex);
  EXPECT_EQ(bytes.size(), N);
  std::copy(bytes.begin(), bytes.end(), secret.data());
  return secret;
}

inline Bytes bytes_of(ByteView view) { return {view.begin(), view.end()}; }

}  // namespace chorus::inline tests
