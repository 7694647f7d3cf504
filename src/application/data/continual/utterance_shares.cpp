#include "application/data/continual/utterance_shares.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "core/base/activity.h"
#include "core/base/error.h"
#include "core/base/fingerprint.h"
#include "core/base/utf8.h"
#include "core/console/text_table.h"

namespace chorus::inline continual {
namespace {

struct TakeLow {
  std::size_t operator()(const Fingerprint& f) const { return f.low; }
};
using Utterances = std::unordered_set<Fingerprint, TakeLow>;

/// The hash of an example's text.
class Reader {
 public:
  Reader(const Dataset& data, SameText same) : data_(data), same_(same) {}

  Fingerprint operator()(ExampleId id) {
    check(id < data_.size(), "an example that the data does not have");
    std::string_view text = data_.text(id);
    if (text.empty()) {
      scratch_.clear();
      const WordList words = data_.words(id);
      for (std::size_t w = 0; w < words.size(); ++w) {
        if (w > 0) scratch_ += ' ';
        scratch_ += words[w];
      }
      text = scratch_;
    }
    const Fingerprint first = print(text);
    const std::string_view second = data_.second(id);
    return second.empty() ? first : fingerprint(same_ == SameText::kFolded ? folded(second) : second, first);
  }

 private:
  Fingerprint print(std::string_view text) const {
    return same_ == SameText::kFolded ? fingerprint(folded(text)) : fingerprint(text);
  }

