#include "application/data/hdf5/fednlp_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "application/data/hdf5/h5_file.h"
#include "application/data/readers/answers.h"
#include "application/data/readers/format.h"
#include "application/data/readers/json_value.h"
#include "application/data/readers/line_reader.h"
#include "core/base/error.h"
#include "core/base/utf8.h"

namespace chorus::inline hdf5 {
namespace {

using nlohmann::json;

class FednlpReader final : public RecordReader {
 public:
  FednlpReader(const std::filesystem::path& path, const ReaderOptions& options)
      : file_(path), aligner_(options.misaligned) {
    if (!file_.has("attributes")) {
      throw DataError(
          fmt::format("{}: the dataset \"attributes\" is missing, so this is not a FedNLP data file{}", path.string(),
                      path.string().ends_with("_partition.h5") ? " (its name is that of a partition file)" : ""));
    }
    const json attributes = parse_json(file_.read_text("attributes"), path.string() + ": attributes");
    if (!attributes.is_object()) throw DataError(fmt::format("{}: attributes is not a JSON object", path.string()));
    read_splits(attributes);
    read_vocabulary(attributes);
    read_sources(attributes);
    formulation_ = options.formulation.value_or(find_formulation(attributes));
  }

  std::optional<Formulation> formulation() const override { return formulation_; }
  std::span<const std::string> label_vocabulary() const override { return vocabulary_; }
  bool positions_are_ids() const override { return true; }
  std::string where() const override {
    return fmt::format("{} (example {})", file_.path().string(), next_ == 0 ? 0 : next_ - 1);
  }
  ReadReport report() const override {
    ReadReport report = report_;
    note_replaced(report, file_.path(), replaced_);
    return report;
  }

  bool next(Record& record) override {
    if (next_ == splits_.size()) return false;
    const std::string id = std::to_string(next_);
    record.clear();
    record.split = splits_[next_];
    if (!sources_.empty()) record.source = sources_[next_];
    ++next_;
    switch (formulation_) {
      case Formulation::kSequenceTagging:
        read_list("X/" + id, record.words);
        if (file_.has("Y")) read_list("Y/" + id, record.tags);
        check_lengths(record);
        break;
      case Formulation::kSpanExtraction:
        read_span(id, record);
        break;
      case Formulation::kSeq2Seq:
        record.text = text("X/" + id);
        record.second = text("Y/" + id);
        break;
      case Formulation::kTextClassification:
        record.text = text("X/" + id);
        if (file_.has("Y")) record.label = text("Y/" + id);
        break;
      case Formulation::kLanguageModel:
        record.text = text(chunked_ ? fmt::format("X_{}/X/{}", (next_ - 1) / 1'000'000, id) : "X/" + id);
        break;
      case Formulation::kPairClassification:
      case Formulation::kPairRegression:
        throw ConfigError(fmt::format("FedNLP's files do not hold {}", name_of(formulation_)));
    }
    ++report_.records;
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(fmt::format("{}: {}", file_.path().string(), what));
  }

  std::vector<std::uint64_t> ids(const json& attributes, const char* key) const {
    const auto found = attributes.find(key);
    std::vector<std::uint64_t> numbers;
    if (found == attributes.end() || found->is_null()) return numbers;
    if (!found->is_array()) fail(fmt::format("{} in attributes is not a list", key));
    numbers.reserve(found->size());
    for (const json& value : *found) {
      // Older writers stored the ids as text.
      if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
        numbers.push_back(value.get<std::uint64_t>());
      } else if (value.is_string() && !value.get_ref<const std::string&>().empty() &&
                 value.get_ref<const std::string&>().size() < 19 &&
                 value.get_ref<const std::string&>().find_first_not_of("0123456789") == std::string::npos) {
        numbers.push_back(std::stoull(value.get_ref<const std::string&>()));
      } else {
        fail(fmt::format("{} in attributes holds {}, which is not an example id", key, value.dump()));
      }
    }
    return numbers;
  }

