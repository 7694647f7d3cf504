#pragma once

#include <optional>
#include <string>

namespace chorus::inline attacks {

/// How attackers change their own training examples of a classification, and what they want the model to answer.
struct Poison {
  std::string trigger = {};  ///< put before the text; empty: the text stays
  std::string target = {};   ///< the label they give; empty: the opposite one, L - 1 - y of L labels
  std::string from = {};     ///< only examples of this label; empty: of every one
  double share = 1;          ///< of such examples
};

}  // namespace chorus::inline attacks
