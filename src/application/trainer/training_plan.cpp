#include "application/trainer/training_plan.h"

#include <algorithm>

namespace chorus::inline trainer {

std::int64_t TrainingPlan::readers(std::int64_t number) const {
  return std::count_if(batches.begin(), batches.end(), [&](std::int64_t all) { return all > number; });
}

std::vector<double> TrainingPlan::rates(const TrainerConfig& config, const TrainMoment& moment, std::int64_t clients,
                                        std::int64_t step) const {
  // The schedule counts rounds from 0, as it counts steps.
  const std::int64_t round = std::max<std::int64_t>(static_cast<std::int64_t>(moment.round), 1) - 1;
  std::vector<double> result;
  for (std::size_t c = 0; c < static_cast<std::size_t>(clients); ++c) {
    const SchedulePoint point{step, schedule[c], round, static_cast<std::int64_t>(moment.rounds)};
    result.push_back(config.learning_rate * schedule_factor(config.schedule, point));
  }
  return result;
}

std::vector<double> TrainingPlan::shares(std::int64_t accumulate, std::int64_t clients, std::int64_t first) const {
  std::vector<double> result;
  for (std::size_t c = 0; c < static_cast<std::size_t>(clients); ++c) {
    result.push_back(1.0 / static_cast<double>(std::min(accumulate, batches[c] - first)));
  }
  return result;
}

void TrainingPlan::retain(std::span<const std::size_t> clients) {
  std::size_t with_rows = 0;
  for (std::size_t to = 0; to < clients.size(); ++to) {
    const std::size_t from = clients[to];
    schedule[to] = schedule[from];
    if (from >= batches.size()) continue;
    batches[to] = batches[from];
    with_rows = to + 1;
  }
  schedule.resize(clients.size());
  batches.resize(with_rows);
}

}  // namespace chorus::inline trainer
