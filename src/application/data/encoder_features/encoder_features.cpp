#include "application/data/encoder_features/encoder_features.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "application/models/pretrained.h"
#include "application/models/sentence_embedding.h"
#include "application/text/hugging_face.h"
#include "application/text/tokenizer.h"
#include "core/console/progress.h"

namespace chorus::inline encoder_features {
namespace {

constexpr std::int64_t kTokensABatch = 4096;

}  // namespace

struct EncoderFeatures::Loaded {
  Pretrained model;
  std::shared_ptr<const Tokenizer> tokenizer;
};

EncoderFeatures::EncoderFeatures(std::string folder, Texts texts)
    : folder_(std::move(folder)), texts_(std::move(texts)) {
  loaded_ = std::make_unique<Loaded>(Loaded{load_pretrained(folder_), load_tokenizer(folder_)});
  check_vocabulary(*loaded_->model.model, static_cast<std::int64_t>(loaded_->tokenizer->vocabulary_size()), folder_);
}

EncoderFeatures::~EncoderFeatures() = default;

std::string EncoderFeatures::name() const { return std::filesystem::path(folder_).filename().string(); }

FeatureMatrix EncoderFeatures::features() const {
  const Model& model = *loaded_->model.model;
  std::size_t longest = texts_.max_length;
  if (model.max_length() > 0) longest = std::min(longest, static_cast<std::size_t>(model.max_length()));

  // All ids in one arena, to avoid a vector per text.
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> begins{0};
  std::string scratch;
  for (std::size_t i = 0; i < texts_.count; ++i) {
    const Encoding encoding = loaded_->tokenizer->encode(texts_.text_at(i, scratch), {.max_length = longest});
    ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    if (encoding.ids.empty()) ids.push_back(0);
    begins.push_back(ids.size());
  }
  const auto length = [&](std::size_t i) { return begins[i + 1] - begins[i]; };
  std::vector<std::size_t> order(texts_.count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return length(a) > length(b); });

  FeatureMatrix matrix;
  matrix.rows = texts_.count;
  Progress progress({.label = "embed", .total = static_cast<std::int64_t>(texts_.count), .unit = "texts"});
  for (std::size_t begin = 0; begin < order.size();) {
    std::vector<TokenRow> rows;
    std::int64_t tokens = 0;
    std::size_t end = begin;
    for (; end < order.size() &&
           (end == begin || tokens + static_cast<std::int64_t>(length(order[end])) <= kTokensABatch);
         ++end) {
      const std::size_t i = order[end];
      rows.emplace_back(ids.begin() + static_cast<std::ptrdiff_t>(begins[i]),
                        ids.begin() + static_cast<std::ptrdiff_t>(begins[i + 1]));
      tokens += static_cast<std::int64_t>(length(i));
    }
    const SentenceEmbedding how{.steps = {{}}};  // the mean, of length 1
    const at::Tensor vectors = sentence_vectors(model, loaded_->model.params, rows, how).contiguous();
    if (matrix.values.empty()) {
      matrix.columns = static_cast<std::size_t>(vectors.size(1));
      matrix.values.resize(matrix.rows * matrix.columns);
    }
    for (std::size_t k = begin; k < end; ++k) {
      const float* from = vectors.data_ptr<float>() + (k - begin) * matrix.columns;
      std::copy(from, from + matrix.columns, matrix.row(order[k]).begin());
    }
    progress.advance(static_cast<std::int64_t>(end - begin));
    begin = end;
  }
  progress.finish();
  return matrix;
}

}  // namespace chorus::inline encoder_features
