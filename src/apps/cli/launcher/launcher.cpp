// The program `chorus`: answers --version itself and becomes chorus-main, which lies beside it, for everything else.
// chorus-main loads LibTorch and the 290 libraries that it needs, which takes half a second.
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <string>

#include "apps/cli/version.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--version") == 0) {
    std::puts(chorus::version());
    if (std::fflush(stdout) == 0) return 0;
    std::fputs("chorus: the output cannot be written\n", stderr);
    return 4;
  }
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string program = std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0) + "-main";
  ::execv(program.c_str(), argv);
  std::fprintf(stderr, "chorus: %s: %s; it belongs beside chorus\n", program.c_str(), std::strerror(errno));
  return 4;
}
