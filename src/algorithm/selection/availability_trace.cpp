#include "algorithm/selection/availability_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/files/files.h"

namespace chorus::inline selection {
namespace {

// Client numbers index an array, so a huge one in a file must not exhaust memory.
constexpr std::uint64_t kMostClients = 100'000'000;

struct Line {
  ClientId client = 0;
  double start = 0, end = 0;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  return value;
}

/// A parsed line, or what is wrong with it.
std::pair<Line, std::string> checked(std::optional<std::uint64_t> client, std::optional<double> start,
                                     std::optional<double> end) {
  Line line;
  if (!client || *client >= kMostClients) return {line, "client must be a number from 0"};
  if (!start || !end || !std::isfinite(*start) || !std::isfinite(*end)) return {line, "start and end must be numbers"};
  if (*start < 0) return {line, fmt::format("start is {}; it must not be negative", *start)};
  if (*end <= *start) return {line, fmt::format("end ({}) must come after start ({})", *end, *start)};
  return {{static_cast<ClientId>(*client), *start, *end}, ""};
}

std::pair<Line, std::string> parse_csv(std::string_view text) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    fields.push_back(trimmed(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  if (fields.size() != 3) {
    return {{}, fmt::format("{} columns, but client,start,end are 3; the line may be truncated", fields.size())};
  }
  return checked(number_in<std::uint64_t>(fields[0]), number_in<double>(fields[1]), number_in<double>(fields[2]));
}

std::pair<Line, std::string> parse_json(std::string_view text) {
  const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (!value.is_object()) return {{}, "not a JSON object; the line may be truncated"};
  const auto number = [&](const char* key) -> std::optional<double> {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_number()) return {};
    return found->get<double>();
  };
  std::optional<std::uint64_t> client;
  const auto found = value.find("client");
  if (found != value.end() && found->is_number_unsigned()) client = found->get<std::uint64_t>();
  return checked(client, number("start"), number("end"));
}

}  // namespace

AvailabilityTrace AvailabilityTrace::read(const std::filesystem::path& path) {
  AvailabilityTrace trace;
  trace.path_ = path.string();
  const std::string text = read_file(path);
  std::vector<Line> lines;
  bool json = false, begun = false;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return DataError(fmt::format("{}:{}: {}", trace.path_, number, what));
    };
    if (!begun) {
      begun = true;
      json = line.front() == '{';
      if (!json) {
        std::string header(line);
        std::erase_if(header, [](char c) { return c == ' ' || c == '\t'; });
        if (header != "client,start,end") {
          throw wrong("an availability trace must begin with the line client,start,end (or with { for JSONL)");
        }
        continue;
      }
    }
    const auto [parsed, mistake] = json ? parse_json(line) : parse_csv(line);
    if (!mistake.empty()) throw wrong(mistake);
    if (lines.empty() || parsed.client + std::size_t{1} >= trace.offsets_.size()) {
      trace.offsets_.resize(parsed.client + std::size_t{2});
      trace.last_line_ = number;
    }
    trace.end_ = std::max(trace.end_, parsed.end);
    lines.push_back(parsed);
  }
  if (lines.empty()) throw DataError(fmt::format("{}: has no lines client,start,end", trace.path_));

  std::sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return a.client != b.client ? a.client < b.client : a.start < b.start;
  });
  std::size_t next = 0;
  for (std::size_t client = 0; client + 1 < trace.offsets_.size(); ++client) {
    trace.offsets_[client] = trace.spans_.size();
    for (; next < lines.size() && lines[next].client == client; ++next) {
      if (trace.spans_.size() > trace.offsets_[client] && lines[next].start <= trace.spans_.back().end) {
        trace.spans_.back().end = std::max(trace.spans_.back().end, lines[next].end);
      } else {
        trace.spans_.push_back({lines[next].start, lines[next].end});
      }
    }
  }
  trace.offsets_.back() = trace.spans_.size();
  return trace;
}

bool AvailabilityTrace::reachable(ClientId client, double t, double period) const {
  if (client + std::size_t{1} >= offsets_.size()) return false;
  if (period > 0) t = std::fmod(t, period);
  const auto begin = spans_.begin() + static_cast<std::ptrdiff_t>(offsets_[client]);
  const auto end = spans_.begin() + static_cast<std::ptrdiff_t>(offsets_[client + 1]);
  const auto after = std::upper_bound(begin, end, t, [](double time, const Span& span) { return time < span.start; });
  return after != begin && t < std::prev(after)->end;
}

void AvailabilityTrace::check_clients(std::size_t clients) const {
  if (offsets_.size() > clients + 1) {
    throw DataError(fmt::format(
        "{}:{}: client {} is unknown: the federation has {} clients, 0 to {}; use the trace of this partition", path_,
        last_line_, offsets_.size() - 2, clients, static_cast<std::int64_t>(clients) - 1));
  }
}

}  // namespace chorus::inline selection
