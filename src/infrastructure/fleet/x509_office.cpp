#include <chrono>
#include <thread>

#include "core/base/error.h"
#include "infrastructure/fleet/enrolment.h"

namespace chorus::inline fleet {
namespace {

namespace fs = std::filesystem;

std::time_t this_moment() { return std::time(nullptr); }

class X509Office final : public FleetOffice {
 public:
  void create(const FleetCreation& creation) override { FleetFolder::create(creation, this_moment()); }
  FleetInvitation invite(const fs::path& folder, const std::string& name, double hours) override {
    return FleetFolder(folder).invite(name, hours, this_moment());
  }
  std::vector<FleetMember> members(const fs::path& folder) override {
    return FleetFolder(folder).members(this_moment());
  }
  void revoke(const fs::path& folder, const std::string& name) override { FleetFolder(folder).revoke(name); }
  std::time_t rotate(const fs::path& folder) override { return FleetFolder(folder).rotate(this_moment()); }
  void admit(const fs::path& folder, const std::function<bool()>& stop,
             const std::function<void(const std::string&)>& joined) override {
    const EnrolmentServer server(
        {.folder = folder, .address = FleetFolder(folder).enrolment_listening_address(), .joined = joined});
    while (!stop()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  FleetIdentity enrol(const FleetEnrolment& enrolment) override { return fleet::enrol(enrolment); }
  std::optional<FleetIdentity> identity(const fs::path& folder) override { return read_identity(folder); }
  bool joined_with(const fs::path& folder, const std::string& token) override {
    return fleet::joined_with(folder, token);
  }
  FleetEnd server_end(const fs::path& folder) override {
    const FleetFolder fleet(folder);
    return {.address = fleet.address(),
            .certificate = folder / "server.crt",
            .key = folder / "server.key",
            .authority = folder / "authority.crt",
            .listen = fleet.listening_address(),
            .revoked = folder / "revoked",
            .client_certificate = folder / "server_as_client.crt",
            .client_key = folder / "server_as_client.key",
            .broker_members = folder / "broker" / "members"};
  }
  FleetEnd client_end(const fs::path& folder) override {
    const auto known = read_identity(folder);
    check(known.has_value(), "nobody has enrolled in this folder");
    return {.address = known->server,
            .certificate = folder / "client.crt",
            .key = folder / "client.key",
            .authority = folder / "authority.crt"};
  }
};

const Registration<FleetOffices> kRegisteredOffice{"x509",
                                                   "a private authority, and certificates for a server and its clients",
                                                   [] { return std::make_unique<X509Office>(); }};

}  // namespace
}  // namespace chorus::inline fleet
