#pragma once

#include <string>
#include <string_view>

namespace chorus {

/// Porter's suffix stripping (Program 14(3), 1980) with the extensions of NLTK's PorterStemmer (its default mode),
/// which is what `rouge-score` uses: "happily" -> "happili", "dying" -> "die". Takes a word of lower-case letters a to
/// z (any other byte counts as a consonant). Words of one or two bytes come back as they are. No package of the kept
/// ones has this variant, so it is written out here.
std::string porter_stem(std::string_view word);

}  // namespace chorus
