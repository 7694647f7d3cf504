#pragma once

#include <optional>
#include <string>

namespace chorus::inline attacks {

/// How attackers change their own training examples of a classification task, and what they want the model to predict.
struct Poison {
  std::string trigger = {};  ///< prepended to the text; empty: the text is unchanged
  std::string target = {};   ///< the label they assign; empty: the opposite one, L - 1 - y of L labels
  std::string from = {};     ///< only examples with this label; empty: all labels
  double share = 1;          ///< share of those examples
};

}  // namespace chorus::inline attacks
