#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/client_id.h"

namespace chorus::inline serving {

/// Topics of control frames (proto/message.proto).
inline constexpr const char* kJobTopic = "job";            ///< server: text is a Job
inline constexpr const char* kWantTopic = "want";          ///< client: text is a JSON list of digests it lacks
inline constexpr const char* kFileTopic = "file";          ///< server: text is a digest, data the file
inline constexpr const char* kRefuseTopic = "refuse";      ///< client: text says why it does not take part
inline constexpr const char* kFinishedTopic = "finished";  ///< server: the run has ended

inline constexpr std::uint64_t kMostJobFileBytes = 2046ULL << 20U;  ///< a frame carries 2047 MiB

/// How a reply begins that a client's policy forbids.
inline constexpr std::string_view kRefuses = "it refuses: ";

inline constexpr const char* kPublicPlace = "public";  ///< of files of the public set

/// A file of the network's or the tokenizer's folder, or of the public set.
struct JobFile {
  std::string place;  ///< "model", "tokenizer" or "public"
  std::string name;   ///< without a folder
  std::uint64_t size = 0;
  std::string digest;  ///< fingerprint of the content, 32 hexadecimal digits
  bool operator==(const JobFile&) const = default;
};

/// What a server offers to a client that has connected: everything it needs but its own data. Travels as JSON.
///
/// The configuration is the server's without what is its own business: paths, partition, device, emulation.
struct Job {
  ClientId client = 0;
  std::uint64_t run = 0;    ///< fingerprint of the run
  std::int64_t rounds = 1;  ///< of the whole run
  std::string config;       ///< YAML
  std::string facts;        ///< task_facts.h
  std::vector<JobFile> files = {};
};

std::string to_json(const Job& job);
/// DataError for anything that `to_json` does not write, and for names and sizes that are not acceptable.
Job parse_job(const std::string& json);

/// The digests of the files that a client lacks (kWantTopic), at most so many. DataError for anything else.
std::vector<std::string> parse_wanted(const std::string& json, std::size_t most);

/// Letters, digits, `.`, `_` and `-`, and not hidden.
bool is_plain_name(const std::string& name);

}  // namespace chorus::inline serving
