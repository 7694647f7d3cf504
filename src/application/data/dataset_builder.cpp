#include "application/data/dataset_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace chorus::inline data {
namespace {

template <typename T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void append(std::string& bytes, const std::string& text) {
  append(bytes, static_cast<std::uint64_t>(text.size()));
  bytes += text;
}

bool blank(const std::string& text) { return text.find_first_not_of(" \t\r\n\f\v") == std::string::npos; }

/// Pushes `value` onto a column that stays unallocated while every value is `none`.
template <typename T>
void push(std::vector<T>& column, std::size_t index, T value, T none) {
  if (column.empty() && (value == none || value != value)) return;
  if (column.size() < index) column.resize(index, none);
  column.push_back(value);
}

}  // namespace

DatasetBuilder::DatasetBuilder(BuildOptions options) : options_(std::move(options)) {
  data_.formulation_ = options_.formulation;
  tags_.what = "tag";
  if (!options_.label_vocabulary.empty()) fix_vocabulary(options_.label_vocabulary);
}

void DatasetBuilder::fix_vocabulary(std::span<const std::string> names) {
  const bool tagging = options_.formulation == Formulation::kSequenceTagging;
  StringTable& table = tagging ? data_.tags_ : data_.labels_;
  Vocabulary& vocabulary = tagging ? tags_ : labels_;
  for (const std::string& name : names) {
    if (table.find(name) != StringTable::kNone) {
      throw DataError(fmt::format("the label vocabulary contains '{}' twice; keep one", name));
    }
    table.intern(name);
  }
  vocabulary.fixed = true;
}

std::string DatasetBuilder::place() const {
  if (reader_ != nullptr) return reader_->where();
  if (where_ != nullptr && !where_->empty()) return *where_;
  return fmt::format("record {}", data_.size());
}

bool DatasetBuilder::full(Split split) const {
  return options_.limit != 0 && data_.members_[static_cast<std::size_t>(split)].size() >= options_.limit;
}

void DatasetBuilder::read(RecordReader& reader, Split split, const std::string& client) {
  const bool tagging = options_.formulation == Formulation::kSequenceTagging;
  if (!reader.label_vocabulary().empty() && !(tagging ? tags_ : labels_).fixed) {
    check((tagging ? data_.tags_ : data_.labels_).empty(), "a stored vocabulary must be read first");
    fix_vocabulary(reader.label_vocabulary());
  }
  reader_ = &reader;
  Record record;
  while (reader.next(record)) {
    const Split to = record.split.value_or(split);
    if (full(to)) {
      if (!record.split) break;
      continue;
    }
    if (record.client.empty()) record.client = client;
    add(record, to);
  }
  reader_ = nullptr;
  data_.report_.add(reader.report());
}

bool DatasetBuilder::leave_out(const Record& record) {
  const bool empty = options_.formulation == Formulation::kSequenceTagging ? record.words.empty() : blank(record.text);
  if (!empty) return false;
  ++data_.report_.empty;
  if (options_.empty == EmptyText::kError) throw DataError(fmt::format("{}: the example has no text", place()));
  return options_.empty == EmptyText::kSkip && !(reader_ != nullptr && reader_->positions_are_ids());
}

std::int32_t DatasetBuilder::name_id(StringTable& table, Vocabulary& vocabulary, const std::string& name, Split split) {
  if (name.empty()) return StringTable::kNone;
  if (vocabulary.fixed) {
    const std::int32_t id = table.find(name);
    if (id != StringTable::kNone) return id;
    if (!options_.allow_new_labels) {
      throw DataError(
          fmt::format("{}: the {} '{}' is not in the given vocabulary of {}; correct it, or extend the "
                      "vocabulary",
                      place(), vocabulary.what, name, table.size()));
    }
    return table.intern(name);
  }
  const std::int32_t id = table.intern(name);
  const auto index = static_cast<std::size_t>(id);
  if (index >= vocabulary.first.size()) {
    vocabulary.first.emplace_back();
    vocabulary.places.push_back(split == Split::kTrain ? std::string() : place());
  }
  std::uint64_t& first = vocabulary.first[index][static_cast<std::size_t>(split)];
  // Words of one example share its index; the stable sort over ids keeps their order.
  if (first == 0) first = data_.size() + 1;
  return id;
}

void DatasetBuilder::add_words(const Record& record, Split split) {
  if (!record.tags.empty() && record.tags.size() != record.words.size()) {
    throw DataError(fmt::format("{}: {} words but {} tags; each word needs one tag", place(), record.words.size(),
                                record.tags.size()));
  }
  for (const std::string& word : record.words) data_.word_ids_.push_back(data_.words_.intern(word));
  for (const std::string& tag : record.tags) {
    if (tag.empty()) throw DataError(fmt::format("{}: a tag is empty", place()));
    data_.tag_ids_.push_back(name_id(data_.tags_, tags_, tag, split));
  }
  data_.word_ends_.close(data_.size(), data_.word_ids_.size(), !record.words.empty());
  data_.tag_ends_.close(data_.size(), data_.tag_ids_.size(), !record.tags.empty());
}

