#include "application/parity/parity.h"

#include <fmt/format.h>

#include "application/models/batch.h"
#include "application/models/generation.h"
#include "application/models/loss.h"
#include "application/models/pretrained.h"
#include "application/optim/adamw.h"
#include "core/base/error.h"
#include "core/files/safetensors.h"

namespace chorus::inline parity {
namespace {

// The tensors of expected.safetensors, by name.
class Expected {
 public:
  explicit Expected(const std::filesystem::path& file) : file_(SafetensorsFile::open(file)) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor get(const std::string& name) const {
    const TensorEntry* entry = file_.find(name);
    if (entry == nullptr) throw DataError(fmt::format("{}: the tensor {} is missing", file_.path().string(), name));
    return file_.read(*entry);
  }
  /// A [N, L] table of ids, checked against the vocabulary.
  at::Tensor ids(const std::string& name, std::int64_t vocabulary) const {
    const at::Tensor table = get(name);
    const bool fits = table.dim() == 2 && table.scalar_type() == at::kLong && table.numel() > 0 &&
                      table.min().item<std::int64_t>() >= 0 && table.max().item<std::int64_t>() < vocabulary;
    if (!fits) throw DataError(fmt::format("{}: {} is not a table of token ids", file_.path().string(), name));
    return table;
  }
  std::vector<std::string> starting_with(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const TensorEntry& entry : file_.entries()) {
      if (entry.name.starts_with(prefix)) names.push_back(entry.name);
    }
    return names;
  }

