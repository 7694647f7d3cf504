#include "apps/serving/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "core/base/error.h"

namespace chorus::inline serving {
namespace {

using JobJson = nlohmann::json;

constexpr int kJobFormat = 2;
constexpr std::uint64_t kMostBytes = 64ULL << 30U;
constexpr std::size_t kMostFiles = 256;
constexpr std::size_t kMostConfig = 1U << 20U, kMostFacts = 64U << 20U;
constexpr std::size_t kMostJob = 2 * kMostFacts;  // bytes of JSON, in which a text may be longer than it is
constexpr ClientId kMostClient = 1U << 24U;
constexpr std::int64_t kMostRounds = 1'000'000'000;

[[noreturn]] void no_job(const std::string& why) {
  throw DataError(fmt::format("the server's job cannot be used: {}; use the same version of Chorus at both ends", why));
}

const JobJson& need(const JobJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) no_job(fmt::format("it has no \"{}\"", name));
  return *found;
}

std::string need_text(const JobJson& object, const char* name, std::size_t most) {
  const JobJson& value = need(object, name);
  if (!value.is_string() || value.get_ref<const std::string&>().size() > most) {
    no_job(fmt::format("\"{}\" is not a text of at most {} bytes", name, most));
  }
  return value.get<std::string>();
}

std::uint64_t need_number(const JobJson& object, const char* name, std::uint64_t most) {
  const JobJson& value = need(object, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
    no_job(fmt::format("\"{}\" is not a number of at most {}", name, most));
  }
  return value.get<std::uint64_t>();
}

bool is_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

JobFile read_job_file(const JobJson& object) {
  if (!object.is_object()) no_job("a file is not described");
  JobFile file{need_text(object, "place", 16), need_text(object, "name", 200),
               need_number(object, "size", kMostJobFileBytes), need_text(object, "digest", 32)};
  if (file.place != "model" && file.place != "tokenizer" && file.place != kPublicPlace) {
    no_job("a file belongs nowhere");
  }
  if (!is_plain_name(file.name)) no_job("a file's name is not acceptable");
  if (!is_digest(file.digest)) no_job("a file's digest is not one");
  return file;
}

}  // namespace

bool is_plain_name(const std::string& name) {
  constexpr std::size_t kMostName = 200;
  const auto fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMostName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), fine);
}

std::vector<std::string> parse_wanted(const std::string& json, std::size_t most) {
  constexpr std::size_t kMostEntry = 64;  // bytes of JSON, spaces included
  if (json.size() > kMostEntry * (most + 1)) throw DataError("the list of missing files is too long");
  const auto list = JobJson::parse(json, nullptr, false);
  if (!list.is_array() || list.size() > most) throw DataError("the list of missing files is not one");
  std::vector<std::string> digests;
  for (const JobJson& entry : list) {
    if (!entry.is_string() || !is_digest(entry.get_ref<const std::string&>())) {
      throw DataError("a missing file is not named by its digest");
    }
    digests.push_back(entry.get<std::string>());
  }
  return digests;
}

std::string to_json(const Job& job) {
  JobJson files = JobJson::array();
  for (const JobFile& file : job.files) {
    files.push_back({{"place", file.place}, {"name", file.name}, {"size", file.size}, {"digest", file.digest}});
  }
  return JobJson{{"format", kJobFormat}, {"client", job.client}, {"run", fmt::format("{:016x}", job.run)},
                 {"rounds", job.rounds}, {"config", job.config}, {"facts", job.facts},
                 {"files", files}}
      .dump();
}

Job parse_job(const std::string& text) {
  if (text.size() > kMostJob) no_job("it is too long");
  // Of two fields with one name, JSON parsers use either.
  std::vector<std::set<std::string>> names_of;  // of the objects that are open
  std::string twice;
  const auto watch = [&](int, JobJson::parse_event_t event, const JobJson& value) {
    if (event == JobJson::parse_event_t::object_start) names_of.emplace_back();
    if (event == JobJson::parse_event_t::object_end && !names_of.empty()) names_of.pop_back();
    if (event == JobJson::parse_event_t::key && !names_of.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  const auto object = JobJson::parse(text, watch, false);
  if (!object.is_object()) no_job("it is no JSON object");
  if (!twice.empty()) no_job(fmt::format("it has \"{}\" twice", twice));
  if (need(object, "format") != kJobFormat) no_job(fmt::format("its format is not {}", kJobFormat));
  Job job;
  job.client = static_cast<ClientId>(need_number(object, "client", kMostClient - 1));
  const std::string run = need_text(object, "run", 16);
  const auto [end, error] = std::from_chars(run.data(), run.data() + run.size(), job.run, 16);
  if (run.size() != 16 || error != std::errc() || end != run.data() + run.size()) no_job("\"run\" is no fingerprint");
  job.rounds = static_cast<std::int64_t>(need_number(object, "rounds", kMostRounds));
  job.config = need_text(object, "config", kMostConfig);
  job.facts = need_text(object, "facts", kMostFacts);
  const JobJson& files = need(object, "files");
  if (!files.is_array() || files.size() > kMostFiles) no_job("\"files\" is not a list of files");
  std::uint64_t bytes = 0;
  std::set<std::pair<std::string, std::string>> names;
  for (const JobJson& entry : files) {
    job.files.push_back(read_job_file(entry));
    bytes += job.files.back().size;
    if (!names.emplace(job.files.back().place, job.files.back().name).second) no_job("a file occurs twice");
  }
  if (bytes > kMostBytes) no_job("its files are over 64 GiB");
  if (object.size() != 7) no_job("it has a field that this version does not know");
  return job;
}

}  // namespace chorus::inline serving