void DatasetBuilder::add_answers(const Record& record) {
  for (const GoldAnswer& answer : record.answers) {
    data_.answer_texts_.push(answer.text, data_.arena_);
    data_.answer_spans_.push_back(answer.begin);
    data_.answer_spans_.push_back(answer.end);
  }
  data_.answer_ends_.close(data_.size(), data_.answer_spans_.size() / 2, !record.answers.empty());
}

void DatasetBuilder::hash(const Record& record, Split split) {
  hashed_.clear();
  append(hashed_, static_cast<std::uint64_t>(split));
  for (const std::string* text :
       {&record.id, &record.text, &record.second, &record.label, &record.client, &record.source}) {
    append(hashed_, *text);
  }
  append(hashed_, record.score == record.score ? record.score : -1e300);
  append(hashed_, record.time);
  for (const auto* list : {&record.words, &record.tags}) {
    append(hashed_, static_cast<std::uint64_t>(list->size()));
    for (const std::string& text : *list) append(hashed_, text);
  }
  append(hashed_, static_cast<std::uint64_t>(record.answers.size()));
  for (const GoldAnswer& answer : record.answers) {
    append(hashed_, answer.text);
    append(hashed_, answer.begin);
    append(hashed_, answer.end);
  }
  data_.fingerprint_ = fingerprint(hashed_, data_.fingerprint_);
}

void DatasetBuilder::add(const Record& record, Split split, const std::string& where) {
  where_ = &where;
  if (leave_out(record)) return;
  const std::size_t index = data_.size();
  if (index >= std::numeric_limits<std::uint32_t>::max()) throw DataError("more than 4294967295 examples");
  add_words(record, split);
  add_answers(record);
  push(data_.label_ids_, index, name_id(data_.labels_, labels_, record.label, split), -1);
  push(data_.client_ids_, index, record.client.empty() ? -1 : data_.clients_.intern(record.client), -1);
  push(data_.source_ids_, index, record.source.empty() ? -1 : data_.sources_.intern(record.source), -1);
  push(data_.scores_, index, record.score, std::numeric_limits<double>::quiet_NaN());
  push(data_.times_, index, record.time, kNoTime);
  data_.id_.push(record.id, data_.arena_);
  data_.text_.push(record.text, data_.arena_);
  data_.second_.push(record.second, data_.arena_);
  data_.splits_.push_back(split);
  data_.members_[static_cast<std::size_t>(split)].push_back(static_cast<std::uint32_t>(index));
  hash(record, split);
}

void DatasetBuilder::order(StringTable& table, Vocabulary& vocabulary, std::vector<std::int32_t>& column) {
  if (vocabulary.fixed || table.empty()) return;
  const bool trained = !data_.members_[0].empty();
  std::vector<std::int32_t> ids(table.size());
  std::iota(ids.begin(), ids.end(), 0);
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  const auto rank = [&](std::int32_t id) {
    auto first = vocabulary.first[static_cast<std::size_t>(id)];
    for (std::uint64_t& number : first) number = number == 0 ? kNever : number;
    return first;
  };
  if (trained && !options_.allow_new_labels) {
    for (const std::int32_t id : ids) {
      if (rank(id)[0] != kNever) continue;
      if (options_.limit != 0) {
        throw DataError(fmt::format(
            "{}: the {} '{}' does not occur in the first {} training examples; raise the limit, "
            "shuffle the file, or allow new labels",
            vocabulary.places[static_cast<std::size_t>(id)], vocabulary.what, table.at(id), options_.limit));
      }
      throw DataError(
          fmt::format("{}: the {} '{}' does not occur in the training data; correct it, give the label "
                      "vocabulary, or allow new labels",
                      vocabulary.places[static_cast<std::size_t>(id)], vocabulary.what, table.at(id)));
    }
  }
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) { return rank(a) < rank(b); });
  if (std::is_sorted(ids.begin(), ids.end())) return;
  StringTable sorted;
  std::vector<std::int32_t> renamed(ids.size());
  for (const std::int32_t id : ids) renamed[static_cast<std::size_t>(id)] = sorted.intern(table.at(id));
  for (std::int32_t& id : column) id = id < 0 ? id : renamed[static_cast<std::size_t>(id)];
  table = std::move(sorted);
}

Dataset DatasetBuilder::finish() && {
  order(data_.labels_, labels_, data_.label_ids_);
  order(data_.tags_, tags_, data_.tag_ids_);
  // The ids of the labels matter as much as their names.
  for (const StringTable* table : {&data_.labels_, &data_.tags_}) {
    for (std::size_t id = 0; id < table->size(); ++id) {
      data_.fingerprint_ = chorus::fingerprint(table->at(static_cast<std::int32_t>(id)), data_.fingerprint_);
    }
    data_.fingerprint_ = chorus::fingerprint({}, data_.fingerprint_);
  }
  data_.fingerprint_ = chorus::fingerprint(name_of(data_.formulation_), data_.fingerprint_);
  ReadReport& report = data_.report_;
  if (report.empty != 0) {
    report.notes.push_back(fmt::format("{} example{} without text", report.empty, report.empty == 1 ? "" : "s"));
  }
  if (report.misaligned != 0) {
    report.notes.push_back(fmt::format("{} answers are not at their offset: {} were moved, {} dropped",
                                       report.misaligned, report.realigned, report.unaligned));
  }
  report.records = data_.size();
  data_.splits_.shrink_to_fit();
  return std::move(data_);
}

}  // namespace chorus::inline data
