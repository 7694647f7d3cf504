#pragma once

#include <span>
#include <vector>

namespace chorus::inline audit {

/// How well scores (higher: rather a member) tell members from others.
struct Membership {
  double auc = 0.5;         ///< probability that a member scores higher; 0.5: guessing
  double advantage = 0;     ///< largest difference of the true and the false positive rate
  double at_1_percent = 0;  ///< members found with at most 1 % false alarms (Carlini et al. 2022)
  double auc_error = 0;     ///< standard error of the auc (Hanley and McNeil 1982)
};
Membership membership(std::span<const double> members, std::span<const double> others);

/// The likelihood-ratio attack (LiRA, Carlini et al. 2022) for one record: its confidence, from the loss as
/// ln(p / (1 - p)) with p = exp(-loss), under shadow models that were trained with it and without it, each fitted by a
/// normal distribution. Returns ln(density with / density without) at the attacked model's confidence. With fewer than
/// two shadow models on a side, or where all agree, the variance of the other side or 1 is used.
double likelihood_ratio(double loss, std::span<const double> with, std::span<const double> without);

/// For records that influence each other: how far each loss is below the middle of what shadow models expect with and
/// without the record. The expectation removes what other records do to it. A record that all shadow models had, or
/// none, gets its middle from the mean difference of the others.
std::vector<double> below_expectation(std::span<const double> losses, std::span<const std::vector<double>> with,
                                      std::span<const std::vector<double>> without);

}  // namespace chorus::inline audit
