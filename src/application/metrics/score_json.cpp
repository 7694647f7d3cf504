#include "application/metrics/score_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/console/terminal.h"

namespace chorus::inline metrics {
namespace {

using nlohmann::json;

std::string as_text(const json& value, const std::string& place, const char* key) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_integer() || value.is_boolean()) return value.dump();
  throw DataError(fmt::format("{}: \"{}\" is neither a string nor an integer", place, key));
}

double as_number(const json& value, const std::string& place, const char* key) {
  if (!value.is_number()) throw DataError(fmt::format("{}: \"{}\" is not a number", place, key));
  return value.get<double>();
}

// A text, a list of texts, a list of {"text": ...} (SQuAD), or {"text": [...]} (Hugging Face's SQuAD).
std::vector<std::string> as_texts(const json& value, const std::string& place, const char* key) {
  if (value.is_string()) return {value.get<std::string>()};
  const json* list = &value;
  if (value.is_object() && value.contains("text")) list = &value.at("text");
  if (!list->is_array()) throw DataError(fmt::format("{}: \"{}\" is neither a text nor a list of texts", place, key));
  std::vector<std::string> texts;
  for (const json& entry : *list) {
    const json& text = entry.is_object() && entry.contains("text") ? entry.at("text") : entry;
    texts.push_back(as_text(text, place, key));
  }
  return texts;
}

// The keys of an item's content; the first one present counts.
std::vector<const char*> content_keys(const ScoreFile& file) {
  const bool predicted = file.side == ScoreSide::kPredictions;
  switch (file.task) {
    case ScoreTask::kClassification:
      return predicted ? std::vector{"prediction", "label"} : std::vector{"label"};
    case ScoreTask::kRegression:
      return predicted ? std::vector{"prediction", "score", "label"} : std::vector{"score", "label"};
    case ScoreTask::kTagging:
      return predicted ? std::vector{"prediction", "tags"} : std::vector{"tags"};
    case ScoreTask::kQuestionAnswering:
      return predicted ? std::vector{"prediction", "answer", "prediction_text"} : std::vector{"answers", "answer"};
    case ScoreTask::kGeneration:
      return predicted ? std::vector{"prediction", "text"}
                       : std::vector{"references", "target", "summary", "title", "text"};
    case ScoreTask::kLanguageModel:
      return {"loss"};
  }
  return {};
}

void fill_content(const json& value, const char* key, const ScoreFile& file, ScoreItem& item) {
  const bool predicted = file.side == ScoreSide::kPredictions;
  switch (file.task) {
    case ScoreTask::kClassification:
      item.text = as_text(value, item.place, key);
      break;
    case ScoreTask::kRegression:
    case ScoreTask::kLanguageModel:
      item.number = as_number(value, item.place, key);
      break;
    case ScoreTask::kTagging:
      if (!value.is_array()) throw DataError(fmt::format("{}: \"{}\" is not a list of tags", item.place, key));
      item.texts = as_texts(value, item.place, key);
      for (const std::string& tag : item.texts) {
        try {
          check_tag(tag, file.scheme);
        } catch (const DataError& error) {
          throw DataError(fmt::format("{}: {}", item.place, error.what()));
        }
      }
      break;
    case ScoreTask::kQuestionAnswering:
    case ScoreTask::kGeneration:
      if (predicted) {
        item.text = as_text(value, item.place, key);
        break;
      }
      item.texts = as_texts(value, item.place, key);
      if (file.task == ScoreTask::kGeneration && item.texts.empty())
        throw DataError(fmt::format("{}: \"{}\" is empty; expected a reference", item.place, key));
  }
}

class JsonLinesReader : public ScoreReader {
 public:
  JsonLinesReader(std::unique_ptr<ScoreLines> lines, const ScoreFile& file)
      : lines_(std::move(lines)), file_(file), keys_(content_keys(file)) {}

  bool next(ScoreItem& item) override {
    item = {};
    std::string line;
    do {
      if (!lines_->next(line)) return false;
    } while (line.find_first_not_of(" \t") == line.npos);
    item.place = lines_->place();
    const json object = json::parse(line, nullptr, false);
    if (!object.is_object())
      throw DataError(
          fmt::format("{}: the line is not a JSON object ({})", item.place, shortened(printable(line), 40)));
    optional_text(object, "id", item.id, item.place);
    optional_text(object, "client", item.client, item.place);
    optional_text(object, "source", item.group, item.place);
    optional_text(object, "group", item.group, item.place);
    if (object.contains("tokens") && file_.task == ScoreTask::kLanguageModel)
      item.tokens = checked_token_count(as_number(object.at("tokens"), item.place, "tokens"), item.place);
    for (const char* key : keys_) {
      if (!object.contains(key)) continue;
      fill_content(object.at(key), key, file_, item);
      return true;
    }
    throw DataError(fmt::format("{}: the object has no \"{}\"", item.place, fmt::join(keys_, "\" or \"")));
  }

