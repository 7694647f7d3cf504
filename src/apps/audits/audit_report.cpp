#include "apps/audits/audit_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "application/data/partition/svg.h"
#include "core/base/error.h"

namespace chorus::inline audits {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const Membership& m) {
  return {{"auc", m.auc},
          {"auc_error", m.auc_error},
          {"advantage", m.advantage},
          {"true_positives_at_1_percent_false", m.at_1_percent}};
}

ordered_json json_of(const TokenRecovery& r) {
  return {{"tokens_recovered", r.recall}, {"precision", r.precision}, {"rouge_l", r.rouge_l}};
}

std::string line_of(const Membership& m) {
  return fmt::format("AUC {:.3f} +- {:.3f}, {:.1f} % found at 1 % false alarms", m.auc, m.auc_error,
                     100 * m.at_1_percent);
}

}  // namespace

bool AuditReport::contradicts() const {
  if (!canaries || !privacy || !canaries->not_comparable.empty()) return false;
  // The Gaussian bound is exact only without sampling.
  const bool gaussian = privacy->sampling_rate >= 1 && canaries->gaussian_bound.epsilon > privacy->epsilon;
  return gaussian || canaries->bound.epsilon > privacy->epsilon;
}

AuditReport audit_run(const AuditedRun& run, std::span<const std::unique_ptr<AuditedRun>> shadows,
                      const AuditOptions& options) {
  AuditReport report{.run = run.name(), .privacy = run.privacy()};
  const SeenUpdates updates(run);
  report.protection = updates.protection();
  const auto attempt = [&](const char* name, const std::function<void()>& work) {
    const bool wanted = std::find(options.only.begin(), options.only.end(), name) != options.only.end();
    if (!options.only.empty() && !wanted) return;
    try {
      work();
    } catch (const ConfigError& error) {
      if (wanted) throw;
      report.skipped.emplace_back(error.what());
    }
  };
  attempt("canaries", [&] { report.canaries = audit_canaries(run, shadows, options.confidence); });
  attempt("membership", [&] { report.membership = audit_membership(run, options.examples); });
  attempt("extraction", [&] { report.extraction = audit_extraction(run); });
  attempt("leakage", [&] { report.leakage = audit_leakage(run, updates, {.texts = options.texts}); });
  attempt("attribute", [&] { report.attribute = audit_attribute(run, updates, options.clients); });
  if (options.only.empty() && !run.config().algorithm.traits().splits) return report;
  attempt("activations", [&] { report.activations = audit_activations(run, options.texts); });
  return report;
}

ordered_json to_json(const AuditReport& report) {
  ordered_json result{{"format", 1}, {"run", report.run}};
  if (report.privacy) result["accounted"] = {{"epsilon", report.privacy->epsilon}, {"delta", report.privacy->delta}};
  result["protection_of_updates"] = report.protection.empty() ? "none" : report.protection;
  if (const auto& c = report.canaries) {
    ordered_json& out = result["canaries"];
    out = {{"planted", c->planted},
           {"not_planted", c->others},
           {"references", c->references},
           {"exposure_median_bits", c->median_bits},
           {"exposure_mean_bits", c->mean_bits},
           {"exposure_median_bits_not_planted", c->other_median_bits},
           {"exposure_bits", c->bits},
           {"membership", json_of(c->by_loss)},
           {"epsilon_lower_bound", c->bound.epsilon},
           {"epsilon_lower_bound_gaussian", c->gaussian_bound.epsilon},
           {"confidence", c->confidence},
           {"guesses", c->bound.guesses.made},
           {"right_guesses", c->bound.guesses.right},
           {"comparable", c->not_comparable.empty()},
           {"contradicts_accounting", report.contradicts()}};
    if (c->shadow_runs > 0) {
      out["shadow_runs"] = c->shadow_runs;
      out["membership_by_shadow_runs"] = json_of(c->by_shadow_runs);
    }
  }
  if (const auto& m = report.membership) {
    result["membership"] = {{"members", m->members},
                            {"others", m->others},
                            {"by_loss", json_of(m->by_loss)},
                            {"calibrated", json_of(m->calibrated)}};
  }
  if (const auto& e = report.extraction) {
    result["extraction"] = {{"planted", e->planted},
                            {"extracted", e->extracted},
                            {"not_planted", e->others},
                            {"not_planted_extracted", e->others_extracted},
                            {"copies", e->copies}};
  }
  if (const auto& l = report.leakage) {
    result["leakage"] = {{"texts", l->texts},
                         {"without_protection", json_of(l->plain)},
                         {"as_protected", json_of(l->seen)},
                         {"text", l->example},
                         {"reconstructed_without_protection", l->plain_example},
                         {"reconstructed_as_protected", l->seen_example}};
  }
  if (const auto& a = report.attribute) {
    result["attribute"] = {
        {"clients", a->clients}, {"without_protection", a->plain}, {"as_protected", a->seen}, {"chance", a->chance}};
  }
  if (const auto& a = report.activations) {
    result["activations"] = {{"tokens", a->tokens},       {"layers", a->layers},     {"noise", a->noise},
                             {"without_noise", a->plain}, {"as_protected", a->seen}, {"chance", a->chance}};
  }
  result["skipped"] = report.skipped;
  return result;
}

