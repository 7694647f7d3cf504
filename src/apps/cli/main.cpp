#include <cstdio>
#include <cstdlib>

#include "apps/cli/cli.h"

int main(int argc, char** argv) {
  const int status = chorus::cli::run(argc, argv);
  std::fflush(nullptr);
  // Files are closed and our threads have ended. What remains is tearing down LibTorch and CUDA, which takes a third of
  // a second; the system does it faster.
  // After a success handlers of std::at_quick_exit run (MPI); after a failure mpirun ends the other processes.
  status == 0 ? std::quick_exit(status) : std::_Exit(status);
}
