#include <cstdio>
#include <cstdlib>

#include "apps/cli/cli.h"

int main(int argc, char** argv) {
  const int status = chorus::cli::run(argc, argv);
  std::fflush(nullptr);
  // Files are closed and threads of ours have ended: what is left is tearing down LibTorch and CUDA, a third of a
  // second that the system does faster.
  std::_Exit(status);
}
