#pragma once

#include <ctime>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "core/files/watched_file.h"

namespace chorus::inline transport_mqtt {

/// Until when clients may take part: a file of lines "SECONDS NAME", seconds since 1970 and 0 for who is revoked, which
/// `chorus fleet` writes. A server does not see the certificates of its broker's clients. Checked twice per second.
class MemberList {
 public:
  /// A missing file knows nobody; who is not in it may take part: the broker knows the certificate.
  explicit MemberList(const std::filesystem::path& file) : file_(file) {}
  /// Why a client must not be connected now; empty: it may.
  std::string refusal(const std::string& name);

 private:
  void read(bool at_once);
  std::string judge(const std::string& name) const;

  std::mutex mutex_;
  WatchedFile file_;
  std::map<std::string, std::time_t> until_;
};

}  // namespace chorus::inline transport_mqtt
