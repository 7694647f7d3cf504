#include "core/config/registry.h"

namespace chorus::inline transport_mpi {
namespace {

const NameRegistration kMissing{
    {.kind = "transport",
     .name = "mpi",
     .summary = "between the ranks of an MPI job (mpirun)",
     .unavailable = "it was built without MPI (install libopenmpi-dev and openmpi-bin, and build again)"}};

}  // namespace
}  // namespace chorus::inline transport_mpi
