#pragma once

#include <span>
#include <string>
#include <string_view>

namespace chorus::inline partition {

/// The label of a tagged sentence for label-based partitions (FedNLP): its set of entity types, sorted and joined by
/// "-", without CARDINAL, DATE, MONEY, QUANTITY, ORDINAL, TIME, LANGUAGE, WORK_OF_ART, LAW and PERCENT; "NULL" when
/// none remains. Tags are BIO ("B-person", "I-person", "O"); a tag without a prefix is a type.
///
///     pseudo_label({"O", "B-PERSON", "I-PERSON", "B-DATE", "B-GPE"})  ->  "GPE-PERSON"
std::string pseudo_label(std::span<const std::string_view> tags);

}  // namespace chorus::inline partition
