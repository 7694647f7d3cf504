#include "application/data/dataset_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/base/byte_reader.h"
#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline data {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little endian, like memory");

constexpr std::string_view kFileMagic = "CHORDAT\n";
constexpr std::uint32_t kFileVersion = 1;
constexpr std::size_t kHeadBytes = 8 + 4 + 4 + 16 + 8 + 8 + 16 + 16 + 16;
constexpr std::size_t kPage = 4096;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

class BodyWriter {
 public:
  template <typename T>
  void number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void sum(const Fingerprint& value) {
    number(value.high);
    number(value.low);
  }
  void text(std::string_view value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes += value;
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    number(static_cast<std::uint64_t>(values.size()));
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void column(const StringColumn& column) {
    number(static_cast<std::uint64_t>(column.places().size()));
    for (const StringPlace& place : column.places()) {
      number(place.begin);
      number(static_cast<std::uint64_t>(place.length));
    }
  }
  void table(const StringTable& table) {
    number(static_cast<std::uint64_t>(table.size()));
    for (std::size_t id = 0; id < table.size(); ++id) text(table.at(static_cast<std::int32_t>(id)));
  }

  std::string bytes;
};

class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    const T value = bytes_.take<T>();
    require(bytes_.ok());
    return value;
  }
  Fingerprint sum() {
    const auto high = number<std::uint64_t>();
    return {high, number<std::uint64_t>()};
  }
  std::string_view text() {
    const std::string_view value = bytes_.text(number<std::uint64_t>());
    require(bytes_.ok());
    return value;
  }
  template <typename T>
  std::vector<T> list() {
    const auto piece = bytes_.bytes(count(sizeof(T)) * sizeof(T));
    std::vector<T> values(piece.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), piece.data(), piece.size());
    return values;
  }
  StringColumn column(const StringArena& arena, std::size_t size) {
    std::vector<StringPlace> places(count(16));
    require(places.empty() || places.size() == size);
    for (StringPlace& place : places) {
      place.begin = number<std::uint64_t>();
      const auto length = number<std::uint64_t>();
      require(length <= std::numeric_limits<std::uint32_t>::max());
      place.length = static_cast<std::uint32_t>(length);
      require(arena.holds(place));
    }
    return StringColumn::of(std::move(places), size);
  }
  StringTable table() {
    StringTable table;
    const std::uint64_t size = count(8);
    for (std::uint64_t id = 0; id < size; ++id) {
      require(table.intern(text()) == static_cast<std::int32_t>(id));  // names are distinct
    }
    return table;
  }
  bool at_end() const { return bytes_.left() == 0; }
  void require(bool good) const {
    if (!good) throw DataError("its contents are inconsistent");
  }

 private:
  /// A count of entries of at least `width` bytes each, which must fit into the rest.
  std::uint64_t count(std::size_t width) {
    const auto value = number<std::uint64_t>();
    require(value <= bytes_.left() / width);
    return value;
  }

  ByteReader bytes_;
};

/// Whether every value is below `limit` and at least `least`.
bool all_below(const std::vector<std::int32_t>& numbers, std::size_t limit, std::int32_t least) {
  return std::all_of(numbers.begin(), numbers.end(), [&](std::int32_t number) {
    return number >= least && static_cast<std::int64_t>(number) < static_cast<std::int64_t>(limit);
  });
}

bool good_ends(const std::vector<std::uint64_t>& ends, std::size_t examples, std::size_t entries) {
  if (ends.empty()) return entries == 0;
  return ends.size() == examples && std::is_sorted(ends.begin(), ends.end()) && ends.back() == entries;
}

Fingerprint sum_of_blocks(const std::vector<const char*>& blocks) {
  Fingerprint sum;
  for (const char* block : blocks) sum = fingerprint({block, StringArena::kBlock}, sum);
  return sum;
}

}  // namespace

void DatasetFile::write(const std::filesystem::path& path, const Fingerprint& key, const Dataset& data) {
  BodyWriter body;
  body.number(static_cast<std::uint32_t>(data.formulation_));
  body.sum(data.fingerprint_);
  body.list(data.splits_);
  for (const StringColumn* column : {&data.id_, &data.text_, &data.second_}) body.column(*column);
  for (const StringTable* table : {&data.labels_, &data.tags_, &data.clients_, &data.sources_, &data.words_}) {
    body.table(*table);
  }
  for (const auto* ids : {&data.label_ids_, &data.client_ids_, &data.source_ids_}) body.list(*ids);
  body.list(data.scores_);
  body.list(data.times_);
  body.list(data.word_ids_);
  body.list(data.tag_ids_);
  for (const auto* ragged : {&data.word_ends_, &data.tag_ends_, &data.answer_ends_}) body.list(ragged->ends);
  body.list(data.answer_spans_);
  body.column(data.answer_texts_);
  const ReadReport& report = data.report_;
  for (const std::uint64_t number :
       {report.records, report.empty, report.replaced_bytes, report.misaligned, report.realigned, report.unaligned}) {
    body.number(number);
  }
  body.number(static_cast<std::uint64_t>(report.notes.size()));
  for (const std::string& note : report.notes) body.text(note);

  BodyWriter head;
  head.bytes = kFileMagic;
  head.number(kFileVersion);
  head.number(std::uint32_t{0});
  head.sum(key);
  head.number(static_cast<std::uint64_t>(body.bytes.size()));
  head.number(data.arena_.memory());
  head.sum(fingerprint(body.bytes));
  head.sum(sum_of_blocks(data.arena_.blocks()));
  head.sum(fingerprint(head.bytes));

  AtomicFile file(path);
  file.write(head.bytes);
  file.write(body.bytes);
  const std::size_t used = kHeadBytes + body.bytes.size();
  file.write(std::string(whole_pages(used) - used, '\0'));
  for (const char* block : data.arena_.blocks()) file.write(std::string_view(block, StringArena::kBlock));
  file.commit();
}

