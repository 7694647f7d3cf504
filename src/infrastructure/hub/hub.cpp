#include "infrastructure/hub/hub.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/hub/digest.h"

extern char** environ;  // NOLINT

namespace chorus::inline hub {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void check_name(const std::string& name, const char* what) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.' || c == '/';
  };
  const bool fine = !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), plain) &&
                    name.find("..") == std::string::npos && name.front() != '/' && name.back() != '/' &&
                    name.front() != '-' && std::count(name.begin(), name.end(), '/') <= 1;
  if (!fine)
    throw ConfigError(fmt::format("'{}' is not {} on a hub, such as google/bert_uncased_L-2_H-128_A-2", name, what));
}

/// A path in a URL: everything but letters, digits and -._~/ as %XX.
std::string url_path(const std::string& path) {
  std::string text;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~' || c == '/';
    text += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return text;
}

/// Runs curl, which continues a file that was begun. Secrets go through a pipe, not through the arguments.
/// False: the server cannot continue a file, so that the begun one must go.
bool fetch(const std::string& url, const fs::path& to, const std::string& token) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) throw WorldError("no pipe can be made");
  const std::string configuration = token.empty() ? "" : fmt::format("header = \"Authorization: Bearer {}\"\n", token);
  std::vector<std::string> words = {"curl",
                                    "--fail",
                                    "--location",
                                    "--silent",
                                    "--retry",
                                    "3",
                                    "--proto",
                                    "=http,https",
                                    "--connect-timeout",
                                    "20",
                                    "--speed-time",
                                    "60",
                                    "--speed-limit",
                                    "1",
                                    "--continue-at",
                                    "-",
                                    "--config",
                                    "-",
                                    "--output",
                                    to.string(),
                                    url};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[0], STDIN_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, "curl", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[0]);
  [[maybe_unused]] const auto written = ::write(pipe[1], configuration.data(), configuration.size());
  ::close(pipe[1]);
  if (failed != 0) throw WorldError("the program curl is missing, which downloads; install it: apt-get install curl");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) throw Interrupted("the download was stopped; the same command continues it");
  const int code = WEXITSTATUS(status);
  if (code == 0) return true;
  if (code == 33) return false;
  const std::string why = code == 22               ? "the hub does not have it, or does not show it to you"
                          : code == 6 || code == 7 ? "the hub cannot be reached"
                          : code == 23             ? "the disk is full, or the folder cannot be written"
                          : code == 28             ? "the hub does not answer"
                                                   : fmt::format("curl failed with status {}", code);
  throw WorldError(fmt::format("{}: {}", url, why));
}

/// Downloads one file into the cache unless it is there.
bool fetch_blob(const HubFile& file, const std::string& url, const fs::path& blobs, const HubOptions& options) {
  const fs::path blob = blobs / file.id, part = blobs / (file.id + ".incomplete");
  if (fs::exists(blob)) return false;
  std::error_code ignored;
  if (fs::exists(part) && fs::file_size(part) > file.size) fs::remove(part, ignored);
  if (file.size == 0) {
    write_file(part, "");
  } else if (!fs::exists(part) || fs::file_size(part) < file.size) {
    if (!fetch(url, part, options.token)) {
      fs::remove(part, ignored);
      fetch(url, part, options.token);
    }
  }
  const std::uint64_t size = fs::exists(part) ? fs::file_size(part) : 0;
  const std::string id = size != file.size ? "" : file.large ? sha256_of_file(part) : git_name_of_file(part);
  if (id != file.id) {
    fs::remove(part, ignored);
    throw WorldError(fmt::format("{}: what arrived is not what the hub announced (by {}); it was removed, try again",
                                 url, size != file.size ? "its size" : "its checksum"));
  }
  fs::rename(part, blob);
  return true;
}

void link_snapshot(const fs::path& blob, const fs::path& entry) {
  fs::create_directories(entry.parent_path());
  std::error_code ignored;
  if (fs::exists(entry, ignored)) return;
  fs::remove(entry, ignored);  // a link to nothing
  fs::create_symlink(blob.lexically_relative(entry.parent_path()), entry);
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions options;
  options.endpoint = variable("HF_ENDPOINT");
  if (options.endpoint.empty()) options.endpoint = "https://huggingface.co";
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.endpoint.starts_with("https://") && !options.endpoint.starts_with("http://")) {
    throw ConfigError(fmt::format("HF_ENDPOINT is {}; it should start with https://", options.endpoint));
  }
  options.token = variable("HF_TOKEN");
  for (const char c : options.token) {
    if (c <= 0x20 || c == '"' || c == '\\' || c == 0x7f) throw ConfigError("HF_TOKEN has characters that no token has");
  }
  options.cache = variable("HF_HUB_CACHE");
  if (options.cache.empty() && !variable("HF_HOME").empty()) options.cache = fs::path(variable("HF_HOME")) / "hub";
  if (options.cache.empty()) {
    const std::string base = variable("XDG_CACHE_HOME");
    options.cache = (base.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(base)) / "huggingface" / "hub";
  }
  return options;
}

HubModel get_model(const std::string& name, const std::string& revision, const HubOptions& options) {
  check_name(name, "the name of a model");
  check_name(revision, "a revision");
  std::string folder_name = "models--" + name;
  if (const std::size_t slash = folder_name.find('/'); slash != std::string::npos) folder_name.replace(slash, 1, "--");
  const fs::path folder = options.cache / folder_name, blobs = folder / "blobs", reference = folder / "refs" / revision;
  std::error_code error;
  fs::create_directories(blobs, error);
  if (!error) fs::create_directories(reference.parent_path(), error);
  if (error) throw DataError(fmt::format("{}: cannot be made: {}", folder.string(), error.message()));

  const std::string about =
      fmt::format("{}/api/models/{}/revision/{}?blobs=true", options.endpoint, name, url_path(revision));
  const fs::path answer = folder / fmt::format(".listing.{}.json", ::getpid());
  HubListing listing;
  try {
    fetch(about, answer, options.token);
    const std::string text = read_file(answer, std::uint64_t{64} << 20);
    fs::remove(answer, error);
    listing = parse_listing(text, about);
  } catch (const WorldError&) {
    fs::remove(answer, error);
    // Without a network, what is in the cache.
    if (fs::exists(reference)) {
      std::string commit = read_file(reference, 1000);
      std::erase_if(commit, [](char c) { return c == '\n' || c == '/' || c == '.'; });
      const fs::path snapshot = folder / "snapshots" / commit;
      if (!commit.empty() && fs::exists(snapshot / "config.json")) {
        return {.folder = snapshot, .commit = commit, .fetched = 0, .offline = true};
      }
    }
    throw;
  }

  HubModel model{.folder = folder / "snapshots" / listing.commit, .commit = listing.commit};
  const std::vector<HubFile> files = needed_files(listing, name);
  std::uint64_t total = 0, done = 0;
  for (const HubFile& file : files) total += file.size;
  for (const HubFile& file : files) {
    const std::string url =
        fmt::format("{}/{}/resolve/{}/{}", options.endpoint, name, listing.commit, url_path(file.path));
    const fs::path entry = model.folder / file.path;
    if (!fs::exists(entry)) {
      if (fetch_blob(file, url, blobs, options)) ++model.fetched;
      link_snapshot(blobs / file.id, entry);
    }
    done += file.size;
    if (options.progress) options.progress(file, done, total);
  }
  write_file(reference, listing.commit);
  return model;
}

}  // namespace chorus::inline hub
