#include "application/tasks/masking.h"

#include "core/base/error.h"

namespace chorus::inline tasks {

Masking::Masking(const Tokenizer& tokenizer, const MaskingOptions& options) : tokenizer_(tokenizer), options_(options) {
  if (!tokenizer.special().mask) {
    throw ConfigError("masked_lm needs a tokenizer with a mask token (BERT, RoBERTa, ALBERT); for GPT-2 use causal_lm");
  }
  mask_ = *tokenizer.special().mask;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(tokenizer.vocabulary_size()); ++id) {
    if (!tokenizer.is_special(id) && !tokenizer.token(id).empty()) ordinary_.push_back(id);
  }
  if (ordinary_.empty()) throw DataError("the tokenizer has only special tokens");
}

void Masking::apply(std::span<std::int64_t> ids, RandomStream& stream, std::vector<std::int64_t>& places) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const double chosen = stream.uniform(), fate = stream.uniform();
    const std::uint64_t other = stream.below(ordinary_.size());
    if (chosen >= options_.probability || tokenizer_.is_special(static_cast<std::int32_t>(ids[i]))) continue;
    places.push_back(static_cast<std::int64_t>(i));
    if (fate < options_.masked) {
      ids[i] = mask_;
    } else if (fate < options_.masked + options_.replaced) {
      ids[i] = ordinary_[other];
    }
  }
}

}  // namespace chorus::inline tasks
