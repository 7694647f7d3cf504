#pragma once

namespace chorus::inline device {

/// Types of fixed size for the arguments of GPU kernels (x_args.h), which C++ and the kernel sources both include. On
/// the systems we build for, the 64-bit ones are std::int64_t and std::uint64_t, whose headers kernels cannot include.
using i64 = long;
using u64 = unsigned long;
using i32 = int;
using u32 = unsigned;
using u16 = unsigned short;

static_assert(sizeof(i64) == 8 && sizeof(u64) == 8 && sizeof(i32) == 4 && sizeof(u32) == 4 && sizeof(u16) == 2,
              "not an LP64 system");

/// One row of parameters per client: [C, width] with a stride, or [width] for all clients (stride 0). May be null.
struct ClientRow {
  const float* data;
  i64 stride;
};

}  // namespace chorus::inline device
