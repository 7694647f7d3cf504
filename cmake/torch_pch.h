#pragma once

// Precompiled once for every component that uses LibTorch (cmake/component.cmake). Not to be included by hand.
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
