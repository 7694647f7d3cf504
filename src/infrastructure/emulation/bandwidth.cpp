#include "infrastructure/emulation/bandwidth.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/files/files.h"

namespace chorus::inline emulation {
namespace {

constexpr std::uint64_t kLargestTrace = std::uint64_t{256} << 20;

std::optional<double> trace_number(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  text = text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || !std::isfinite(value)) return {};
  return value;
}

}  // namespace

void BandwidthConfig::describe(ConfigVisitor& visitor) {
  visitor.field("kind", kind,
                {{"profile", Kind::kProfile},
                 {"constant", Kind::kConstant},
                 {"lognormal", Kind::kLognormal},
                 {"trace", Kind::kTrace}},
                "from the device profiles, the same for all, drawn per client, or from a file");
  visitor.field("down", down, "MB/s to a client: constant, or the median of lognormal").above(0);
  visitor.field("up", up, "MB/s from a client").above(0);
  visitor.field("sigma", sigma, "lognormal: standard deviation of the logarithm").at_least(0);
  visitor.field("trace", trace, "a file of lines seconds,mbps");
  visitor.field("shift", shift, "each client starts at its own offset in the trace");
  visitor.check([this]() -> std::string {
    if ((kind == Kind::kTrace) == trace.empty()) {
      return kind == Kind::kTrace ? "kind trace needs the file `trace`" : "a `trace` needs kind: trace";
    }
    return "";
  });
}

BandwidthTrace BandwidthTrace::read(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestTrace);
  std::vector<double> starts;
  BandwidthTrace trace;
  std::size_t number = 0;
  bool header = false;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const auto wrong = [&](const std::string& what) {
      return DataError(fmt::format("{}:{}: {}", path.string(), number, what));
    };
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!header) {
      std::erase_if(line, [](char c) { return c == ' ' || c == '\t' || c == '\r'; });
      if (line != "seconds,mbps") throw wrong("a bandwidth trace begins with the line seconds,mbps");
      header = true;
      continue;
    }
    const std::size_t comma = line.find(',');
    if (comma == std::string::npos) throw wrong("not two numbers seconds,mbps; the line may be truncated");
    const auto seconds = trace_number(std::string_view(line).substr(0, comma));
    const auto speed = trace_number(std::string_view(line).substr(comma + 1));
    if (!seconds || !speed) throw wrong("not two numbers seconds,mbps; the line may be truncated");
    if (*speed < 0) throw wrong(fmt::format("{} MB/s: a speed must not be negative", *speed));
    if (starts.empty() ? *seconds != 0 : *seconds <= starts.back()) {
      throw wrong(starts.empty() ? "the first line must be at second 0" : "the seconds must ascend");
    }
    starts.push_back(*seconds);
    trace.speeds_.push_back(*speed);
  }
  if (starts.empty()) throw DataError(fmt::format("{}: has no lines seconds,mbps", path.string()));
  const double last = starts.size() > 1 ? starts.back() - starts[starts.size() - 2] : 1;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    trace.ends_.push_back(i + 1 < starts.size() ? starts[i + 1] : starts[i] + last);
    trace.megabytes_ += trace.speeds_[i] * (trace.ends_[i] - starts[i]);
  }
  if (!(trace.megabytes_ > 0)) throw DataError(fmt::format("{}: all speeds are 0", path.string()));
  return trace;
}

double BandwidthTrace::transfer(double bytes, double start) const {
  double left = bytes / 1e6;
  // Walk at least one period: the last byte of a period may move before an interval of speed 0.
  const double whole = std::max(0.0, std::ceil(left / megabytes_) - 1);
  left -= whole * megabytes_;
  double seconds = whole * period();
  double at = std::fmod(start, period());
  auto stretch = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
  // At most one period and the rest of an interval remain.
  for (std::size_t steps = 0; left > 0 && steps <= ends_.size() + 1; ++steps) {
    if (stretch == ends_.size()) {
      stretch = 0;
      at = 0;
    }
    const double room = (ends_[stretch] - at) * speeds_[stretch];
    if (left <= room) return seconds + left / speeds_[stretch];
    left -= room;
    seconds += ends_[stretch] - at;
    at = ends_[stretch++];
  }
  return seconds;
}

Links::Links(const BandwidthConfig& config, std::uint64_t seed) : config_(config), seed_(seed) {
  if (config.kind == BandwidthConfig::Kind::kTrace) {
    trace_ = std::make_shared<BandwidthTrace>(BandwidthTrace::read(config.trace));
  }
}

Link Links::of(ClientId client, const DeviceProfile& profile) const {
  RandomStream stream({.seed = seed_, .purpose = "bandwidth", .client = client});
  switch (config_.kind) {
    case BandwidthConfig::Kind::kProfile:
      return constant_link(profile.download, profile.upload);
    case BandwidthConfig::Kind::kConstant:
      return constant_link(config_.down, config_.up);
    case BandwidthConfig::Kind::kLognormal: {
      const double factor = std::exp(config_.sigma * stream.normal());  // one factor for both directions
      return constant_link(config_.down * factor, config_.up * factor);
    }
    case BandwidthConfig::Kind::kTrace: {
      const double shift = config_.shift ? stream.uniform() * trace_->period() : 0;
      const TransferTime time = [trace = trace_, shift](double bytes, double start) {
        return trace->transfer(bytes, start + shift);
      };
      return {time, time};
    }
  }
  throw InternalError("an unknown kind of bandwidth");
}

}  // namespace chorus::inline emulation
