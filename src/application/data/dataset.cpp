#include "application/data/dataset.h"

#include "core/base/error.h"

namespace chorus::inline data {

std::pair<std::size_t, std::size_t> Dataset::Ragged::range(std::size_t i) const {
  if (i >= ends.size()) return {0, 0};
  return {i == 0 ? 0 : ends[i - 1], ends[i]};
}

void Dataset::Ragged::close(std::size_t index, std::size_t end, bool any) {
  if (ends.empty() && !any) return;
  if (ends.size() < index) ends.resize(index, 0);  // examples before the first one with entries
  ends.push_back(end);
}

WordList Dataset::words(std::size_t i) const {
  const auto [begin, end] = word_ends_.range(i);
  return {std::span(word_ids_).subspan(begin, end - begin), &words_};
}

std::span<const std::int32_t> Dataset::tag_ids(std::size_t i) const {
  const auto [begin, end] = tag_ends_.range(i);
  return std::span(tag_ids_).subspan(begin, end - begin);
}

AnswerView AnswerList::operator[](std::size_t i) const {
  const std::size_t a = begin_ + i;
  return {data_->answer_texts_.at(a, data_->arena_), data_->answer_spans_[2 * a], data_->answer_spans_[2 * a + 1]};
}

Example Dataset::at(std::size_t i) const {
  check(i < size(), "example index beyond the dataset");
  Example example;
  example.id = id_.at(i, arena_);
  example.text = text_.at(i, arena_);
  example.second = second_.at(i, arena_);
  if (!label_ids_.empty()) example.label = label_ids_[i];
  if (!scores_.empty()) example.score = scores_[i];
  example.words = words(i);
  example.tags = tag_ids(i);
  const auto [begin, end] = answer_ends_.range(i);
  example.answers = AnswerList(this, begin, end);
  if (!client_ids_.empty()) example.client = client_ids_[i];
  if (!source_ids_.empty()) example.source = source_ids_[i];
  if (!times_.empty()) example.time = times_[i];
  example.split = splits_[i];
  return example;
}

std::uint64_t Dataset::memory() const {
  std::uint64_t bytes = arena_.memory() + id_.memory() + text_.memory() + second_.memory() + answer_texts_.memory();
  const auto count = [&](const auto& column) { bytes += column.capacity() * sizeof(column[0]); };
  count(label_ids_), count(client_ids_), count(source_ids_), count(scores_), count(times_), count(splits_);
  for (const auto& members : members_) count(members);
  count(word_ids_), count(tag_ids_), count(answer_spans_);
  count(word_ends_.ends), count(tag_ends_.ends), count(answer_ends_.ends);
  for (const StringTable* table : {&labels_, &tags_, &clients_, &sources_, &words_}) bytes += table->memory();
  return bytes;
}

}  // namespace chorus::inline data
