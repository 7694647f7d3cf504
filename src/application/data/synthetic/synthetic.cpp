#include "application/data/synthetic/synthetic.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <utility>

#include "application/data/synthetic/world.h"
#include "core/base/error.h"

namespace chorus::inline synthetic {
namespace {

constexpr std::uint64_t kMostExamples = 1'000'000'000;

/// A corpus that is read is kept; one that cannot fit would take all memory first.
void check_memory(const SyntheticConfig& config) {
  constexpr double kLeastBytes = 100;  // the shortest examples, with their names and offsets
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const auto count = config.examples + config.validation_examples + config.test_examples;
  const double needed = kLeastBytes * static_cast<double>(count);
  if (needed <= memory) return;
  throw ConfigError(fmt::format(
      "synthetic data: {} examples take at least {:.0f} GB, and this machine has {:.0f} GB of memory; make fewer",
      count, needed / 1e9, memory / 1e9));
}

void check_count(const char* field, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return;
  throw ConfigError(fmt::format("synthetic data: {} is {}, but must be {} to {}", field, value, least, most));
}

void check_share(const char* field, double value, double most) {
  if (value >= 0 && value <= most) return;  // NaN fails both
  throw ConfigError(fmt::format("synthetic data: {} is {}, but must be 0 to {}", field, value, most));
}

/// Allowed numbers of classes: minimum, maximum, and the value of 0.
struct LabelRange {
  std::uint64_t least, most, usual;
};

LabelRange label_range(Formulation formulation) {
  switch (formulation) {
    case Formulation::kTextClassification:
      return {2, synthetic::topics().size(), 20};
    case Formulation::kPairClassification:
      return {2, 3, 3};
    case Formulation::kSequenceTagging:
      return {1, 5, 5};
    default:
      return {0, 0, 0};
  }
}

std::uint64_t kinds_of(const SyntheticConfig& config) {
  switch (config.formulation) {
    case Formulation::kTextClassification:
    case Formulation::kPairClassification:
      return config.labels;
    case Formulation::kSequenceTagging:
      return 5;
    case Formulation::kSpanExtraction:
      return synthetic::question_kinds();
    case Formulation::kSeq2Seq:
      return synthetic::headline_kinds();
    default:
      return 1;
  }
}

SyntheticConfig resolved(SyntheticConfig config) {
  validate(config);
  if (config.labels == 0) config.labels = label_range(config.formulation).usual;
  return config;
}

std::vector<std::string> label_names(const SyntheticConfig& config) {
  std::vector<std::string> found;
  for (std::uint64_t label = 0; label < config.labels; ++label) {
    if (config.formulation == Formulation::kTextClassification) found.emplace_back(synthetic::topics()[label].name);
    if (config.formulation == Formulation::kPairClassification) {
      found.emplace_back(synthetic::pair_label(label, config.labels));
    }
  }
  return found;
}

}  // namespace

void validate(const SyntheticConfig& config) {
  const LabelRange range = label_range(config.formulation);
  if (config.labels != 0 && range.most == 0) {
    throw ConfigError(fmt::format("synthetic data: labels is {}, but {} has no labels; leave it out", config.labels,
                                  name_of(config.formulation)));
  }
  if (config.labels != 0) check_count("labels", config.labels, range.least, range.most);
  check_count("examples", config.examples, 0, kMostExamples);
  check_count("validation_examples", config.validation_examples, 0, kMostExamples);
  check_count("test_examples", config.test_examples, 0, kMostExamples);
  check_count("clients", config.clients, 1, 10'000'000);
  check_count("sources", config.sources, 1, synthetic::sources().size());
  check_share("activity", config.activity, 4);
  check_share("skew", config.skew, 1);
  check_share("overlap", config.overlap, 0.95);
  check_share("label_noise", config.label_noise, 0.5);
  check_share("typos", config.typos, 1);
  check_share("drift", config.drift, 1);
}

struct SyntheticCorpus::State {
  explicit State(const SyntheticConfig& config)
      : world(resolved(config), kinds_of(resolved(config))), labels(label_names(world.config())) {}
  synthetic::World world;
  std::vector<std::string> labels;
};

SyntheticCorpus::SyntheticCorpus(const SyntheticConfig& config) : state_(std::make_unique<const State>(config)) {}
SyntheticCorpus::~SyntheticCorpus() = default;
SyntheticCorpus::SyntheticCorpus(SyntheticCorpus&&) noexcept = default;
SyntheticCorpus& SyntheticCorpus::operator=(SyntheticCorpus&&) noexcept = default;

std::uint64_t SyntheticCorpus::size(Split split) const {
  const SyntheticConfig& config = state_->world.config();
  if (split == Split::kTrain) return config.examples;
  return split == Split::kTest ? config.test_examples : config.validation_examples;
}

const std::vector<std::string>& SyntheticCorpus::labels() const { return state_->labels; }

void SyntheticCorpus::make(Split split, std::uint64_t index, Record& record) const {
  const synthetic::World& world = state_->world;
  record.clear();
  record.split = split;
  fmt::format_to(std::back_inserter(record.id), "{}-{}", name_of(split), index);
  RandomStream stream({.seed = world.config().seed,
                       .purpose = "synthetic example",
                       .round = static_cast<std::uint64_t>(world.config().formulation),
                       .client = static_cast<std::uint64_t>(split),
                       .step = index});
  switch (world.config().formulation) {
    case Formulation::kTextClassification:
      return synthetic::make_classification(world, stream, record);
    case Formulation::kPairClassification:
      return synthetic::make_pair(world, stream, record);
    case Formulation::kPairRegression:
      return synthetic::make_similarity(world, stream, record);
    case Formulation::kSequenceTagging:
      return synthetic::make_tagging(world, stream, record);
    case Formulation::kSpanExtraction:
      return synthetic::make_question(world, stream, record);
    case Formulation::kSeq2Seq:
      return synthetic::make_headline(world, stream, record);
    case Formulation::kLanguageModel:
      return synthetic::make_message(world, stream, record);
  }
  throw InternalError("unknown formulation");
}

namespace {

class SyntheticReader final : public RecordReader {
 public:
  explicit SyntheticReader(const SyntheticConfig& config) : corpus_(config), formulation_(config.formulation) {}

  bool next(Record& record) override {
    for (; split_ < kSplits; ++split_, next_ = 0) {
      const auto split = static_cast<Split>(split_);
      if (next_ >= corpus_.size(split)) continue;
      corpus_.make(split, next_++, record);
      ++report_.records;
      return true;
    }
    return false;
  }
  std::span<const std::string> label_vocabulary() const override { return corpus_.labels(); }
  std::optional<Formulation> formulation() const override { return formulation_; }
  ReadReport report() const override { return report_; }

 private:
  SyntheticCorpus corpus_;
  Formulation formulation_;
  std::size_t split_ = 0;
  std::uint64_t next_ = 0;
  ReadReport report_;
};

}  // namespace

std::unique_ptr<RecordReader> synthetic_corpus(const SyntheticConfig& config) {
  check_memory(config);
  return std::make_unique<SyntheticReader>(config);
}

}  // namespace chorus::inline synthetic
