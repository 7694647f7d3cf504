// Included before everything else where clang compiles LibTorch's headers: they use a vector of a type that is not
// complete yet, which clang 14 refuses with the constexpr vector of C++20.
#pragma once
#include <memory>
#include <string>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#define __fill_a1 __fill_a1_of_bits  // declared constexpr above
#include <vector>
#undef __fill_a1
// What std::fill of a vector<bool> calls: the function declared above, under its mangled name.
void fill_bits(std::_Bit_iterator first, std::_Bit_iterator last, const bool& value)
    __asm__("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
__attribute__((weak, used)) void fill_bits(std::_Bit_iterator first, std::_Bit_iterator last, const bool& value) {
  std::__fill_a1_of_bits(first, last, value);
}
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
