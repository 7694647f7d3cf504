#include "application/models/generation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace chorus::inline models {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr float kNever = -1.0e9f;  // the score that Hugging Face gives to fillers

// The ids before the first generated token: the prompt, or the decoder's start token.
std::vector<Ids> prefixes(const GenerativeModel& model, const Batch& batch) {
  std::vector<Ids> result;
  const Ids& lengths = batch.packing->lengths()[0];
  if (model.has_encoder()) {
    return std::vector<Ids>(lengths.size(), Ids{*model.config().token("decoder_start_token_id")});
  }
  const at::Tensor ids = batch.ids.squeeze(0).cpu().contiguous();
  const auto* next = ids.data_ptr<std::int64_t>();
  for (const std::int64_t length : lengths) {
    result.emplace_back(next, next + length);
    next += length;
  }
  return result;
}

// Forbids and forces tokens in scores [rows, V]; histories[r] are the ids of row r so far.
class Rules {
 public:
  Rules(const GenerationOptions& options, bool has_encoder) : options_(options), has_encoder_(has_encoder) {}

  void apply(at::Tensor& scores, const std::vector<Ids>& histories, std::int64_t generated) const {
    constexpr double kMinus = -std::numeric_limits<double>::infinity();
    if (generated < options_.min_new_tokens && options_.eos) scores.select(1, *options_.eos).fill_(kMinus);
    if (options_.no_repeat_ngram > 0) {
      for (std::size_t r = 0; r < histories.size(); ++r) {
        for (const std::int64_t id : repeats(histories[r])) scores[static_cast<std::int64_t>(r)][id] = kMinus;
      }
    }
    if (has_encoder_ && generated == 0 && options_.forced_bos) force(scores, *options_.forced_bos);
    if (generated == options_.max_new_tokens - 1 && options_.forced_eos) force(scores, *options_.forced_eos);
  }

 private:
  static void force(at::Tensor& scores, std::int64_t id) {
    scores.fill_(-std::numeric_limits<double>::infinity());
    scores.select(1, id).zero_();
  }

  // Tokens that would repeat an n-gram of the history.
  Ids repeats(const Ids& history) const {
    const auto n = static_cast<std::size_t>(options_.no_repeat_ngram);
    Ids banned;
    if (history.size() + 1 < n) return banned;
    for (std::size_t i = 0; i + n <= history.size(); ++i) {
      const bool same = std::equal(history.end() - static_cast<std::ptrdiff_t>(n - 1), history.end(),
                                   history.begin() + static_cast<std::ptrdiff_t>(i));
      if (same) banned.push_back(history[i + n - 1]);
    }
    return banned;
  }

  const GenerationOptions& options_;
  bool has_encoder_;
};

std::vector<Ids> greedy(const GenerativeModel& model, const Params& params, DecodeState state, std::vector<Ids> texts,
                        const GenerationOptions& options) {
  const Rules rules(options, model.has_encoder());
  const std::int64_t pad = options.pad.value_or(options.eos.value_or(0));
  std::vector<bool> finished(texts.size(), false);
  for (std::int64_t generated = 0; generated < options.max_new_tokens; ++generated) {
    at::Tensor scores = state.logits.clone();
    rules.apply(scores, texts, generated);
    const at::Tensor best = scores.argmax(-1).cpu();
    Ids next;
    bool all_finished = true;
    for (std::size_t n = 0; n < texts.size(); ++n) {
      const std::int64_t id = finished[n] ? pad : best[static_cast<std::int64_t>(n)].item<std::int64_t>();
      next.push_back(id);
      if (finished[n]) continue;
      texts[n].push_back(id);
      finished[n] = options.eos && id == *options.eos;
      all_finished = all_finished && finished[n];
    }
    if (all_finished || generated + 1 == options.max_new_tokens) break;
    model.advance(params, state, torch::tensor(next, at::kLong).to(state.logits.device()));
  }
  return texts;
}

// A hypothesis of one text's beam search.
struct Hypothesis {
  Ids ids;
  float score = kNever;
  bool finished = false;
};

