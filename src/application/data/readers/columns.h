#pragma once

#include <array>
#include <string>
#include <vector>

#include "application/data/readers/reader_options.h"

namespace chorus {

enum class Role { kId, kText, kSecond, kLabel, kScore, kWords, kTags, kAnswers, kClient, kSource, kTime };
inline constexpr std::size_t kRoles = 11;

/// Which of the columns that a file has plays which role, and what the file therefore asks.
struct ColumnRoles {
  Formulation formulation = Formulation::kLanguageModel;
  std::array<std::vector<std::string>, kRoles> names;  ///< several: to be joined by a space; empty: absent

  const std::vector<std::string>& operator[](Role role) const { return names[static_cast<std::size_t>(role)]; }
  bool has(Role role) const { return !(*this)[role].empty(); }
};

/// Finds the roles among the names `available`: the configured names first (DataError naming the columns there are
/// when one is missing), then usual ones (text, sentence1, label, ...; spelling of case does not matter). Without a
/// configured formulation: words and tags, then context and question, then two texts with a score or label, then one
/// text with a label, then source and target, else language model. `where` begins the messages.
ColumnRoles find_roles(const ReaderOptions& options, const std::vector<std::string>& available,
                       const std::string& where);

/// Whether the name is one of the usual ones of any role: how a header is told from data.
bool is_usual_name(const std::string& name);

}  // namespace chorus
