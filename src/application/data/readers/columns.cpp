#include "application/data/readers/columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>

#include "core/base/error.h"

namespace chorus::inline readers {
namespace {

using Names = std::span<const std::string_view>;

constexpr std::string_view kId[] = {"id",  "guid",        "idx",      "index",     "uid",
                                    "qid", "question_id", "paper_id", "example_id"};
constexpr std::string_view kText[] = {"text",    "sentence", "sentence1", "premise", "question1", "#1 string", "first",
                                      "content", "body",     "review",    "tweet",   "utterance", "message"};
constexpr std::string_view kContext[] = {"context", "passage", "paragraph", "text"};
constexpr std::string_view kQuestion[] = {"question", "query", "second"};
constexpr std::string_view kPairSecond[] = {"second", "sentence2", "hypothesis", "question2", "#2 string", "text2"};
constexpr std::string_view kSourceText[] = {"text", "source", "document", "article",
                                            "src",  "input",  "dialogue", "body"};
constexpr std::string_view kTarget[] = {"target", "summary", "title",  "headline", "highlights",
                                        "tldr",   "tgt",     "output", "second"};
constexpr std::string_view kLabel[] = {"label",  "labels",    "class",        "category", "intent",  "gold_label",
                                       "target", "sentiment", "is_duplicate", "quality",  "relation"};
constexpr std::string_view kScore[] = {"score", "similarity"};
constexpr std::string_view kWords[] = {"words", "tokens"};
constexpr std::string_view kTags[] = {"tags", "ner_tags", "bio", "slots"};
constexpr std::string_view kAnswers[] = {"answers", "answer"};
constexpr std::string_view kClient[] = {"client", "client_id", "user", "user_id", "author", "speaker", "username"};
constexpr std::string_view kSource[] = {"source", "domain", "dataset", "language", "lang", "genre", "subreddit"};
constexpr std::string_view kTime[] = {"time", "timestamp", "date", "created_at", "created_utc"};

constexpr std::array<const char*, kRoles> kRoleNames = {"id",   "text",    "second", "label",  "score", "words",
                                                        "tags", "answers", "client", "source", "time"};

bool same(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

class Finder {
 public:
  Finder(const ReaderOptions& options, const std::vector<std::string>& available, const std::string& where)
      : options_(options), available_(available), where_(where) {
    const ColumnNames& names = options.columns;
    const std::array<const std::string*, kRoles> configured = {
        &names.id,   &names.text,    &names.second, &names.label,  &names.score, &names.words,
        &names.tags, &names.answers, &names.client, &names.source, &names.time};
    for (std::size_t role = 0; role < kRoles; ++role) configure(static_cast<Role>(role), *configured[role]);
  }

  ColumnRoles find() {
    roles_.formulation = options_.formulation ? *options_.formulation : guess();
    switch (roles_.formulation) {
      case Formulation::kSequenceTagging:
        need(Role::kWords, kWords);
        usual(Role::kTags, kTags);
        usual(Role::kLabel, kLabel);
        break;
      case Formulation::kSpanExtraction:
        need(Role::kText, kContext);
        need(Role::kSecond, kQuestion);
        usual(Role::kAnswers, kAnswers);
        break;
      case Formulation::kPairRegression:
        need(Role::kText, kText);
        need(Role::kSecond, kPairSecond);
        usual(Role::kScore, kScore);
        if (!roles_.has(Role::kScore)) usual(Role::kScore, kLabel);
        break;
      case Formulation::kPairClassification:
        need(Role::kText, kText);
        need(Role::kSecond, kPairSecond);
        usual(Role::kLabel, kLabel);
        break;
      case Formulation::kTextClassification:
        need(Role::kText, kText);
        usual(Role::kLabel, kLabel);
        break;
      case Formulation::kSeq2Seq:
        need(Role::kText, kSourceText);
        need(Role::kSecond, kTarget);
        break;
      case Formulation::kLanguageModel:
        need(Role::kText, kText);
        break;
    }
    usual(Role::kId, kId);
    usual(Role::kClient, kClient);
    usual(Role::kSource, kSource);
    usual(Role::kTime, kTime);
    return std::move(roles_);
  }

 private:
  std::vector<std::string>& at(Role role) { return roles_.names[static_cast<std::size_t>(role)]; }

  const std::string* find_one(std::string_view name) const {
    for (const std::string& candidate : available_) {
      if (candidate == name) return &candidate;
    }
    for (const std::string& candidate : available_) {
      if (same(candidate, name)) return &candidate;
    }
    return nullptr;
  }

  bool taken(const std::string& name) const {
    return std::any_of(roles_.names.begin(), roles_.names.end(),
                       [&](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); });
  }

  void configure(Role role, const std::string& names) {
    if (names == "none") off_[static_cast<std::size_t>(role)] = true;
    if (names.empty() || names == "none") return;
    // A column name may contain a '+'; the whole name wins.
    if (const std::string* whole = find_one(names)) {
      at(role).push_back(*whole);
      return;
    }
    for (std::size_t begin = 0; begin <= names.size();) {
      const std::size_t end = std::min(names.find('+', begin), names.size());
      const std::string name = names.substr(begin, end - begin);
      if (name.starts_with('/')) {
        at(role).push_back(name);
      } else if (const std::string* found = find_one(name)) {
        at(role).push_back(*found);
      } else {
        throw DataError(fmt::format("{}: unknown column '{}' (for {}); the columns are {}", where_, name,
                                    kRoleNames[static_cast<std::size_t>(role)], fmt::join(available_, ", ")));
      }
      begin = end + 1;
    }
  }

  const std::string* first(Role role, Names usual_names) const {
    if (off_[static_cast<std::size_t>(role)]) return nullptr;
    for (const std::string_view name : usual_names) {
      const std::string* found = find_one(name);
      if (found != nullptr && !taken(*found)) return found;
    }
    return nullptr;
  }

  bool could(Role role, Names usual_names) const { return roles_.has(role) || first(role, usual_names) != nullptr; }

  void usual(Role role, Names usual_names) {
    if (roles_.has(role)) return;
    if (const std::string* found = first(role, usual_names)) at(role).push_back(*found);
  }

  void need(Role role, Names usual_names) {
    usual(role, usual_names);
    if (roles_.has(role)) return;
    throw DataError(fmt::format("{}: no column looks like the {} of {}; the columns are {}; set columns.{}=NAME",
                                where_, kRoleNames[static_cast<std::size_t>(role)], name_of(roles_.formulation),
                                fmt::join(available_, ", "), kRoleNames[static_cast<std::size_t>(role)]));
  }

  Formulation guess() const {
    if (could(Role::kWords, kWords) && could(Role::kTags, kTags)) return Formulation::kSequenceTagging;
    if (could(Role::kAnswers, kAnswers) && could(Role::kText, kContext) && could(Role::kSecond, kQuestion)) {
      return Formulation::kSpanExtraction;
    }
    const bool text = could(Role::kText, kText);
    const bool pair = text && could(Role::kSecond, kPairSecond);
    // "target" is a label only when nothing else indicates a text.
    const bool generates = !roles_.has(Role::kLabel) && find_one("label") == nullptr &&
                           could(Role::kText, kSourceText) && could(Role::kSecond, kTarget);
    if (pair && could(Role::kScore, kScore)) return Formulation::kPairRegression;
    if (pair && could(Role::kLabel, kLabel)) return Formulation::kPairClassification;
    if (generates && !pair) return Formulation::kSeq2Seq;
    if (text && could(Role::kLabel, kLabel)) return Formulation::kTextClassification;
    if (pair) return Formulation::kPairClassification;
    return Formulation::kLanguageModel;
  }

  const ReaderOptions& options_;
  const std::vector<std::string>& available_;
  const std::string& where_;
  ColumnRoles roles_;
  std::array<bool, kRoles> off_{};
};

}  // namespace

ColumnRoles find_roles(const ReaderOptions& options, const std::vector<std::string>& available,
                       const std::string& where) {
  return Finder(options, available, where).find();
}

bool is_usual_name(const std::string& name) {
  for (const Names names : {Names(kId), Names(kText), Names(kContext), Names(kQuestion), Names(kPairSecond),
                            Names(kSourceText), Names(kTarget), Names(kLabel), Names(kScore), Names(kWords),
                            Names(kTags), Names(kAnswers), Names(kClient), Names(kSource), Names(kTime)}) {
    if (std::any_of(names.begin(), names.end(), [&](std::string_view usual) { return same(usual, name); })) return true;
  }
  return false;
}

}  // namespace chorus::inline readers