struct Beams {
  std::vector<Hypothesis> running;  // best first
  std::vector<Hypothesis> done;     // best first; fillers have score kNever and finished == false
  bool improvable = true;           // whether a running beam may still beat a finished one
  bool stuck = false;               // all candidates of the last step ended
};

struct Candidate {
  float score;
  std::int64_t beam, token;
};

// Keeps the best `count`, the earlier of equals first, as sorting torch.topk's result does.
void keep_best(std::vector<Hypothesis>& list, std::size_t count) {
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  if (list.size() > count) list.resize(count);
}

class BeamSearch {
 public:
  BeamSearch(const GenerationOptions& options) : options_(options), width_(static_cast<std::size_t>(options.beams)) {}

  Beams start(const Ids& prefix) const {
    Beams beams;
    for (std::size_t b = 0; b < width_; ++b) beams.running.push_back({prefix, b == 0 ? 0.0f : kNever, false});
    beams.done.assign(width_, {prefix, kNever, false});
    return beams;
  }

  /// One step of one text. `generated` counts the earlier tokens. Returns the beam that each survivor continues.
  Ids step(Beams& beams, const std::vector<Candidate>& candidates, std::int64_t generated) const {
    const bool last = generated + 1 == options_.max_new_tokens;
    const bool full = options_.early_stopping == GenerationOptions::EarlyStopping::kYes && all_done(beams);
    std::vector<Hypothesis> continued, ended = beams.done;
    Ids origins;
    beams.stuck = true;
    std::vector<std::pair<Hypothesis, std::int64_t>> open;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& candidate = candidates[i];
      Hypothesis grown = beams.running[static_cast<std::size_t>(candidate.beam)];
      grown.ids.push_back(candidate.token);
      grown.score = candidate.score;
      const bool stops = last || (options_.eos && candidate.token == *options_.eos);
      beams.stuck = beams.stuck && stops;
      if (stops && i < width_ && !full && beams.improvable) {
        Hypothesis complete = grown;
        complete.score = candidate.score / penalty(generated + 1);
        complete.finished = true;
        ended.push_back(std::move(complete));
      }
      if (stops) grown.score += kNever;
      open.emplace_back(std::move(grown), candidate.beam);
    }
    std::stable_sort(open.begin(), open.end(),
                     [](const auto& a, const auto& b) { return a.first.score > b.first.score; });
    open.resize(width_);
    for (auto& [hypothesis, origin] : open) {
      continued.push_back(std::move(hypothesis));
      origins.push_back(origin);
    }
    beams.running = std::move(continued);
    keep_best(ended, width_);
    beams.done = std::move(ended);
    beams.improvable = beams.improvable && can_improve(beams, generated + 1);
    return origins;
  }

  static bool all_done(const Beams& beams) {
    return std::all_of(beams.done.begin(), beams.done.end(), [](const Hypothesis& h) { return h.finished; });
  }

 private:
  float penalty(std::int64_t length) const {
    return static_cast<float>(std::pow(static_cast<double>(length), options_.length_penalty));
  }

  bool can_improve(const Beams& beams, std::int64_t generated) const {
    const bool hypothetical =
        options_.early_stopping == GenerationOptions::EarlyStopping::kNever && options_.length_penalty > 0;
    const float best = beams.running[0].score / penalty(hypothetical ? options_.max_new_tokens : generated);
    const float worst = beams.done.back().score;
    return std::any_of(beams.done.begin(), beams.done.end(),
                       [&](const Hypothesis& h) { return best > (h.finished ? worst : kNever); });
  }

  const GenerationOptions& options_;
  std::size_t width_;
};

