#include "application/data/readers/leaf.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/readers/format.h"
#include "application/data/readers/json_stream.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using nlohmann::json;

class LeafReader final : public RecordReader {
 public:
  LeafReader(const std::filesystem::path& path, const ReaderOptions& options) : stream_(path) {
    stream_.enter('{');
    json users = json::array();
    json counts = json::array();
    for (std::string key; stream_.next_key(key);) {
      if (key == "users") {
        users = parse_json(stream_.value(), stream_.where());
      } else if (key == "num_samples") {
        counts = parse_json(stream_.value(), stream_.where());
      } else if (key == "user_data") {
        stream_.enter('{');
        in_users_ = true;
        break;
      } else {
        stream_.skip();
      }
    }
    if (!in_users_) {
      throw DataError(fmt::format("{}: \"user_data\" is missing, so this is not LEAF's JSON", path.string()));
    }
    if (!users.is_array() || !counts.is_array()) {
      throw DataError(fmt::format("{}: \"users\" and \"num_samples\" should be lists", path.string()));
    }
    for (std::size_t i = 0; i < users.size() && i < counts.size(); ++i) {
      if (users[i].is_string() && counts[i].is_number_unsigned()) {
        expected_[users[i].get<std::string>()] = counts[i].get<std::size_t>();
      }
    }
    has_user_ = next_user();
    labelled_ = has_user_ && scalar(data_["y"].empty() ? json() : data_["y"].front());
    formulation_ =
        options.formulation.value_or(labelled_ ? Formulation::kTextClassification : Formulation::kLanguageModel);
  }

  std::optional<Formulation> formulation() const override { return formulation_; }
  std::string where() const override { return fmt::format("{} (user {}, item {})", stream_.where(), user_, item_); }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, stream_.path(), stream_.replaced());
    return report;
  }

  bool next(Record& record) override {
    while (has_user_ && item_ >= data_["x"].size()) has_user_ = next_user();
    if (!has_user_) return false;
    record.clear();
    record.client = user_;
    fill_text(data_["x"][item_], record);
    const json& y = data_["y"].empty() ? null_ : data_["y"][item_];
    if (formulation_ == Formulation::kLanguageModel) {
      if (y.is_string()) record.text += y.get_ref<const std::string&>();
    } else if (scalar(y)) {
      record.label = json_text(y, where());
    }
    ++item_;
    ++report_.records;
    return true;
  }

 private:
  static bool scalar(const json& value) { return value.is_string() || value.is_number() || value.is_boolean(); }

  bool next_user() {
    item_ = 0;
    while (in_users_ && stream_.next_key(user_)) {
      data_ = parse_json(stream_.value(), stream_.where());
      if (!data_.is_object() || !data_.contains("x") || !data_["x"].is_array()) {
        throw DataError(fmt::format("{}: the user {} needs a list \"x\"", stream_.where(), user_));
      }
      if (!data_.contains("y") || !data_["y"].is_array()) data_["y"] = json::array();
      const std::size_t count = data_["x"].size();
      if (!data_["y"].empty() && data_["y"].size() != count) {
        throw DataError(fmt::format("{}: the user {} has {} texts but {} labels", stream_.where(), user_, count,
                                    data_["y"].size()));
      }
      if (const auto found = expected_.find(user_); found != expected_.end() && found->second != count) {
        throw DataError(fmt::format("{}: num_samples is {} for the user {}, who has {}", stream_.where(), found->second,
                                    user_, count));
      }
      if (count != 0) return true;
    }
    if (in_users_) {
      in_users_ = false;
      for (std::string key; stream_.next_key(key);) stream_.skip();
      stream_.expect_end();
    }
    return false;
  }

  void fill_text(const json& x, Record& record) const {
    const bool row = x.is_array() && x.size() >= 5 && x[0].is_string() && x[1].is_string() && x[4].is_string();
    if (row && x[4].get_ref<const std::string&>().find(' ') != std::string::npos) {
      record.id = x[0].get<std::string>();
      record.text = x[4].get<std::string>();
    } else {
      record.text = json_text(x, where());
    }
  }

  JsonStream stream_;
  std::map<std::string, std::size_t> expected_;
  Formulation formulation_ = Formulation::kTextClassification;
  ReadReport report_;
  json data_;
  const json null_;
  std::string user_;
  std::size_t item_ = 0;
  bool in_users_ = false;
  bool has_user_ = false;
  bool labelled_ = false;
};

int looks_like_leaf(const FileHead& head) {
  const bool leaf = head.text.find("\"user_data\"") != std::string::npos ||
                    (head.text.find("\"users\"") != std::string::npos && head.extension() == ".json");
  return leaf && head.text.find_first_not_of(" \t\r\n") == head.text.find('{') ? kByContent : kNo;
}

const FormatRegistration kLeaf{
    {"leaf", "LEAF's JSON: users with x and y", looks_like_leaf,
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<LeafReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline readers