 private:
  static void optional_text(const json& object, const char* key, std::string& out, const std::string& place) {
    // A "source" that is a list is the text to summarize, not a group.
    if (const auto found = object.find(key); found != object.end() && !found->is_null() && !found->is_array())
      out = as_text(*found, place, key);
  }

  std::unique_ptr<ScoreLines> lines_;
  ScoreFile file_;
  std::vector<const char*> keys_;
};

// A file that is one JSON value: SQuAD references, or an object from id to answer.
class WholeJsonReader : public ScoreReader {
 public:
  WholeJsonReader(ScoreLines& lines, const ScoreFile& file) {
    const json root = parse(lines);
    if (file.side == ScoreSide::kPredictions) {
      read_predictions(root, file.path);
    } else {
      read_squad(root, file.path);
    }
  }

  bool next(ScoreItem& item) override {
    if (at_ == items_.size()) return false;
    item = std::move(items_[at_++]);
    return true;
  }

 private:
  static json parse(ScoreLines& lines) {
    std::string text;
    for (std::string line; lines.next(line); text.push_back('\n')) text += line;
    try {
      return json::parse(text);
    } catch (const json::parse_error& error) {
      const auto before = std::string_view(text).substr(0, std::min(error.byte, text.size()));
      const auto line = std::min<std::size_t>(
          lines.number(), 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')));
      throw DataError(fmt::format("{}:{}: not valid JSON", lines.path(), line));
    } catch (const json::out_of_range&) {
      throw DataError(fmt::format("{}: has a number that is too large", lines.path()));
    }
  }

  void read_predictions(const json& root, const std::string& path) {
    if (!root.is_object()) throw DataError(fmt::format("{}: expected an object from question id to answer text", path));
    for (const auto& [id, answer] : root.items()) {
      ScoreItem item;
      item.id = id;
      item.place = fmt::format("{}: question '{}'", path, id);
      item.text = as_text(answer, item.place, id.c_str());
      items_.push_back(std::move(item));
    }
  }

  void read_squad(const json& root, const std::string& path) {
    if (!root.is_object() || !root.contains("data") || !root.at("data").is_array())
      throw DataError(fmt::format("{}: not SQuAD JSON: expected a list \"data\"", path));
    const auto list = [&](const json& object, const char* key) -> const json& {
      if (!object.is_object() || !object.contains(key) || !object.at(key).is_array())
        throw DataError(fmt::format("{}: not SQuAD JSON: an entry has no list \"{}\"", path, key));
      return object.at(key);
    };
    for (const json& article : root.at("data"))
      for (const json& paragraph : list(article, "paragraphs"))
        for (const json& question : list(paragraph, "qas")) {
          if (!question.is_object() || !question.contains("id"))
            throw DataError(fmt::format("{}: question {} has no \"id\"", path, items_.size() + 1));
          ScoreItem item;
          item.id = as_text(question.at("id"), path, "id");
          item.place = fmt::format("{}: question '{}'", path, item.id);
          if (article.contains("title") && article.at("title").is_string()) item.group = article.at("title");
          item.texts = as_texts(list(question, "answers"), item.place, "answers");
          items_.push_back(std::move(item));
        }
  }

  std::vector<ScoreItem> items_;
  std::size_t at_ = 0;
};

}  // namespace

double checked_token_count(double tokens, const std::string& place) {
  if (tokens < 0 || tokens != std::floor(tokens))
    throw DataError(fmt::format("{}: {} is not a valid number of tokens", place, tokens));
  return tokens;
}

std::unique_ptr<ScoreReader> json_lines_reader(std::unique_ptr<ScoreLines> lines, const ScoreFile& file) {
  return std::make_unique<JsonLinesReader>(std::move(lines), file);
}

std::unique_ptr<ScoreReader> whole_json_reader(ScoreLines& lines, const ScoreFile& file) {
  return std::make_unique<WholeJsonReader>(lines, file);
}

}  // namespace chorus::inline metrics
