#include "apps/serving/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "apps/experiment/model_card.h"
#include "core/base/nearest.h"
#include "core/config/registry.h"
#include "core/ports/procedure.h"

namespace chorus::inline serving {
namespace {

namespace fs = std::filesystem;

constexpr double kMegabyte = 1e6;
constexpr int kDayMinutes = 24 * 60;

/// "20:00-06:00" in minutes of the day; nothing when it is not that.
std::optional<std::pair<int, int>> parse_hours(const std::string& text) {
  int from_hour = 0, from_minute = 0, to_hour = 0, to_minute = 0, used = 0;
  const int found =
      std::sscanf(text.c_str(), "%2d:%2d-%2d:%2d%n", &from_hour, &from_minute, &to_hour, &to_minute, &used);  // NOLINT
  const auto fine = [](int hour, int minute) { return hour >= 0 && hour <= 24 && minute >= 0 && minute < 60; };
  if (found != 4 || static_cast<std::size_t>(used) != text.size() || !fine(from_hour, from_minute) ||
      !fine(to_hour, to_minute)) {
    return std::nullopt;
  }
  return std::pair(from_hour * 60 + from_minute, to_hour * 60 + to_minute);
}

bool within(const std::string& hours, std::time_t now) {
  const auto range = parse_hours(hours);
  if (!range) return true;
  std::tm local{};
  ::localtime_r(&now, &local);
  const int minute = (local.tm_hour * 60 + local.tm_min) % kDayMinutes;
  return range->first <= range->second ? minute >= range->first && minute < range->second
                                       : minute >= range->first || minute < range->second;
}

/// Whether `file` is `allowed` or below it.
bool covers(const std::string& allowed, const std::string& file) {
  std::error_code ignored;
  const fs::path top = fs::weakly_canonical(fs::absolute(allowed), ignored);
  const fs::path path = fs::weakly_canonical(fs::absolute(file), ignored);
  const auto [end, rest] = std::mismatch(top.begin(), top.end(), path.begin(), path.end());
  return end == top.end();
}

bool has_file(const PolicyUse& use, const std::string& file) {
  return use.files.empty() ||
         std::any_of(use.files.begin(), use.files.end(), [&](const std::string& top) { return covers(top, file); });
}

bool lists(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

/// A setting of the aggregation that may not exist.
double setting(Choice<Aggregations> aggregation, std::string_view name) {
  ConfigVisitor visitor;
  aggregation.describe(visitor);
  const ConfigField* field = visitor.find(name);
  if (field == nullptr || field->type != ConfigField::Type::kDouble || field->get().empty()) return 0;
  return std::get<double>(field->get().front().second);
}

/// What is wrong with a name that must be one of `names`; empty: nothing.
std::string unknown_name(const std::string& what, const std::string& name, const std::vector<std::string>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return "";
  return fmt::format("there is no {} {}{}; see chorus list {}", what, name, did_you_mean(name, names), what);
}

const ConfigRegistration<Policy> kRegisteredPolicy{"policy",
                                                   "what the owner of a client's data agrees to (chorus join)"};

}  // namespace

void PolicyUse::describe(ConfigVisitor& visitor) {
  visitor.field("task", task, "a task's name (chorus list task); empty: any");
  visitor.field("files", files, "files, or folders of files, that may be used for it; empty: any").path();
  visitor.field("procedures", procedures,
                "what a server may ask for with these files (chorus list procedure); empty: any");
  visitor.check([this]() -> std::string {
    for (const std::string& name : procedures) {
      if (std::string wrong = unknown_name("procedure", name, Procedures::names()); !wrong.empty()) return wrong;
    }
    return unknown_name("task", task, Tasks::names());
  });
}

void Policy::describe(ConfigVisitor& visitor) {
  visitor.field("allow", allow, "uses that this client agrees to; empty: every use");
  visitor
      .field("secure_aggregation", secure_aggregation,
             "others whose updates must be summed with this client's before anybody sees them; 0: not required")
      .at_least(0);
  visitor.field("active_server", active_server, "these sums must hold against a server that lies (server: active)");
  visitor.field("epsilon", epsilon, "largest epsilon of differential privacy; a run that promises none is refused")
      .above(0);
  visitor.field("hours", hours, "HH:MM-HH:MM of this machine's clock; empty: always");
  visitor.field("threads", threads, "for training; 0: one").at_least(0);
  visitor.field("megabytes_per_day", megabytes_per_day, "that may leave this machine per day (UTC); 0: any number")
      .at_least(0);
  visitor.check([this]() -> std::string {
    if (hours.empty() || parse_hours(hours)) return "";
    return fmt::format("hours is \"{}\"; it must be HH:MM-HH:MM, such as 20:00-06:00", hours);
  });
}

std::string refusal_of_job(const Policy& policy, const ExperimentConfig& job, const std::vector<std::string>& files) {
  const std::string& task = job.task.name();
  if (!policy.allow.empty()) {
    bool known = false;
    for (const PolicyUse& use : policy.allow) known = known || use.task.empty() || use.task == task;
    if (!known) return fmt::format("its policy does not allow the task {}", task);
    const auto allowed = [&](const std::string& file) {
      return std::any_of(policy.allow.begin(), policy.allow.end(), [&](const PolicyUse& use) {
        return (use.task.empty() || use.task == task) && has_file(use, file);
      });
    };
    if (!std::all_of(files.begin(), files.end(), allowed)) {
      return fmt::format("its policy does not allow its files for the task {}", task);
    }
  }
  const std::optional<SumTerms> promised =
      promised_sum(job.aggregation, {.folder = {}, .clients_per_round = static_cast<double>(job.clients_per_round)});
  if (policy.secure_aggregation > 0) {
    if (!promised) {
      return fmt::format("its policy requires secure aggregation, and the run uses aggregation: {}",
                         aggregation_text(job.aggregation));
    }
    if (promised->least < static_cast<double>(policy.secure_aggregation) + 1) {
      return fmt::format("its policy requires sums with at least {} others, and the run's may have {:g}",
                         policy.secure_aggregation, promised->least - 1);
    }
  }
  if (policy.active_server && !(promised && promised->active)) {
    return fmt::format(
        "its policy requires secure aggregation against an active server, and the run uses aggregation: {} that trusts "
        "it",
        job.aggregation.name());
  }
  if (policy.epsilon) {
    const double spends = setting(job.aggregation, "epsilon");
    if (spends <= 0) {
      return fmt::format(
          "its policy requires differential privacy with an epsilon of at most {:g}, and the run "
          "promises none",
          *policy.epsilon);
    }
    if (spends > *policy.epsilon) {
      return fmt::format("its policy allows an epsilon of at most {:g}, and the run spends {:g}", *policy.epsilon,
                         spends);
    }
  }
  return "";
}

std::string what_the_server_sees(const ExperimentConfig& job) {
  return fmt::format("the server sees {}: {}", promised_sum(job.aggregation, {}) ? "sums of updates" : "each update",
                     aggregation_text(job.aggregation));
}

std::string refusal_of_request(const Policy& policy, const PolicyMoment& moment) {
  const auto allows = [&](const PolicyUse& use) {
    if (!use.task.empty() && use.task != moment.task) return false;
    if (!is_secure_procedure(moment.procedure)) return lists(use.procedures, moment.procedure);
    return !moment.sum || moment.sum->trains.empty() || lists(use.procedures, moment.sum->trains);
  };
  if (!policy.allow.empty() && std::none_of(policy.allow.begin(), policy.allow.end(), allows)) {
    return fmt::format("its policy does not allow the procedure {}", moment.procedure);
  }
  const auto allows_with = [&](const std::string& file) {
    return std::any_of(policy.allow.begin(), policy.allow.end(),
                       [&](const PolicyUse& use) { return allows(use) && has_file(use, file); });
  };
  if (!policy.allow.empty() && !std::all_of(moment.files.begin(), moment.files.end(), allows_with)) {
    return fmt::format("its policy does not allow the procedure {} with its files", moment.procedure);
  }
  if ((policy.secure_aggregation > 0 || policy.active_server) && !is_secure_procedure(moment.procedure) &&
      !may_reply_nothing(moment.procedure)) {
    return fmt::format("its policy requires secure aggregation, and {} is not part of it", moment.procedure);
  }
  if (moment.sum) {
    // A server states both in every sum, whatever its configuration says.
    if (moment.sum->terms.least < static_cast<double>(policy.secure_aggregation) + 1) {
      return fmt::format("its policy requires sums with at least {} others, and this one may have {:g}",
                         policy.secure_aggregation, moment.sum->terms.least - 1);
    }
    if (policy.active_server && !moment.sum->terms.active) {
      return "its policy requires secure aggregation against an active server, and this sum trusts the server";
    }
  }
  if (!policy.hours.empty() && !within(policy.hours, moment.now)) {
    return fmt::format("its policy allows work from {} only", policy.hours);
  }
  return refusal_of_bytes(policy, moment.bytes_today, moment.bytes_next);
}

std::string refusal_of_bytes(const Policy& policy, std::uint64_t today, std::uint64_t next) {
  const double limit = policy.megabytes_per_day * kMegabyte;
  if (limit <= 0 || static_cast<double>(today) + static_cast<double>(next) <= limit) return "";
  return fmt::format("its policy allows {:g} MB per day, and {:.3g} MB more would be too many after {:.3g} MB",
                     policy.megabytes_per_day, static_cast<double>(next) / kMegabyte,
                     static_cast<double>(today) / kMegabyte);
}

}  // namespace chorus::inline serving
