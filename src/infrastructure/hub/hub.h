#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace chorus::inline hub {

/// One file of a repository on a hub.
struct HubFile {
  std::string path;  ///< in the repository, with /
  std::uint64_t size = 0;
  std::string id;      ///< SHA-256 of a large file, git's name of a small one; hexadecimal
  bool large = false;  ///< id is SHA-256
};

/// A revision of a repository.
struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

/// Reads the hub's answer about a model (`GET /api/models/NAME/revision/REVISION?blobs=true`). DataError for anything
/// that is not one, or a path that would leave its folder.
HubListing parse_listing(const std::string& json, const std::string& where);

/// The files that Chorus loads, of all that a repository has: configuration, tokenizer, sentence-transformers modules,
/// and the weights once: safetensors where they exist, else PyTorch's. DataError when there are no weights.
std::vector<HubFile> needed_files(const HubListing& listing, const std::string& name);

struct HubOptions {
  std::string endpoint;         ///< "https://huggingface.co"; $HF_ENDPOINT names a mirror
  std::filesystem::path cache;  ///< hub cache in Hugging Face's layout
  std::string token{};          ///< $HF_TOKEN, for repositories that need one; sent to the endpoint only
  std::function<void(const HubFile&, std::uint64_t done, std::uint64_t total)>
      progress{};  ///< after each file, in bytes

  /// From the environment: HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, as Hugging Face's own programs.
  static HubOptions from_environment();
};

struct HubModel {
  std::filesystem::path folder;  ///< of the snapshot: a Hugging Face model folder
  std::string commit;
  std::size_t fetched = 0;  ///< files; the others were in the cache
  bool offline = false;     ///< the hub was not reached, and the cache had it
};

/// Puts a model into the cache and returns its folder. The cache has the layout of Hugging Face's own
/// (models--ORG--NAME/{blobs, refs, snapshots}), so what Python downloaded is found and the other way round. A file
/// that was interrupted continues where it stopped. Size and checksum of every file are compared with what the hub says
/// before it is used. Downloads run in the program `curl`, which knows proxies, certificates and redirects.
///
/// ConfigError for a name that is none; WorldError when the hub cannot be reached or does not have it.
///
///     const HubModel model = get_model("bert-base-uncased", "main", HubOptions::from_environment());
HubModel get_model(const std::string& name, const std::string& revision, const HubOptions& options);

}  // namespace chorus::inline hub