std::optional<Dataset> DatasetFile::open(const std::filesystem::path& path, const Fingerprint& key) try {
  const auto file = std::make_shared<const MappedFile>(path);
  if (file->size() < kHeadBytes || !file->text().starts_with(kFileMagic)) {
    throw DataError("not a dataset file, or its header is truncated");
  }
  BodyReader head(file->bytes().subspan(kFileMagic.size()));
  if (head.number<std::uint32_t>() != kFileVersion) return {};
  (void)head.number<std::uint32_t>();
  const Fingerprint stored = head.sum();
  const auto body_size = head.number<std::uint64_t>(), arena_size = head.number<std::uint64_t>();
  const Fingerprint body_sum = head.sum(), arena_sum = head.sum();
  if (head.sum() != fingerprint(file->text().substr(0, kHeadBytes - 16))) {
    throw DataError("its header was changed after it was written");
  }
  if (stored != key) return {};
  if (body_size > file->size() - kHeadBytes || arena_size % StringArena::kBlock != 0 ||
      file->size() != whole_pages(kHeadBytes + body_size) + arena_size) {
    throw DataError("its size differs from its header");
  }
  const auto size = static_cast<std::size_t>(body_size);
  Dataset data;
  data.file_ = file;
  data.arena_ = StringArena::over(file->text().substr(file->size() - static_cast<std::size_t>(arena_size)));
  if (fingerprint(file->text().substr(kHeadBytes, size)) != body_sum ||
      sum_of_blocks(data.arena_.blocks()) != arena_sum) {
    throw DataError("it was changed after it was written");
  }

  BodyReader body(file->bytes().subspan(kHeadBytes, size));
  const auto formulation = body.number<std::uint32_t>();
  body.require(formulation <= static_cast<std::uint32_t>(Formulation::kLanguageModel));
  data.formulation_ = static_cast<Formulation>(formulation);
  data.fingerprint_ = body.sum();
  data.splits_ = body.list<Split>();
  const std::size_t n = data.size();
  body.require(n < std::numeric_limits<std::uint32_t>::max());
  for (std::size_t i = 0; i < n; ++i) {
    const auto split = static_cast<std::size_t>(data.splits_[i]);
    body.require(split < kSplits);
    data.members_[split].push_back(static_cast<std::uint32_t>(i));
  }
  for (StringColumn* column : {&data.id_, &data.text_, &data.second_}) *column = body.column(data.arena_, n);
  for (StringTable* table : {&data.labels_, &data.tags_, &data.clients_, &data.sources_, &data.words_}) {
    *table = body.table();
  }
  const auto per_example = [&](auto& column, auto values) {
    column = std::move(values);
    body.require(column.empty() || column.size() == n);
  };
  const std::pair<std::vector<std::int32_t>*, const StringTable*> numbered[] = {
      {&data.label_ids_, &data.labels_}, {&data.client_ids_, &data.clients_}, {&data.source_ids_, &data.sources_}};
  for (const auto& [ids, table] : numbered) {
    per_example(*ids, body.list<std::int32_t>());
    body.require(all_below(*ids, table->size(), StringTable::kNone));
  }
  per_example(data.scores_, body.list<double>());
  per_example(data.times_, body.list<std::int64_t>());
  data.word_ids_ = body.list<std::int32_t>();
  data.tag_ids_ = body.list<std::int32_t>();
  body.require(all_below(data.word_ids_, data.words_.size(), 0) && all_below(data.tag_ids_, data.tags_.size(), 0));
  for (auto* ragged : {&data.word_ends_, &data.tag_ends_, &data.answer_ends_}) {
    ragged->ends = body.list<std::uint64_t>();
  }
  data.answer_spans_ = body.list<std::int64_t>();
  const std::size_t answers = data.answer_spans_.size() / 2;
  data.answer_texts_ = body.column(data.arena_, answers);
  body.require(data.answer_spans_.size() % 2 == 0 && good_ends(data.word_ends_.ends, n, data.word_ids_.size()) &&
               good_ends(data.tag_ends_.ends, n, data.tag_ids_.size()) &&
               good_ends(data.answer_ends_.ends, n, answers));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t tags = data.tag_ids(i).size();
    body.require(tags == 0 || tags == data.words(i).size());
  }
  ReadReport& report = data.report_;
  for (std::uint64_t* number : {&report.records, &report.empty, &report.replaced_bytes, &report.misaligned,
                                &report.realigned, &report.unaligned}) {
    *number = body.number<std::uint64_t>();
  }
  for (auto notes = body.number<std::uint64_t>(); notes > 0; --notes) report.notes.emplace_back(body.text());
  body.require(body.at_end());
  return data;
} catch (const DataError& error) {
  const std::string what = error.what();
  throw DataError(what.starts_with(path.string()) ? what : fmt::format("{}: {}", path.string(), what));
}

}  // namespace chorus::inline data
