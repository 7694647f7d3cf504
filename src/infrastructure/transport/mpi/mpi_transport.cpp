#include <charconv>

#include "core/base/error.h"
#include "infrastructure/transport/mpi/mpi_world.h"

namespace chorus::inline transport_mpi {
namespace {

constexpr std::uint64_t kServerKey = 0;
const MailConfig kMpiMail{.chunk = 1U << 20U, .checks_data = false};

/// "RANK/KEY".
std::string mpi_address(int rank, std::uint64_t key) { return std::to_string(rank) + "/" + std::to_string(key); }

class MpiMailbox final : public Mailbox {
 public:
  explicit MpiMailbox(std::uint64_t key) : key_(key) {}
  ~MpiMailbox() override { MpiWorld::instance().dismiss(key_); }
  void open(Receive receive) override { MpiWorld::instance().enlist(key_, std::move(receive)); }
  void post(const std::string& to, std::string bytes) override {
    int rank = 0;
    std::uint64_t key = 0;
    const char* end = to.data() + to.size();
    const auto first = std::from_chars(to.data(), end, rank);
    check(first.ec == std::errc() && first.ptr != end && *first.ptr == '/' &&
              std::from_chars(first.ptr + 1, end, key).ec == std::errc(),
          "an address of MPI is RANK/KEY");
    MpiWorld::instance().post(rank, key, key_, std::move(bytes));
  }
  std::string server() const override { return mpi_address(0, kServerKey); }

 private:
  std::uint64_t key_;
};

/// Frames between the ranks of an MPI job. The server is at rank 0; clients are at any rank. Everybody was started by
/// the same mpirun, so nobody proves who they are.
class MpiTransport final : public Transport {
 public:
  std::unique_ptr<ServerTransport> listen() override {
    check(MpiWorld::instance().rank() == 0, "the server of an MPI job is at rank 0");
    return make_mail_server(std::make_unique<MpiMailbox>(kServerKey), kMpiMail);
  }
  std::unique_ptr<ClientTransport> connect() override {
    const std::uint64_t session = new_session();
    return make_mail_client(std::make_unique<MpiMailbox>(session), kMpiMail, session);
  }
  Place place() const override {
    const MpiWorld& world = MpiWorld::instance();
    return {world.rank(), world.size(), world.beside(), world.local()};
  }
};

const Registration<Transports> kRegisteredMpi{"mpi", "between the ranks of an MPI job (mpirun)",
                                              [] { return std::make_unique<MpiTransport>(); }};

}  // namespace
}  // namespace chorus::inline transport_mpi
