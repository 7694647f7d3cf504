#include "application/trainer/losses.h"

#include <algorithm>

namespace chorus::inline trainer {

std::vector<double> as_doubles(const at::Tensor& numbers) {
  const at::Tensor here = numbers.to(at::kDouble).cpu().contiguous();
  return {here.data_ptr<double>(), here.data_ptr<double>() + here.numel()};
}

std::vector<double> mean_losses(const std::vector<at::Tensor>& losses, std::size_t clients) {
  std::vector<double> means(clients, 0.0), counts(clients, 0.0);
  if (losses.empty()) return means;
  const std::vector<double> all = as_doubles(torch::cat(losses));
  std::size_t at = 0;
  for (const at::Tensor& batch : losses) {
    for (std::size_t c = 0; c < static_cast<std::size_t>(batch.size(0)); ++c) {
      means[c] += all[at++];
      counts[c] += 1;
    }
  }
  for (std::size_t c = 0; c < clients; ++c) means[c] /= std::max(counts[c], 1.0);
  return means;
}

}  // namespace chorus::inline trainer