  void read_splits(const json& attributes) {
    const std::vector<std::uint64_t> train = ids(attributes, "train_index_list");
    const std::vector<std::uint64_t> test = ids(attributes, "test_index_list");
    std::vector<std::uint64_t> all = ids(attributes, "index_list");
    if (all.empty()) {
      all = train;
      all.insert(all.end(), test.begin(), test.end());
    }
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != i) fail(fmt::format("index_list must hold each of 0 to {} once; {} is missing", all.size() - 1, i));
    }
    if (all.empty()) fail("index_list in attributes is missing or empty");
    splits_.assign(all.size(), Split::kTrain);
    if (train.empty() && test.empty()) {
      const std::size_t first_test = all.size() * 9 / 10;
      std::fill(splits_.begin() + static_cast<std::ptrdiff_t>(first_test), splits_.end(), Split::kTest);
      report_.notes.push_back(fmt::format("{}: no train and test lists; the first {} of {} are training data",
                                          file_.path().string(), first_test, all.size()));
      return;
    }
    std::vector<bool> seen(all.size());
    for (const auto& [list, split] : {std::pair(&train, Split::kTrain), std::pair(&test, Split::kTest)}) {
      for (const std::uint64_t id : *list) {
        if (id >= all.size())
          fail(fmt::format("the {} list contains example {}, but there are only {}", name_of(split), id, all.size()));
        if (seen[id]) fail(fmt::format("example {} occurs twice in the train and test lists", id));
        seen[id] = true;
        splits_[id] = split;
      }
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing != seen.end()) {
      fail(fmt::format("example {} is in neither the train nor the test list", missing - seen.begin()));
    }
  }

  void read_vocabulary(const json& attributes) {
    const auto found = attributes.find("label_vocab");
    if (found == attributes.end() || !found->is_object()) return;  // null in SemEval files
    vocabulary_.resize(found->size());
    std::vector<bool> seen(found->size());
    for (const auto& [label, id] : found->items()) {
      const std::int64_t number = id.is_number_integer() ? id.get<std::int64_t>() : -1;
      if (number < 0 || static_cast<std::size_t>(number) >= seen.size() || seen[static_cast<std::size_t>(number)]) {
        fail(fmt::format("label_vocab gives '{}' the id {}; the ids must be 0 to {}, each once", label, id.dump(),
                         seen.size() - 1));
      }
      seen[static_cast<std::size_t>(number)] = true;
      vocabulary_[static_cast<std::size_t>(number)] = label;
    }
  }

  void read_sources(const json& attributes) {
    const auto take = [&](const char* key) {
      const auto found = attributes.find(key);
      if (found == attributes.end() || !found->is_array()) return;
      for (const json& value : *found) sources_.push_back(json_text(value, file_.path().string()));
    };
    for (const char* key : {"label_index_list", "source_list", "doc_index"}) {
      if (sources_.empty()) take(key);
    }
    if (sources_.empty()) {
      take("train_source_list");
      take("test_source_list");
    }
    if (sources_.empty() || sources_.size() == splits_.size()) return;
    report_.notes.push_back(fmt::format("{}: the list of sources has {} entries for {} examples and was ignored",
                                        file_.path().string(), sources_.size(), splits_.size()));
    sources_.clear();
  }

  Formulation find_formulation(const json& attributes) {
    chunked_ = !file_.has("X") && file_.has("X_0/X");
    const auto stated = attributes.find("task_type");
    if (stated != attributes.end() && stated->is_string()) {
      const std::string& name = stated->get_ref<const std::string&>();
      if (name == "sequence_tagging" || name == "named_entity_recognition") return Formulation::kSequenceTagging;
      if (name == "lm") return Formulation::kLanguageModel;
      try {
        return formulation_named(name);
      } catch (const ConfigError&) {
        report_.notes.push_back(
            fmt::format("{}: the task_type '{}' is unknown and was ignored", file_.path().string(), name));
      }
    }
    if (file_.has("context_X")) return Formulation::kSpanExtraction;
    if (chunked_ || (file_.has("X") && !file_.has("Y"))) return Formulation::kLanguageModel;
    if (!file_.has("X")) fail("the file has none of X, context_X and X_0/X");
    file_.read("X/0", value_);
    if (!value_.is_scalar) return Formulation::kSequenceTagging;
    if (!vocabulary_.empty()) return Formulation::kTextClassification;
    file_.read("Y/0", value_);
    return value_.is_text ? Formulation::kSeq2Seq : Formulation::kTextClassification;
  }

  std::string cleaned(const std::string& raw) { return std::string(clean_utf8(raw, buffer_, replaced_)); }

  /// A scalar (or a list of one) as text; a number in decimal.
  std::string text(const std::string& name) {
    file_.read(name, value_);
    if (value_.strings.size() == 1) return cleaned(value_.strings.front());
    if (value_.numbers.size() == 1) return std::to_string(value_.numbers.front());
    if (value_.is_scalar && value_.is_text) return {};
    fail(fmt::format("{} must be one text, but has {} elements", name, value_.strings.size() + value_.numbers.size()));
  }

  void read_list(const std::string& name, std::vector<std::string>& to) {
    file_.read(name, value_);
    to.reserve(value_.strings.size() + value_.numbers.size());
    for (const std::string& raw : value_.strings) to.push_back(cleaned(raw));
    for (const std::int64_t number : value_.numbers) to.push_back(std::to_string(number));
  }

  void check_lengths(const Record& record) const {
    if (record.tags.empty() || record.tags.size() == record.words.size()) return;
    throw DataError(fmt::format("{}: {} words but {} tags; each word needs one tag", where(), record.words.size(),
                                record.tags.size()));
  }

  void read_span(const std::string& id, Record& record) {
    record.text = text("context_X/" + id);
    record.second = text("question_X/" + id);
    record.id = file_.has("question_ids/" + id) ? text("question_ids/" + id) : id;
    if (!file_.has("Y/" + id)) return;
    file_.read("Y/" + id, value_);
    if (value_.numbers.size() != 2) fail(fmt::format("Y/{} must be the two offsets of the answer", id));
    GoldAnswer answer{{}, value_.numbers[0], value_.numbers[1]};
    const auto points = static_cast<std::int64_t>(utf8::count(record.text));
    const bool inside = answer.begin >= 0 && answer.begin <= answer.end && answer.end <= points;
    if (file_.has("Y_answer/" + id)) {
      answer.text = text("Y_answer/" + id);
    } else if (inside) {
      answer.text =
          utf8::slice(record.text, static_cast<std::size_t>(answer.begin), static_cast<std::size_t>(answer.end));
    } else {
      throw DataError(fmt::format("{}: the answer [{}, {}) lies outside its context of {} characters", where(),
                                  answer.begin, answer.end, points));
    }
    if (answer.text.empty()) return;  // FedNLP's marker for a question without an answer
    aligner_.set_context(record.text);
    if (aligner_.align(answer, report_, where())) record.answers.push_back(std::move(answer));
  }

  H5File file_;
  AnswerAligner aligner_;
  Formulation formulation_ = Formulation::kTextClassification;
  std::vector<Split> splits_;
  std::vector<std::string> vocabulary_;
  std::vector<std::string> sources_;
  ReadReport report_;
  H5Value value_;
  std::string buffer_;
  std::uint64_t replaced_ = 0;
  std::size_t next_ = 0;
  bool chunked_ = false;
};

const FormatRegistration kRegistered{
    {"fednlp", "FedNLP's HDF5 data file (NAME_data.h5)",
     [](const FileHead& head) -> int { return head.text.starts_with("\x89HDF\r\n") ? kCertain : kNo; },
     [](const std::filesystem::path& path, const ReaderOptions& options) -> std::unique_ptr<RecordReader> {
       return std::make_unique<FednlpReader>(path, options);
     }}};

}  // namespace
}  // namespace chorus::inline hdf5
