#include "infrastructure/fleet/tls_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "core/base/error.h"
#include "core/files/files.h"
#include "infrastructure/certificates/certificate.h"

namespace chorus::inline fleet {
namespace {

using SteadyClock = std::chrono::steady_clock;
using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Failure lost(const std::string& why) { return {Failure::Kind::kDisconnected, why}; }

Context make_context(const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method), &SSL_CTX_free);
  check(context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1, "TLS 1.3 is missing");
  return context;
}

Addresses resolve(const std::string& address, int flags) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    throw ConfigError(fmt::format("the address is \"{}\"; it must be HOST:PORT", address));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

std::string pem_of(X509* certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(BIO_new(BIO_s_mem()), &BIO_free);
  check(bio != nullptr && PEM_write_bio_X509(bio.get(), certificate) == 1, "a certificate cannot be written");
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

/// Whether the pinned authority signed the server's certificate, and it has the right name and purpose.
bool pinned(SSL* ssl, const TlsSocket::Pin& pin) {
  STACK_OF(X509)* chain = SSL_get_peer_cert_chain(ssl);
  X509* leaf = SSL_get0_peer_certificate(ssl);
  if (chain == nullptr || leaf == nullptr) return false;
  X509* root = nullptr;
  for (int i = 0; i < sk_X509_num(chain); ++i) {
    X509* candidate = sk_X509_value(chain, i);
    if (certificate_facts(pem_of(candidate)).fingerprint == pin.fingerprint) root = candidate;
  }
  if (root == nullptr) return false;
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> store(X509_STORE_new(), &X509_STORE_free);
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> verify(X509_STORE_CTX_new(),
                                                                               &X509_STORE_CTX_free);
  check(store != nullptr && verify != nullptr && X509_STORE_add_cert(store.get(), root) == 1 &&
            X509_STORE_CTX_init(verify.get(), store.get(), leaf, nullptr) == 1,
        "OpenSSL cannot verify");
  X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(verify.get());
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_NO_CHECK_TIME);
  X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_SERVER);
  X509_VERIFY_PARAM_set1_host(rules, pin.server_name.c_str(), pin.server_name.size());
  return X509_verify_cert(verify.get()) == 1;
}

}  // namespace

struct TlsSocket::State {
  State(int connected, SSL_CTX* context, double seconds)
      : socket(connected),
        ssl(SSL_new(context), &SSL_free),
        deadline(SteadyClock::now() +
                 std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds))) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    check(ssl != nullptr && SSL_set_fd(ssl.get(), socket) == 1, "OpenSSL has no connection");
  }
  ~State() { ::close(socket); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Limits the next call to the deadline. False: it has passed.
  bool arm() const {
    const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return false;
    const timeval time{left / 1'000'000, static_cast<suseconds_t>(left % 1'000'000)};
    return ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
           ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
  }

  int socket;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl;
  SteadyClock::time_point deadline;
};

TlsSocket::TlsSocket(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSocket::TlsSocket(TlsSocket&&) noexcept = default;
TlsSocket& TlsSocket::operator=(TlsSocket&&) noexcept = default;
TlsSocket::~TlsSocket() {
  if (state_ && state_->arm()) SSL_shutdown(state_->ssl.get());
}

Result<TlsSocket> TlsSocket::serve(int socket, const ServerFiles& files, double seconds) {
  const Context context = make_context(TLS_server_method());
  auto state = std::make_unique<State>(socket, context.get(), seconds);
  SSL* ssl = state->ssl.get();
  const std::string authority = read_file(files.authority);
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(authority.data(), static_cast<int>(authority.size())), &BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> root(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr),
                                                         &X509_free);
  if (root == nullptr || SSL_use_certificate_file(ssl, files.certificate.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_use_PrivateKey_file(ssl, files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_add1_chain_cert(ssl, root.get()) != 1) {
    return Failure{Failure::Kind::kIo, "the server's certificate or key cannot be read"};
  }
  if (!state->arm() || SSL_accept(ssl) != 1) return lost("the other end does not speak TLS 1.3");
  return TlsSocket(std::move(state));
}

Result<TlsSocket> TlsSocket::connect(const std::string& address, const Pin& pin, double seconds) {
  const Addresses addresses = resolve(address, 0);
  if (addresses == nullptr) return lost(fmt::format("{} cannot be found", address));
  const Context context = make_context(TLS_client_method());
  std::string why = "no address";
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (socket < 0) continue;
    auto state = std::make_unique<State>(socket, context.get(), seconds);
    if (!state->arm() || ::connect(socket, at->ai_addr, at->ai_addrlen) != 0) {
      why = std::strerror(errno);
      continue;
    }
    if (SSL_connect(state->ssl.get()) != 1) {
      why = "it does not speak TLS 1.3";
      continue;
    }
    if (!pinned(state->ssl.get(), pin)) {
      return Failure{
          Failure::Kind::kRefused,
          fmt::format("{} is not the server of this invitation: its certificate is another fleet's", address)};
    }
    return TlsSocket(std::move(state));
  }
  return lost(fmt::format("{} cannot be reached: {}", address, why));
}

Result<std::string> TlsSocket::read_line() {
  std::string line;
  while (line.size() <= kLongestLine) {
    char byte = 0;
    if (!state_->arm()) return Failure{Failure::Kind::kTimeout, "the other end is too slow"};
    if (SSL_read(state_->ssl.get(), &byte, 1) != 1) return lost("the connection was cut");
    if (byte == '\n') return line;
    line += byte;
  }
  return Failure{Failure::Kind::kMalformed, "the other end sends a line that is too long"};
}

bool TlsSocket::write_line(const std::string& text) {
  const std::string line = text + "\n";
  return state_->arm() && SSL_write(state_->ssl.get(), line.data(), static_cast<int>(line.size())) > 0;
}

int listen_at(const std::string& address) {
  const Addresses addresses = resolve(address, AI_PASSIVE);
  std::string why = "there is no such address";
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    const int socket = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const int on = 1;
    if (socket >= 0 && ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(socket, at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket, SOMAXCONN) == 0) {
      return socket;
    }
    why = std::strerror(errno);
    if (socket >= 0) ::close(socket);
  }
  throw WorldError(fmt::format("cannot listen on {}: {}", address, why));
}

}  // namespace chorus::inline fleet
