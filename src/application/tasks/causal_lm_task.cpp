#include "application/tasks/causal_lm_task.h"

#include <fmt/format.h>

#include <numeric>

#include "application/models/loss.h"

namespace chorus::inline tasks {
namespace {

const Registration<Tasks, CausalLmConfig> kCausal{
    "causal_lm", "predict each token from those before it",
    [](const CausalLmConfig& config, const TaskInput& input) { return std::make_unique<CausalLmTask>(config, input); }};

}  // namespace

void CausalLmConfig::describe(ConfigVisitor& visitor) {
  visitor.field("max_length", max_length, "tokens of a text; the rest is cut (not with block_length)").at_least(2);
  visitor.field("add_bos", add_bos, "begin every text with the tokenizer's first token");
  visitor.field("add_eos", add_eos, "end every text with the tokenizer's end token");
  visitor
      .field("block_length", block_length, "join a client's texts and cut rows of so many tokens; 0: a row is a text")
      .at_least(0);
  visitor.check([this] { return block_length == 1 ? std::string("block_length must be 0 or at least 2") : ""; });
}

CausalLmTask::CausalLmTask(const CausalLmConfig& config, const TaskInput& input)
    : LanguageTask("causal_lm", input), config_(config) {}

std::string CausalLmTask::encoding_key() const {
  // Blocks are cut from whole texts, whatever their length.
  return fmt::format("max_length={} bos={} eos={}", blocks() ? 0 : config_.max_length, config_.add_bos,
                     config_.add_eos);
}

void CausalLmTask::encode(const Dataset& data, std::span<const std::uint32_t> examples, EncodedPart& out) const {
  const auto& special = tokenizer().special();
  const std::optional<std::int32_t> bos = special.bos ? special.bos : special.cls;
  const std::optional<std::int32_t> eos = special.eos ? special.eos : special.sep;
  const auto longest = static_cast<std::size_t>(config_.max_length);
  for (const std::uint32_t example : examples) {
    const std::size_t begin = out.ids.size();
    if (config_.add_bos && bos) out.ids.push_back(*bos);
    const std::size_t added = tokenizer().encode_ids(data.text(example), out.ids, false);
    if (config_.add_eos && eos) out.ids.push_back(*eos);
    if (added == 0) out.ids.resize(begin);
    if (!blocks() && out.ids.size() - begin > longest) {
      out.ids.resize(begin + longest);
      out.count(EncodeCount::kTruncated);
    }
    if (out.ids.size() > begin) out.end_row();
    out.end_example(example);
  }
}

ClientData CausalLmTask::client_data(std::shared_ptr<const EncodedDataset> encoded,
                                     std::span<const std::uint32_t> examples) const {
  if (!blocks()) return LanguageTask::client_data(std::move(encoded), examples);
  EncodedPart part;
  const auto length = static_cast<std::size_t>(config_.block_length);
  const auto close = [&] {
    part.end_row();
    part.end_example(static_cast<std::uint32_t>(part.examples.size()));
  };
  std::size_t begin = 0;
  for (const std::uint32_t row : encoded->rows_of(examples)) {
    for (const std::int32_t id : encoded->ids(row)) {
      part.ids.push_back(id);
      if (part.ids.size() - begin < length) continue;
      close();
      begin = part.ids.size();
    }
  }
  if (part.ids.size() > begin) close();
  ClientData result{std::make_shared<EncodedDataset>(std::move(part), limits()), {}};
  result.rows.resize(result.data->rows());
  std::iota(result.rows.begin(), result.rows.end(), 0U);
  return result;
}

TaskBatch CausalLmTask::collate(std::span<const ClientRows> cohort, const CollateOptions& options) const {
  TaskBatch batch = pack_rows(cohort, options.device, Read::kButLast);
  batch.labels = pack_tokens(batch, kIgnore, [](const EncodedDataset& data, std::uint32_t row) {
    static constexpr std::int32_t kNothing = kIgnore;  // label after a single token
    const std::span<const std::int32_t> ids = data.ids(row);
    return ids.size() > 1 ? ids.subspan(1) : std::span(&kNothing, 1);
  });
  batch.counted = count_labels(batch.labels);
  return batch;
}

}  // namespace chorus::inline tasks
