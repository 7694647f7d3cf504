#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline files {

/// The contents of a pickle, without executing it. A pickle is a program for a stack machine, which Python runs, calls
/// to the operating system included. Here a call is only recorded, and names that `allowed` does not accept are errors.
struct Pickle {
  /// Index in `values`. A pickle may refer to itself, so values own no values.
  using Ref = uint32_t;

  struct Value {
    enum class Kind {
      kNothing,     ///< None, True, False, a float; `number` is 1 for True, else 0
      kInt,         ///< `number`
      kText,        ///< `text`
      kGlobal,      ///< `text` is "module.name"
      kTuple,       ///< `items`
      kList,        ///< `items`
      kDict,        ///< `items`: key, value, key, value, ...
      kCall,        ///< `parts`: the callee and its arguments; `items`: state set afterwards, as in a dict
      kPersistent,  ///< `parts[0]` refers to something outside the pickle
    };
    Kind kind = Kind::kNothing;
    int64_t number = 0;
    std::string text{};
    std::vector<Ref> items{};
    Ref parts[2] = {0, 0};
  };

  std::vector<Value> values;
  Ref root = 0;
  size_t length = 0;  ///< bytes read, up to and with the instruction that ends the pickle

  const Value& operator[](Ref ref) const { return values[ref]; }
};

/// Reads a pickle of protocol 2 to 5, with the instructions that torch.save uses, in linear time and memory. DataError
/// starting with `where` for any other instruction, for damage, and for a global name that `allowed` rejects.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::function<bool(std::string_view)>& allowed,
                    const std::string& where);

/// The advice at the end of every message about a rejected file.
inline constexpr std::string_view kConvertPickle =
    "if you trust it, load it in Python and save it with save_pretrained, which makes a model.safetensors";

}  // namespace chorus::inline files
