#pragma once

#include <string>
#include <string_view>

namespace chorus::inline metrics {

/// Porter's suffix stripping (Program 14(3), 1980) with the extensions of NLTK's PorterStemmer (its default mode),
/// which `rouge-score` uses: "happily" -> "happili", "dying" -> "die". Takes a word of lower-case letters a to z (any
/// other byte counts as a consonant). Words of one or two bytes are unchanged. None of our libraries has this variant.
std::string porter_stem(std::string_view word);

}  // namespace chorus::inline metrics