 private:
  SafetensorsFile file_;
};

// Rows [N][length] of a table [N, L]; with a mask, only where it is 1.
CohortRows rows_of(const at::Tensor& table, const at::Tensor& mask) {
  CohortRows rows(1);
  for (std::int64_t n = 0; n < table.size(0); ++n) {
    TokenRow row;
    for (std::int64_t i = 0; i < table.size(1); ++i) {
      if (!mask.defined() || mask[n][i].item<std::int64_t>() != 0) row.push_back(table[n][i].item<std::int64_t>());
    }
    rows[0].push_back(std::move(row));
  }
  return rows;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

class Comparison {
 public:
  Comparison(const std::filesystem::path& folder, at::Device device)
      : loaded_(load_pretrained(folder, {.gradients = true, .device = device})),
        expected_(folder / "expected.safetensors"),
        device_(device) {
    const Model& model = *loaded_.model;
    ids_ = expected_.ids("input.input_ids", model.vocabulary());
    if (expected_.has("input.attention_mask")) mask_ = expected_.get("input.attention_mask");
    if (expected_.has("input.token_type_ids")) types_ = expected_.get("input.token_type_ids");
    if (mask_.defined() && mask_.sizes() != ids_.sizes()) throw DataError("the mask has another shape than the ids");
    padded_ = batch(false);
    if (model.head() == Head::kSeq2Seq) add_target();
  }

  void run(ParityReport& report) {
    Params& params = loaded_.params;
    Dropout off;
    const at::Tensor logits = loaded_.model->forward(params, padded_, off).logits;
    report.logits = compare_logits(logits);
    report.packed = compare_packed();
    if (expected_.starting_with("label.").empty()) return;
    const at::Tensor total = loss(logits);
    if (expected_.has("loss")) report.loss = std::abs(total.item<double>() - expected_.get("loss").item<double>());
    params.writes().zero();
    total.backward();
    compare_gradients(report);
    compare_generation(report);
    if (expected_.has("adamw_losses")) report.adamw = compare_training();
  }

 private:
  // As Hugging Face reads it, padded with a mask; or as Chorus does, real tokens only.
  Batch batch(bool packed) const {
    const at::Tensor keep = packed ? mask_ : at::Tensor();
    Batch result = collate(rows_of(ids_, keep), types_.defined() ? rows_of(types_, keep) : CohortRows{}, device_);
    if (!packed && mask_.defined()) {
      result.packing = std::make_shared<Packing>(result.packing->with_visible(mask_.ne(0).view({1, -1}).to(device_)));
    }
    return result;
  }

  // The decoder input is the labels shifted right by the start token, with padding for ignored labels.
  void add_target() {
    const at::Tensor labels = expected_.get("label.labels");
    const ModelConfig& config = loaded_.model->config();
    at::Tensor shifted = torch::full_like(labels, *config.token("decoder_start_token_id"));
    shifted.narrow(1, 1, labels.size(1) - 1).copy_(labels.narrow(1, 0, labels.size(1) - 1));
    collate_target(padded_, rows_of(shifted.masked_fill(shifted.eq(kIgnore), config.token("pad_token_id").value_or(0)),
                                    at::Tensor()));
  }

  at::Tensor expected_logits() const {
    if (!expected_.has("start_logits")) return expected_.get("logits");
    return torch::stack({expected_.get("start_logits"), expected_.get("end_logits")}, -1);
  }

  double compare_logits(const at::Tensor& logits) const {
    const at::Tensor wanted = expected_logits();
    return largest_difference(logits.detach().cpu().reshape(wanted.sizes()), wanted);
  }

  std::optional<double> compare_packed() const {
    if (loaded_.model->head() == Head::kSeq2Seq) return std::nullopt;  // the target determines its shape
    const at::NoGradGuard no_grad;
    Dropout off;
    const Batch packed = batch(true);
    const at::Tensor logits = loaded_.model->forward(loaded_.params, packed, off).logits.cpu();
    at::Tensor wanted = expected_logits();
    if (!loaded_.model->head()->per_sequence && mask_.defined()) {
      wanted = wanted.flatten(0, 1).index_select(0, mask_.flatten().nonzero().squeeze(1));
    }
    if (loaded_.model->head()->per_sequence) {
      return largest_difference(logits.reshape(wanted.sizes()), wanted);
    }
    // A GPU's packing may end in unused rows.
    const at::Tensor rows = wanted.reshape({-1, wanted.size(-1)});
    return largest_difference(logits.reshape({-1, wanted.size(-1)}).narrow(0, 0, rows.size(0)), rows);
  }

  at::Tensor loss(const at::Tensor& logits) const {
    const auto label = [&](const char* name) { return expected_.get(name).to(device_); };
    if (expected_.has("label.start_positions")) {
      return span_loss(logits, label("label.start_positions").view({1, -1}), label("label.end_positions").view({1, -1}),
                       *padded_.packing)
          .sum();
    }
    const Head head = loaded_.model->head();
    const at::Tensor labels = label("label.labels").reshape({1, -1});
    if (head->per_sequence && logits.size(-1) == 1) {
      return squared_error(logits, labels, padded_.packing->sequence_valid()).sum();
    }
    // Hugging Face shifts the labels of a causal language model itself.
    return cross_entropy(logits, head == Head::kCausalLm ? next_token(labels, *padded_.packing) : labels).sum();
  }

  void compare_gradients(ParityReport& report) const {
    const Layout& layout = loaded_.model->layout();
    const std::vector<std::string> entries = expected_.starting_with("grad.");
    double largest = 0;
    for (const std::string& entry : entries) largest = std::max(largest, expected_.get(entry).norm().item<double>());
    for (const std::string& entry : entries) {
      const std::string name = entry.substr(5);
      const auto id = layout.find(name);
      if (!id) throw DataError(fmt::format("expected.safetensors has a gradient for {}, which no parameter has", name));
      const at::Tensor wanted = expected_.get(entry);
      const at::Tensor got = loaded_.params.gradient(*id).cpu();
      if (got.sizes() != wanted.sizes()) throw DataError(fmt::format("{} has a gradient of another shape", name));
      // Gradients that are zero in exact arithmetic (a key's bias) are rounding noise, so they are scaled by the
      // model's norm.
      const double own = wanted.norm().item<double>();
      const double error = (got - wanted).norm().item<double>() / (own < 1e-6 * largest ? largest : own);
      if (!report.gradients || error > *report.gradients) {
        report.gradients = error;
        report.worst_gradient = name;
      }
    }
  }

  double compare_training() {
    const at::Tensor wanted = expected_.get("adamw_losses");
    AdamW optimizer({}, {.layout = std::make_shared<Layout>(loaded_.model->layout()),
                         .device = loaded_.params.device(),
                         .weight_decay = 0.01,
                         .decay_matrices_only = false});
    const std::vector<double> rates{1e-3};
    double worst = 0;
    Dropout off;
    for (std::int64_t step = 0; step < wanted.size(0); ++step) {
      loaded_.params.writes().zero();
      const at::Tensor total = loss(loaded_.model->forward(loaded_.params, padded_, off).logits);
      worst = std::max(worst, std::abs(total.item<double>() - wanted[step].item<double>()));
      total.backward();
      optimizer.step(loaded_.params.values(), loaded_.params.grads(), rates);
    }
    return worst;
  }

  void compare_generation(ParityReport& report) const {
    const auto* model = dynamic_cast<const GenerativeModel*>(loaded_.model.get());
    const std::vector<std::string> names = expected_.starting_with("generate.");
    if (model == nullptr || names.empty()) return;
    GenerationOptions options = GenerationOptions::of(loaded_.generation);
    std::int64_t longest = 0;
    for (const std::string& name : names) longest = std::max(longest, expected_.get(name).size(1));
    options.max_new_tokens = longest - (model->has_encoder() ? 1 : ids_.size(1));
    const std::int64_t pad = options.pad.value_or(options.eos.value_or(0));
    report.generated = true;
    for (const std::string& name : names) {
      const at::Tensor wanted = expected_.get(name);
      const bool beam = name.starts_with("generate.beam");
      options.beams = beam ? std::stoll(name.substr(13)) : 1;
      options.early_stopping = beam ? GenerationOptions::EarlyStopping::kYes : GenerationOptions::EarlyStopping::kNo;
      auto texts = generate(*model, loaded_.params, batch(true), options);
      for (std::int64_t n = 0; n < wanted.size(0); ++n) {
        auto& text = texts[static_cast<std::size_t>(n)];
        text.resize(static_cast<std::size_t>(wanted.size(1)), pad);
        const bool same = torch::equal(torch::tensor(text, at::kLong), wanted[n]);
        if (!same) report.misses.push_back(fmt::format("{} of text {} differs", name, n));
        report.generated = *report.generated && same;
      }
    }
  }

  Pretrained loaded_;
  Expected expected_;
  at::Device device_;
  at::Tensor ids_, mask_, types_;
  Batch padded_;
};

}  // namespace

ParityReport check_parity(const std::filesystem::path& folder, const ParityTolerance& tolerance, at::Device device) {
  ParityReport report;
  report.folder = folder.string();
  Comparison(folder, device).run(report);
  const auto judge = [&](const char* what, const std::optional<double>& error, double limit) {
    if (error && !(*error <= limit))
      report.misses.push_back(fmt::format("{} off by {:.1e} (limit {:.0e})", what, *error, limit));
  };
  judge("logits", report.logits, tolerance.logits);
  judge("packed logits", report.packed, tolerance.logits);
  judge("loss", report.loss, tolerance.loss);
  judge(fmt::format("gradient of {}", report.worst_gradient).c_str(), report.gradients, tolerance.gradients);
  judge("AdamW losses", report.adamw, tolerance.adamw);
  return report;
}

}  // namespace chorus::inline parity