std::string to_text(const AuditReport& report) {
  std::string text = fmt::format("audit of {}\n", report.run);
  text += report.privacy ? fmt::format("  accounted       epsilon {:.4g} at delta {:g}\n", report.privacy->epsilon,
                                       report.privacy->delta)
                         : std::string("  accounted       no differential privacy\n");
  text += fmt::format("  updates         {}\n", report.protection.empty() ? "not protected" : report.protection);
  if (const auto& c = report.canaries) {
    text += fmt::format(
        "  canaries        exposure: median {:.2f} bits of {:.1f}, {} planted ({:.2f} bits for {} not planted)\n",
        c->median_bits, std::log2(static_cast<double>(c->references) + 1), c->planted, c->other_median_bits, c->others);
    text += fmt::format("                  planted or not: {}\n", line_of(c->by_loss));
    if (c->shadow_runs > 0) {
      text +=
          fmt::format("                  by {} shadow runs (LiRA): {}\n", c->shadow_runs, line_of(c->by_shadow_runs));
    }
    text +=
        fmt::format("                  epsilon is at least {:.3f} with confidence {:g} ({} of {} guesses right){}\n",
                    c->bound.epsilon, c->confidence, c->bound.guesses.right, c->bound.guesses.made,
                    report.contradicts() ? ": ABOVE the accounted one" : "");
    if (report.privacy) {
      text += fmt::format("                  at least {:.3f} if its noise is Gaussian ({} of {} guesses right)\n",
                          c->gaussian_bound.epsilon, c->gaussian_bound.guesses.right, c->gaussian_bound.guesses.made);
      if (!c->not_comparable.empty()) {
        text += fmt::format("                  not the accounted epsilon: {}\n", c->not_comparable);
      }
    }
  }
  if (const auto& m = report.membership) {
    text += fmt::format("  membership      by loss: {}\n", line_of(m->by_loss));
    text += fmt::format("                  calibrated: {} ({} training, {} test examples)\n", line_of(m->calibrated),
                        m->members, m->others);
  }
  if (const auto& e = report.extraction) {
    text += fmt::format(
        "  extraction      {} of {} planted canaries written to the end ({} copies each); {} of {} others\n",
        e->extracted, e->planted, e->copies, e->others_extracted, e->others);
    if (!e->example.empty()) text += fmt::format("                  for example: {}\n", e->example);
  }
  if (const auto& l = report.leakage) {
    text +=
        fmt::format("  leakage         tokens recovered from an update: {:.1f} % without protection (ROUGE-L {:.2f})",
                    100 * l->plain.recall, l->plain.rouge_l);
    text += report.protection.empty()
                ? "\n"
                : fmt::format(", {:.1f} % with it (ROUGE-L {:.2f})\n", 100 * l->seen.recall, l->seen.rouge_l);
    text += fmt::format("                  text:             {}\n                  without protection: {}\n",
                        l->example, l->plain_example);
    if (!report.protection.empty()) text += fmt::format("                  with protection:    {}\n", l->seen_example);
  }
  if (const auto& a = report.attribute) {
    text += fmt::format("  attribute       main class of {} clients guessed: {:.0f} % without protection", a->clients,
                        100 * a->plain);
    if (!report.protection.empty()) text += fmt::format(", {:.0f} % with it", 100 * a->seen);
    text += fmt::format(" ({:.0f} % by chance)\n", 100 * a->chance);
  }
  if (const auto& a = report.activations) {
    text +=
        fmt::format("  activations     words of {} tokens guessed from what {} layers compute: {:.1f} % without noise",
                    a->tokens, a->layers, 100 * a->plain);
    if (a->noise > 0) text += fmt::format(", {:.1f} % with noise {:g}", 100 * a->seen, a->noise);
    text += fmt::format(" ({:.1f} % by chance)\n", 100 * a->chance);
  }
  for (const std::string& reason : report.skipped) text += fmt::format("  left out        {}\n", reason);
  return text;
}

