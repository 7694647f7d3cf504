#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chorus::inline partition {

/// A categorical column: `ids[i]` of example i indexes `names`, or is kNoValue.
struct Factor {
  static constexpr std::int32_t kNoValue = -1;

  std::span<const std::int32_t> ids;
  std::span<const std::string> names;
  std::string_view what = "label";  ///< one value, for people

  bool empty() const { return ids.empty(); }
};

/// The text of example i. A source that must assemble it (words of a tagged sentence) does so in `scratch`.
using TextAt = std::function<std::string_view(std::size_t example, std::string& scratch)>;

/// One row of floats per example, row-major.
struct FeatureMatrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  std::span<const float> row(std::size_t i) const { return std::span(values).subspan(i * columns, columns); }
  std::span<float> row(std::size_t i) { return std::span(values).subspan(i * columns, columns); }
};

/// Source of feature vectors: TF-IDF with a truncated SVD (text_features.h), or the sentence embeddings of an encoder.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  /// One row per example, in id order.
  virtual FeatureMatrix features() const = 0;
  /// A name for the partition's metadata, such as "tfidf_svd".
  virtual std::string name() const = 0;
};

/// What a partitioner sees of the data: ids and columns, not the storage. An example's id is its index, 0 ..
/// examples-1; `train` and `test` list the ids to deal out, ascending. A column is empty or has one entry per example.
/// Everything is borrowed and must outlive the call.
///
///     Population population{.examples = 18846, .train = train_ids, .test = test_ids, .labels = {label_ids, names}};
struct Population {
  std::size_t examples = 0;
  std::span<const std::uint32_t> train;
  std::span<const std::uint32_t> test;
  Factor labels;
  Factor clients;
  Factor sources;
  std::span<const std::int64_t> times;
  const FeatureSource* features = nullptr;
};

/// DataError when a column has the wrong length or a value outside its names, a split names an unknown example, or
/// there are 2^32 examples or more.
void check_population(const Population& population);

/// The factor "label", "client" or "source". ConfigError for another name, DataError when the data lacks it or an
/// example has no value.
const Factor& factor_named(const Population& population, const std::string& name);

}  // namespace chorus::inline partition
