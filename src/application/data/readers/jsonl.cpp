#include "application/data/readers/jsonl.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "application/data/readers/answers.h"
#include "application/data/readers/columns.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using nlohmann::json;

class JsonlReader final : public LineRecordReader {
 public:
  JsonlReader(const std::filesystem::path& path, const ReaderOptions& options, std::string client)
      : LineRecordReader(path), options_(options), client_(std::move(client)), aligner_(options.misaligned) {
    first_ = next_object(object_);
    if (!first_) return;
    std::vector<std::string> keys;
    for (const auto& [key, value] : object_.items()) keys.push_back(key);
    roles_ = find_roles(options, keys, where());
  }

  std::optional<Formulation> formulation() const override {
    return object_.is_null() ? options_.formulation : std::optional(roles_.formulation);
  }

  bool next(Record& record) override {
    while (first_ || next_object(object_)) {
      first_ = false;
      if (!fill(record)) continue;
      ++report_.records;
      return true;
    }
    return false;
  }

 private:
  bool next_object(json& object) {
    for (std::string_view line; lines_.next(line);) {
      if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
      object = parse_json(line, where());
      if (!object.is_object()) throw DataError(fmt::format("{}: each line must be a JSON object", where()));
      return true;
    }
    return false;
  }

  const json* find(const std::string& name) const {
    if (const auto found = object_.find(name); found != object_.end()) return &*found;
    if (!name.starts_with('/')) return nullptr;
    try {
      const json::json_pointer pointer(name);
      return object_.contains(pointer) ? &object_.at(pointer) : nullptr;
    } catch (const json::exception&) {
      throw ConfigError(fmt::format("'{}' is not a JSON pointer such as /meta/user", name));
    }
  }

  const json& need(const std::string& name) const {
    const json* found = find(name);
    if (found != nullptr) return *found;
    throw DataError(fmt::format("{}: the field '{}' is missing; the fields are {}", where(), name, json_keys(object_)));
  }

  /// The joined texts of a role's fields. Required roles must be present.
  void take(Role role, std::string& to, bool needed) const {
    to.clear();
    for (const std::string& name : roles_[role]) {
      const json* value = needed ? &need(name) : find(name);
      if (value == nullptr) continue;
      if (!to.empty()) to += ' ';
      to += json_text(*value, where());
    }
  }

  bool fill(Record& record) {
    record.clear();
    std::string number;
    take(Role::kId, record.id, false);
    take(Role::kText, record.text, true);
    take(Role::kLabel, record.label, true);
    take(Role::kClient, record.client, false);
    take(Role::kSource, record.source, false);
    take(Role::kTime, number, false);
    if (!number.empty()) record.time = parse_time(number, where());
    take(Role::kScore, number, true);
    if (!number.empty()) record.score = parse_score(number, where());
    if (record.client.empty()) record.client = client_;
    if (roles_.has(Role::kWords)) record.words = json_words(need(roles_[Role::kWords].front()), where());
    if (roles_.has(Role::kTags)) record.tags = json_words(need(roles_[Role::kTags].front()), where());
    fill_second(record);
    return !roles_.has(Role::kAnswers) || fill_answers(record);
  }

  void fill_second(Record& record) const {
    const auto& names = roles_[Role::kSecond];
    if (names.size() == 1 && roles_.formulation == Formulation::kSeq2Seq) {
      const json& value = need(names.front());
      if (value.is_array() && !value.empty()) {
        record.second = json_text(value.front(), where());
        for (std::size_t i = 1; i < value.size(); ++i) {
          record.answers.push_back({json_text(value[i], where()), -1, -1});
        }
        return;
      }
    }
    take(Role::kSecond, record.second, true);
  }

  bool fill_answers(Record& record) {
    const json& value = need(roles_[Role::kAnswers].front());
    std::vector<GoldAnswer> given;
    try {
      if (value.is_object()) {
        const json& texts = value.at("text");
        const json& starts = value.at("answer_start");
        if (texts.size() != starts.size()) {
          throw DataError(fmt::format("{}: {} answer texts but {} starts", where(), texts.size(), starts.size()));
        }
        for (std::size_t i = 0; i < texts.size(); ++i) {
          given.push_back({texts.at(i).get<std::string>(), starts.at(i).get<std::int64_t>(), 0});
        }
      } else if (value.is_array()) {
        for (const json& answer : value) {
          given.push_back({answer.at("text").get<std::string>(), answer.at("answer_start").get<std::int64_t>(), 0});
        }
      } else {
        throw DataError(fmt::format("{}: answers must be a list of {{\"text\", \"answer_start\"}}", where()));
      }
    } catch (const json::exception&) {
      throw DataError(fmt::format("{}: an answer needs \"text\" (a string) and \"answer_start\" (a number)", where()));
    }
    aligner_.set_context(record.text);
    for (GoldAnswer& answer : given) {
      if (aligner_.align(answer, report_, where())) record.answers.push_back(std::move(answer));
    }
    return given.empty() || !record.answers.empty();
  }

  ReaderOptions options_;
  std::string client_;
  AnswerAligner aligner_;
  ColumnRoles roles_;
  json object_;
  bool first_ = false;
};

int looks_like_jsonl(const FileHead& head) {
  const auto lines = head.lines(2);
  if (head.extension() == ".jsonl" || head.extension() == ".ndjson") return kByShape;
  if (lines.empty() || !lines.front().starts_with('{')) {
    // One line may be longer than the head.
    return head.extension() == ".json" && head.text.starts_with('{') ? kByName : kNo;
  }
  return json::accept(lines.front()) && (lines.size() == 1 || lines[1].starts_with('{')) ? kByShape : kNo;
}

const FormatRegistration kJsonl{
    {"jsonl", "one JSON object per line, fields as columns", looks_like_jsonl,
     [](const std::filesystem::path& path, const ReaderOptions& options) { return open_jsonl(path, options, {}); }}};

}  // namespace

std::unique_ptr<RecordReader> open_jsonl(const std::filesystem::path& path, const ReaderOptions& options,
                                         const std::string& client) {
  return std::make_unique<JsonlReader>(path, options, client);
}

}  // namespace chorus::inline readers