  const Dataset& data_;
  SameText same_;
  std::string scratch_;
};

bool is_blank(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

void add(UtteranceShares& sum, const UtteranceShares& more, double times = 1) {
  sum.own += times * more.own;
  sum.others += times * more.others;
  sum.fresh += times * more.fresh;
}

UtteranceGroup group_of(std::span<const std::uint32_t> clients, const std::vector<UtteranceShares>& shares,
                        const std::vector<std::size_t>& counted, const std::vector<double>& activity) {
  UtteranceGroup group;
  group.devices = clients.size();
  if (clients.empty()) return group;
  group.smallest = static_cast<std::size_t>(activity[clients.front()]);
  group.largest = static_cast<std::size_t>(activity[clients.back()]);
  for (const std::uint32_t client : clients) {
    group.utterances += counted[client];
    add(group.mean, shares[client], 1 / static_cast<double>(clients.size()));
  }
  return group;
}

}  // namespace

std::string folded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool blank = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = utf8::next(text, at);
    if (is_blank(c)) {
      blank = !out.empty();
      continue;
    }
    if (blank) out += ' ';
    blank = false;
    utf8::append(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
  return out;
}

UtteranceReport utterance_shares(const Dataset& data, const ClientLists& before, const ClientLists& period,
                                 const UtteranceOptions& options) {
  check(before.clients() == period.clients(), "the period and the data before it have different clients");
  check(options.groups > 0, "the number of groups must be positive");
  Reader read(data, options.same);
  Utterances known;
  for (const ExampleId id : before.ids()) known.insert(read(id));

  UtteranceReport report;
  report.known = known.size();
  report.devices.resize(period.clients());
  std::vector<std::size_t> counted(period.clients(), 0);
  std::vector<double> activity(period.clients(), 0);
  Utterances own;
  std::unordered_map<Fingerprint, std::size_t, TakeLow> now;
  for (std::size_t client = 0; client < period.clients(); ++client) {
    if (period.size_of(client) == 0) continue;
    activity[client] = static_cast<double>(before.size_of(client) + period.size_of(client));
    own.clear();
    now.clear();
    for (const ExampleId id : before[client]) own.insert(read(id));
    for (const ExampleId id : period[client]) ++now[read(id)];
    std::size_t seen = 0, elsewhere = 0, total = 0;
    for (const auto& [utterance, times] : now) {
      const std::size_t weight = options.repeated ? times : 1;
      total += weight;
      if (own.contains(utterance)) {
        seen += weight;
      } else if (known.contains(utterance)) {
        elsewhere += weight;
      }
    }
    counted[client] = total;
    const double one = 1 / static_cast<double>(total);
    report.devices[client] = {.own = static_cast<double>(seen) * one,
                              .others = static_cast<double>(elsewhere) * one,
                              .fresh = static_cast<double>(total - seen - elsewhere) * one};
  }

  const std::vector<std::uint32_t> order = by_activity(activity);
  const std::size_t groups = std::min(options.groups, order.size());
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t begin = group_begin(order.size(), g, groups);
    const std::size_t count = group_begin(order.size(), g + 1, groups) - begin;
    report.groups.push_back(group_of(std::span(order).subspan(begin, count), report.devices, counted, activity));
  }
  report.all = group_of(order, report.devices, counted, activity);
  return report;
}

UtteranceReport mean_of(std::span<const UtteranceReport> reports) {
  check(!reports.empty(), "the mean of no reports");
  UtteranceReport mean;
  mean.groups.resize(reports.front().groups.size());
  const double one = 1 / static_cast<double>(reports.size());
  const auto average = [&](UtteranceGroup& group, auto part) {
    for (const UtteranceReport& report : reports) {
      const UtteranceGroup& more = part(report);
      group.devices += more.devices;
      group.utterances += more.utterances;
      group.smallest += more.smallest;
      group.largest += more.largest;
      add(group.mean, more.mean, one);
    }
    for (std::size_t* number : {&group.devices, &group.utterances, &group.smallest, &group.largest}) {
      *number /= reports.size();
    }
  };
  for (const UtteranceReport& report : reports) {
    check(report.groups.size() == mean.groups.size(), "the mean of reports with different groups");
    mean.known += report.known;
  }
  mean.known /= reports.size();
  for (std::size_t g = 0; g < mean.groups.size(); ++g) {
    average(mean.groups[g], [g](const UtteranceReport& report) -> const UtteranceGroup& { return report.groups[g]; });
  }
  average(mean.all, [](const UtteranceReport& report) -> const UtteranceGroup& { return report.all; });
  return mean;
}

std::string shares_table(const UtteranceReport& report) {
  using Align = TextTable::Align;
  TextTable table({{"devices"},
                   {"number", Align::kRight},
                   {"activity", Align::kRight},
                   {"utterances", Align::kRight},
                   {"own", Align::kRight},
                   {"others'", Align::kRight},
                   {"new", Align::kRight}});
  const auto row = [&](const std::string& name, const UtteranceGroup& group) {
    table.add({name, fmt::format("{}", group.devices), fmt::format("{}-{}", group.smallest, group.largest),
               fmt::format("{}", group.utterances), fmt::format("{:.1f} %", 100 * group.mean.own),
               fmt::format("{:.1f} %", 100 * group.mean.others), fmt::format("{:.1f} %", 100 * group.mean.fresh)});
  };
  for (std::size_t g = 0; g < report.groups.size(); ++g) {
    row(fmt::format("{}{}", report.groups.size() == 10 ? "decile " : "group ", g + 1), report.groups[g]);
  }
  table.add_rule();
  row("all", report.all);
  return table.render();
}

std::string shares_json(const UtteranceReport& report) {
  const auto json = [](const UtteranceGroup& group) {
    return nlohmann::ordered_json{{"devices", group.devices},   {"utterances", group.utterances},
                                  {"smallest", group.smallest}, {"largest", group.largest},
                                  {"own", group.mean.own},      {"others", group.mean.others},
                                  {"new", group.mean.fresh}};
  };
  nlohmann::ordered_json out{{"known", report.known}, {"all", json(report.all)}};
  out["groups"] = nlohmann::ordered_json::array();
  for (const UtteranceGroup& group : report.groups) out["groups"].push_back(json(group));
  return out.dump();
}

}  // namespace chorus::inline continual
