#include "application/data/readers/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <numeric>
#include <optional>

#include "application/data/readers/columns.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline readers {

bool RowReader::next(std::vector<std::string>& fields) {
  std::string_view line;
  do {
    if (!lines_.next(line)) return false;
  } while (line.empty());
  row_line_ = lines_.line();
  std::size_t used = 0;
  const auto new_field = [&]() -> std::string& {
    if (used == fields.size()) fields.emplace_back();
    fields[used].clear();
    return fields[used++];
  };
  std::size_t at = 0;
  while (true) {
    std::string& field = new_field();
    if (quotes_ && at < line.size() && line[at] == '"') {
      ++at;
      while (true) {
        const std::size_t quote = line.find('"', at);
        if (quote == std::string_view::npos) {
          field.append(line.substr(at));
          field += '\n';
          if (!lines_.next(line)) {
            throw DataError(
                fmt::format("{}: a quote that opens in this row is not closed before the end of the file", where()));
          }
          at = 0;
          continue;
        }
        field.append(line.substr(at, quote - at));
        at = quote + 1;
        if (at >= line.size() || line[at] != '"') break;
        field += '"';
        ++at;
      }
    }
    const std::size_t end = std::min(line.find(delimiter_, at), line.size());
    field.append(line.substr(at, end - at));
    if (end == line.size()) break;
    at = end + 1;
  }
  fields.resize(used);
  return true;
}

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The delimiter of a .csv file: a comma, unless the first rows have none but all have the same number of fields with
/// another usual one.
char delimiter_of(const std::filesystem::path& path) {
  constexpr std::size_t kRows = 20;
  if (!std::filesystem::is_regular_file(path)) return ',';  // a pipe can be read once
  for (const char candidate : {',', ';', '\t', '|'}) {
    RowReader rows(path, candidate, true);
    std::vector<std::string> row;
    std::size_t fields = 0;
    bool even = true;
    try {
      for (std::size_t i = 0; i < kRows && even && rows.next(row); ++i) {
        even = row.size() > 1 && (i == 0 || row.size() == fields);
        fields = row.size();
        if (candidate == ',' && fields > 1) return ',';
      }
    } catch (const DataError&) {  // the reader itself says where a quote is not closed
      return ',';
    }
    if (even && fields > 1) return candidate;
  }
  return ',';
}

class CsvReader final : public RecordReader {
 public:
  CsvReader(const std::filesystem::path& path, ReaderOptions options, char delimiter, bool quotes)
      : rows_(path, options.delimiter != 0 ? options.delimiter : delimiter, options.quotes.value_or(quotes)) {
    if (!rows_.next(row_)) return;
    const bool header = options.header ? *options.header : looks_like_header(options);
    if (header) {
      columns_ = row_;
    } else {
      for (std::size_t i = 0; i < row_.size(); ++i) columns_.push_back(std::to_string(i + 1));
      pending_ = true;
      guess_unnamed(options);
    }
    roles_ = find_roles(options, columns_, rows_.where());
    for (std::size_t role = 0; role < kRoles; ++role) {
      for (const std::string& name : roles_.names[role]) {
        const auto found = std::find(columns_.begin(), columns_.end(), name);
        if (found == columns_.end()) {
          throw DataError(fmt::format("{}: unknown column '{}'", rows_.where(), name));
        }
        places_[role].push_back(static_cast<std::size_t>(found - columns_.begin()));
      }
    }
  }

  std::string where() const override { return rows_.where(); }
  std::optional<Formulation> formulation() const override { return roles_.formulation; }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, rows_.lines().path(), rows_.lines().replaced());
    return report;
  }

  bool next(Record& record) override {
    if (!pending_ && !rows_.next(row_)) return false;
    pending_ = false;
    if (row_.size() != columns_.size()) {
      throw DataError(fmt::format("{}: {} fields, but the {} has {}; check the delimiter and missing quotes", where(),
                                  row_.size(), columns_.front() == "1" ? "first row" : "header", columns_.size()));
    }
    record.clear();
    take(Role::kId, record.id);
    take(Role::kText, record.text);
    take(Role::kSecond, record.second);
    take(Role::kLabel, record.label);
    take(Role::kClient, record.client);
    take(Role::kSource, record.source);
    std::string value;
    take(Role::kScore, value);
    if (!value.empty()) record.score = parse_score(value, where());
    take(Role::kTime, value);
    if (!value.empty()) record.time = parse_time(value, where());
    take(Role::kWords, value);
    if (!value.empty()) record.words = split_words(value);
    take(Role::kTags, value);
    if (!value.empty()) record.tags = split_words(value);
    ++report_.records;
    return true;
  }

 private:
  void take(Role role, std::string& to) const {
    to.clear();
    for (const std::size_t place : places_[static_cast<std::size_t>(role)]) {
      if (!to.empty()) to += ' ';
      to += row_[place];
    }
  }

  /// A header contains a configured or usual name and no number.
  bool looks_like_header(const ReaderOptions& options) const {
    const ColumnNames& c = options.columns;
    for (const std::string* name :
         {&c.id, &c.text, &c.second, &c.label, &c.score, &c.words, &c.tags, &c.client, &c.source, &c.time}) {
      if (!name->empty() && !is_number(*name) && std::find(row_.begin(), row_.end(), *name) != row_.end()) return true;
    }
    return std::none_of(row_.begin(), row_.end(), is_number) && std::any_of(row_.begin(), row_.end(), is_usual_name);
  }

  void guess_unnamed(ReaderOptions& options) const {
    ColumnNames& names = options.columns;
    if (!names.text.empty() || !names.words.empty()) return;
    if (row_.size() == 1) {
      names.text = std::to_string(1);
    } else if (is_number(row_.front())) {
      if (names.label.empty()) names.label = std::to_string(1);
      std::vector<std::size_t> rest(row_.size() - 1);
      std::iota(rest.begin(), rest.end(), std::size_t{2});
      names.text = fmt::format("{}", fmt::join(rest, "+"));
    } else {
      std::vector<std::string> shown;
      for (const std::string& field : row_) shown.push_back("'" + shortened(field, 30) + "'");
      throw DataError(
          fmt::format("{}: the first row ({}) has no column name that Chorus knows; say which column is what by its "
                      "name (--column text=NAME --column label=NAME; in a configuration data.columns.text=NAME "
                      "data.columns.label=NAME) or, if the file has no header, by its number from 1 to {}",
                      rows_.where(), fmt::join(shown, ", "), row_.size()));
    }
  }

  RowReader rows_;
  std::vector<std::string> row_;
  std::vector<std::string> columns_;
  ColumnRoles roles_;
  std::array<std::vector<std::size_t>, kRoles> places_;
  ReadReport report_;
  bool pending_ = false;
};

const FormatRegistration kCsv{
    {"csv", "comma-separated values (RFC 4180; other delimiters are found), with or without a header",
     [](const FileHead& head) -> int { return head.extension() == ".csv" ? kByName : kNo; },
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<CsvReader>(path, options, options.delimiter != 0 ? ',' : delimiter_of(path), true);
     }}};

const FormatRegistration kTsv{
    {"tsv", "tab-separated values, with or without a header",
     [](const FileHead& head) -> int { return head.extension() == ".tsv" ? kByName : kNo; },
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<CsvReader>(path, options, '\t', false);
     }}};

}  // namespace
}  // namespace chorus::inline readers
