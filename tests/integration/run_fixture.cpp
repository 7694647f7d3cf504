#include "tests/integration/run_fixture.h"

#include <sys/resource.h>

namespace chorus::inline integration {

Chorus::Chorus(const std::vector<std::string>& arguments, fs::path output, std::size_t file_limit)
    : output_(std::move(output)) {
  child_ = ::fork();
  if (child_ != 0) return;
  if (file_limit > 0) {
    const rlimit limit{file_limit, file_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
  }
  if (::freopen(output_.c_str(), "w", stdout) == nullptr || ::dup2(1, 2) < 0) ::_exit(99);
  if (::chdir(CHORUS_SOURCE_DIR) != 0) ::_exit(98);
  std::vector<char*> words{const_cast<char*>(CHORUS_PROGRAM)};
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execv(CHORUS_PROGRAM, words.data());
  ::_exit(97);
}

}  // namespace chorus::inline integration