std::vector<Ids> beam_search(const GenerativeModel& model, const Params& params, DecodeState state,
                             const std::vector<Ids>& texts, const GenerationOptions& options) {
  const std::int64_t width = options.beams, count = static_cast<std::int64_t>(texts.size());
  const std::int64_t vocabulary = state.logits.size(1);
  const auto device = state.logits.device();
  const Rules rules(options, model.has_encoder());
  const BeamSearch search(options);
  state.reorder(torch::arange(count, at::kLong).repeat_interleave(width).to(device));
  std::vector<Beams> all;
  for (const Ids& text : texts) all.push_back(search.start(text));

  for (std::int64_t generated = 0; generated < options.max_new_tokens; ++generated) {
    std::vector<Ids> histories;
    std::vector<float> scores;
    for (const Beams& beams : all) {
      for (const Hypothesis& hypothesis : beams.running) {
        histories.push_back(hypothesis.ids);
        scores.push_back(hypothesis.score);
      }
    }
    at::Tensor log_probabilities = torch::log_softmax(state.logits, -1);
    rules.apply(log_probabilities, histories, generated);
    const at::Tensor totals =
        (log_probabilities + torch::tensor(scores).to(device).unsqueeze(1)).view({count, width * vocabulary});
    const auto [values, places] = totals.topk(std::min(2 * width, width * vocabulary));
    const at::Tensor top = values.cpu(), where = places.cpu();

    Ids rows, next;
    bool all_full = true, any_improvable = false, all_stuck = true;
    for (std::int64_t n = 0; n < count; ++n) {
      Beams& beams = all[static_cast<std::size_t>(n)];
      std::vector<Candidate> candidates;
      for (std::int64_t k = 0; k < top.size(1); ++k) {
        const auto place = where[n][k].item<std::int64_t>();
        candidates.push_back({top[n][k].item<float>(), place / vocabulary, place % vocabulary});
      }
      for (const std::int64_t origin : search.step(beams, candidates, generated)) rows.push_back(n * width + origin);
      for (const Hypothesis& hypothesis : beams.running) next.push_back(hypothesis.ids.back());
      all_full = all_full && BeamSearch::all_done(beams);
      any_improvable = any_improvable || beams.improvable;
      all_stuck = all_stuck && beams.stuck;
    }
    const bool stop_when_full = options.early_stopping == GenerationOptions::EarlyStopping::kYes;
    if (!any_improvable || (all_full && stop_when_full) || all_stuck) break;
    state.reorder(torch::tensor(rows, at::kLong).to(device));
    model.advance(params, state, torch::tensor(next, at::kLong).to(device));
  }

  std::vector<Ids> result;
  for (const Beams& beams : all) result.push_back(beams.done[0].ids);
  return result;
}

}  // namespace

GenerationOptions GenerationOptions::of(const ModelConfig& config) {
  GenerationOptions options;
  options.max_new_tokens = config.integer("max_new_tokens", 20);
  options.beams = config.integer("num_beams", 1);
  options.length_penalty = config.number("length_penalty", 1.0);
  options.no_repeat_ngram = config.integer("no_repeat_ngram_size", 0, 0);
  if (config.flag("early_stopping", false)) options.early_stopping = EarlyStopping::kYes;
  options.eos = config.token("eos_token_id");
  options.pad = config.token("pad_token_id");
  options.forced_bos = config.token("forced_bos_token_id");
  options.forced_eos = config.token("forced_eos_token_id");
  return options;
}

std::vector<Ids> generate(const GenerativeModel& model, const Params& params, const Batch& batch,
                          const GenerationOptions& options) {
  check(params.clients() == 1, "generation works on one client at a time");
  if (options.max_new_tokens < 1) throw ConfigError("max_new_tokens must be at least 1");
  if (options.beams < 1) throw ConfigError("the number of beams must be at least 1");
  const std::int64_t before = model.has_encoder() ? 1 : batch.packing->longest();
  if (model.max_length() > 0 && before + options.max_new_tokens > model.max_length() + (model.has_encoder() ? 1 : 0)) {
    throw ConfigError(fmt::format("{} tokens and {} new ones do not fit the model's {} positions", before,
                                  options.max_new_tokens, model.max_length()));
  }
  for (const auto& id : {options.eos, options.forced_bos, options.forced_eos}) {
    if (id && *id >= model.vocabulary()) {
      throw ConfigError(fmt::format("token id {} is beyond the vocabulary of {}", *id, model.vocabulary()));
    }
  }
  const at::NoGradGuard no_grad;
  DecodeState state = model.begin(params, batch);
  std::vector<Ids> texts = prefixes(model, batch);
  if (options.beams == 1) return greedy(model, params, std::move(state), std::move(texts), options);
  return beam_search(model, params, std::move(state), texts, options);
}

}  // namespace chorus::inline models
