#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus {

/// What a pickle says, without doing it. A pickle is a program for a stack machine, and Python runs it, functions of
/// the operating system included. Here a call is only written down, and every name that `allowed` does not know is
/// refused.
struct Pickle {
  /// Index in `values`. A pickle may refer to itself, so values own no values.
  using Ref = uint32_t;

  struct Value {
    enum class Kind {
      kNothing,     ///< None, True, False, a float: read, and dropped
      kInt,         ///< `number`
      kText,        ///< `text`
      kGlobal,      ///< `text` is "module.name"
      kTuple,       ///< `items`
      kList,        ///< `items`
      kDict,        ///< `items`: key, value, key, value, ...
      kCall,        ///< `parts`: the callee and its arguments; `items`: what was set in the object then, as in a dict
      kPersistent,  ///< `parts[0]` stands for something outside the pickle
    };
    Kind kind = Kind::kNothing;
    int64_t number = 0;
    std::string text{};
    std::vector<Ref> items{};
    Ref parts[2] = {0, 0};
  };

  std::vector<Value> values;
  Ref root = 0;

  const Value& operator[](Ref ref) const { return values[ref]; }
};

/// Reads a pickle of protocol 2 to 5, with the instructions that torch.save uses. Memory and time are linear in the
/// bytes. DataError, starting with `where`, for any other instruction, for damage, and for a global name that `allowed`
/// refuses.
Pickle parse_pickle(std::span<const std::byte> bytes, const std::function<bool(std::string_view)>& allowed,
                    const std::string& where);

/// What to do about a file that is refused: the end of every sentence about one.
inline constexpr std::string_view kConvertPickle =
    "if you trust it, load it in Python and save it with save_pretrained, which makes a model.safetensors";

}  // namespace chorus