std::string exposure_picture(const AuditReport& report) {
  check(report.canaries.has_value(), "there are canaries to show");
  const CanaryReport& c = *report.canaries;
  const double most = std::log2(static_cast<double>(c.references) + 1);
  const auto bins = static_cast<std::size_t>(std::ceil(most + 1e-9)) + 1;
  const auto shares = [&](const std::vector<double>& bits) {
    std::vector<double> result(bins, 0);
    for (const double b : bits) result[std::min(bins - 1, static_cast<std::size_t>(std::max(b, 0.0)))] += 1;
    for (double& share : result) share /= static_cast<double>(std::max<std::size_t>(bits.size(), 1));
    return result;
  };
  const std::vector<double> planted = shares(c.bits), others = shares(c.other_bits);
  constexpr double kLeft = 60, kTop = 60, kWidth = 620, kHeight = 260;
  const double step = kWidth / static_cast<double>(bins);
  Svg svg;
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double y = kTop + kHeight * (1 - tick);
    svg.line(kLeft, y, kLeft + kWidth, y, "#ddd");
    svg.text(kLeft - 8, y + 4, fmt::format("{:.0f} %", 100 * tick), {.anchor = "end"});
  }
  for (std::size_t i = 0; i < bins; ++i) {
    const double x = kLeft + step * static_cast<double>(i);
    svg.rect(x + step * 0.1, kTop + kHeight * (1 - planted[i]), step * 0.38, kHeight * planted[i], "#D55E00");
    svg.rect(x + step * 0.52, kTop + kHeight * (1 - others[i]), step * 0.38, kHeight * others[i], "#999999");
    svg.text(x + step / 2, kTop + kHeight + 16, fmt::format("{}", i), {.anchor = "middle"});
  }
  svg.text(kLeft + kWidth / 2, kTop + kHeight + 36, "exposure in bits (rounded down)", {.anchor = "middle"});
  svg.rect(kLeft + 400, kTop + 8, 12, 12, "#D55E00");
  svg.text(kLeft + 418, kTop + 18, "planted canaries");
  svg.rect(kLeft + 400, kTop + 28, 12, 12, "#999999");
  svg.text(kLeft + 418, kTop + 38, "not planted");
  const std::string subtitle = report.privacy ? fmt::format("accounted epsilon {:.3g} at delta {:g}",
                                                            report.privacy->epsilon, report.privacy->delta)
                                              : "no differential privacy";
  return svg.finish(720, 370, fmt::format("Exposure of canaries: {}", report.run), subtitle);
}

}  // namespace chorus::inline audits
