#include <fmt/format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/transport/grpc/byte_buffers.h"
#include "infrastructure/transport/grpc/connection_settings.h"
#include "infrastructure/transport/grpc/grpc_transport.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_grpc {
namespace {

using ClientClock = std::chrono::steady_clock;
using grpc::StatusCode;

constexpr std::size_t kMostFramesUnderWay = 16;
constexpr std::size_t kMostBytesUnderWay = 4U << 20U;  // with one larger frame always
constexpr std::size_t kMostBytesUnread = 64U << 20U;
constexpr double kFirstPause = 0.1, kPauseGrowth = 1.6;
constexpr int kMostCuts = 5;              // of one message
constexpr double kLinger = 5;             // seconds for what was sent before the client closed
constexpr double kGoodbye = 1;            // where nothing is under way
constexpr double kSecondsOfSilence = 30;  // between two log lines about the same trouble

std::chrono::duration<double> for_seconds(double seconds) { return std::chrono::duration<double>(seconds); }

std::string random_session() {
  std::random_device entropy;
  std::string bytes;
  while (bytes.size() < kSessionBytes) bytes.push_back(static_cast<char>(entropy() & 0xffU));
  return bytes;
}

std::shared_ptr<grpc::Channel> make_channel(const GrpcConfig& config) {
  grpc::ChannelArguments arguments;
  apply_settings(config, arguments);
  if (!config.tls.secure()) {
    return grpc::CreateCustomChannel(config.address, grpc::InsecureChannelCredentials(), arguments);
  }
  arguments.SetSslTargetNameOverride(config.server_name);
  return grpc::CreateCustomChannel(config.address, channel_credentials(config.tls), arguments);
}

// What speaks TLS at this port and no HTTP/2 is probably the fleet's broker.
std::string trouble_text(const grpc::Status& status) {
  if (status.error_message().empty()) return "the connection was cut";
  if (status.error_message().find("ALPN") == std::string::npos) return status.error_message();
  return "what answers there is no gRPC server; the server of this fleet may use mqtt: --transport mqtt";
}

class ClientStream;

/// Everything is guarded by one mutex; see GrpcServer.
class GrpcClient final : public ClientTransport {
 public:
  explicit GrpcClient(const GrpcConfig& config)
      : config_(config), outbox_(config.chunk_bytes()), assembler_(config.frame_bytes()) {
    (void)make_channel(config);  // a mistake in the files is told at once
    thread_ = std::thread([this] { run(); });
  }
  ~GrpcClient() override;
  bool send(FrameBytes frame) override;
  std::optional<std::string> receive(std::optional<double> seconds) override;
  bool connected() const override;
  std::string refusal() const override {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

  void read_done(ClientStream& stream, bool ok);
  void write_done(ClientStream& stream, bool ok);
  void done(ClientStream& stream, const grpc::Status& status);

 private:
  void run();
  void exchange(std::unique_lock<std::mutex>& lock, const std::shared_ptr<grpc::Channel>& channel);
  void judge(const grpc::Status& status);
  void count_cut();
  bool gets_nowhere() const;
  void complain(const std::string& what);
  void gone(const std::string& why);
  void refuse(const std::string& why);  // trying again is of no use
  // With the mutex held:
  void handle(ClientStream& stream, const ArrivedPacket& arrived);
  void pump(ClientStream& stream);
  bool expired() const {
    return closing_ && (outbox_.frames() == 0 || delivered_ || ClientClock::now() > linger_until_);
  }

  const GrpcConfig config_;
  const std::string session_ = random_session();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Outbox outbox_;
  Assembler assembler_;
  Receipts receipts_;
  std::deque<std::string> inbox_;
  std::size_t unread_ = 0;  // bytes in the inbox
  ClientStream* stream_ = nullptr;
  std::uint64_t epoch_ = 0;
  /// Connections that were cut in a row before the same message, either way, had arrived; the server did not make
  /// this end wait for space.
  struct Stuck {
    std::uint64_t sent = 0, received = 0;
    int cuts = 0;
    ClientClock::time_point first = {}, last = {};
  } stuck_;
  std::string refusal_;
  bool ended_ = false, closing_ = false;
  bool delivered_ = false;  // the server has heard the goodbye
  ClientClock::time_point linger_until_ = {}, last_seen_ = ClientClock::now(), complained_ = {};
  std::thread thread_;
};

/// One call. Holds keep it alive between reads and writes; `release` gives them up.
class ClientStream final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  ClientStream(GrpcClient& client, const std::shared_ptr<grpc::Channel>& channel) : stub_(channel), client_(client) {}
  void start() {
    stub_.PrepareBidiStreamingCall(&context, kExchangeMethod, {}, this);
    AddHold();
    StartRead(&in);
    StartCall();
  }
  void release() {
    if (!std::exchange(released, true)) RemoveHold();
  }
  void OnReadDone(bool ok) override { client_.read_done(*this, ok); }
  void OnWriteDone(bool ok) override { client_.write_done(*this, ok); }
  void OnDone(const grpc::Status& its) override { client_.done(*this, its); }

  grpc::ClientContext context;
  bool writing = false, opened = false, said_open = false, bye = false, released = false;
  bool paused = false;  // the inbox is full
  bool finished = false;
  grpc::Status status;
  grpc::ByteBuffer in, out;

 private:
  grpc::GenericStub stub_;
  GrpcClient& client_;
};

GrpcClient::~GrpcClient() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    const auto linger = for_seconds(outbox_.frames() > 0 ? kLinger : kGoodbye);
    linger_until_ = ClientClock::now() + std::chrono::duration_cast<ClientClock::duration>(linger);
    if (stream_ != nullptr) {
      if (std::exchange(stream_->paused, false)) stream_->StartRead(&stream_->in);
      pump(*stream_);
    }
    changed_.notify_all();
  }
  thread_.join();
}

bool GrpcClient::send(FrameBytes frame) {
  if (frame.size() > config_.frame_bytes()) throw WorldError(over_limit(frame.size(), config_.frame_bytes()));
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return ended_ || (outbox_.frames() < kMostFramesUnderWay && outbox_.bytes() < kMostBytesUnderWay); });
  if (ended_) return false;
  outbox_.push(std::make_shared<const FrameBytes>(std::move(frame)));
  if (stream_ != nullptr) pump(*stream_);
  return true;
}

std::optional<std::string> GrpcClient::receive(std::optional<double> seconds) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !inbox_.empty() || ended_; };
  if (!seconds) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_for(lock, for_seconds(*seconds), ready)) {
    return std::nullopt;
  }
  if (inbox_.empty()) return std::nullopt;
  std::string frame = std::move(inbox_.front());
  inbox_.pop_front();
  unread_ -= frame.size();
  if (stream_ != nullptr && stream_->paused && unread_ < kMostBytesUnread) {
    stream_->paused = false;
    stream_->StartRead(&stream_->in);
  }
  return frame;
}

bool GrpcClient::connected() const {
  const std::lock_guard lock(mutex_);
  return !ended_ || !inbox_.empty();
}

// Connects again and again until the session is over.
void GrpcClient::run() {
  std::mt19937 jitter{std::random_device{}()};
  double pause = kFirstPause;
  std::unique_lock lock(mutex_);
  while (!ended_ && !expired()) {
    lock.unlock();
    std::shared_ptr<grpc::Channel> channel;
    std::string trouble;  // such as a certificate that has expired meanwhile
    try {
      channel = make_channel(config_);
    } catch (const Error& error) {
      trouble = error.what();
    }
    lock.lock();
    if (!trouble.empty() && !ended_) refuse(trouble);
    const ClientClock::time_point before = last_seen_;
    if (channel) exchange(lock, channel);
    if (last_seen_ != before) pause = kFirstPause;
    const double waited = std::chrono::duration<double>(ClientClock::now() - last_seen_).count();
    if (!ended_ && config_.patience > 0 && waited > config_.patience) {
      gone(fmt::format("it could not be reached for {:.0f} s", waited));
    }
    if (ended_ || expired()) break;
    const double part = std::uniform_real_distribution<>(0.5, 1.0)(jitter);
    changed_.wait_for(lock, for_seconds(pause * part), [&] { return ended_ || expired(); });
    pause = std::min(pause * kPauseGrowth, config_.retry);
  }
  ended_ = true;
  changed_.notify_all();
}

// One connection, from its beginning to its end.
void GrpcClient::exchange(std::unique_lock<std::mutex>& lock, const std::shared_ptr<grpc::Channel>& channel) {
  ClientStream stream(*this, channel);
  assembler_.restart();
  receipts_.clear();  // the first packet says what has arrived
  stream_ = &stream;
  stream.start();
  pump(stream);
  const auto over = [&] { return stream.finished || ended_ || (closing_ && ClientClock::now() > linger_until_); };
  while (!over()) {
    if (closing_) {
      changed_.wait_until(lock, linger_until_, over);
    } else {
      changed_.wait(lock, [&] { return over() || closing_; });
    }
  }
  stream_ = nullptr;
  if (!stream.finished) stream.context.TryCancel();
  stream.release();
  changed_.wait(lock, [&] { return stream.finished; });
  const bool cut = stream.opened && stream.status.error_code() == StatusCode::UNAVAILABLE;
  if (cut && !ended_ && !closing_) count_cut();
  judge(stream.status);
}

void GrpcClient::count_cut() {
  if (outbox_.frames() == 0 && !assembler_.partial()) return;
  if (stuck_.cuts == 0 || stuck_.sent != outbox_.first() || stuck_.received != assembler_.received()) {
    stuck_ = {outbox_.first(), assembler_.received(), 0, ClientClock::now()};
  }
  ++stuck_.cuts;
  stuck_.last = ClientClock::now();
}

// Each connection sends the message from its start, and meanwhile a round waits for it. A new session lets it go on.
bool GrpcClient::gets_nowhere() const {
  return stuck_.cuts >= kMostCuts && stuck_.sent == outbox_.first() && stuck_.received == assembler_.received() &&
         stuck_.last - stuck_.first > for_seconds(config_.stall);
}

// What the end of a stream means.
void GrpcClient::judge(const grpc::Status& status) {
  if (ended_ || closing_) return;
  switch (status.error_code()) {
    case StatusCode::ABORTED:
      gone(status.error_message());
      return;
    case StatusCode::PERMISSION_DENIED:
    case StatusCode::UNAUTHENTICATED:
    case StatusCode::FAILED_PRECONDITION:
    case StatusCode::INVALID_ARGUMENT:
    case StatusCode::UNIMPLEMENTED:
      refuse(status.error_message());
      return;
    case StatusCode::ALREADY_EXISTS:
      complain("does not accept this client, trying again: " + status.error_message());
      return;
    default:
      complain("cannot be reached, trying again: " + trouble_text(status));
  }
}

void GrpcClient::refuse(const std::string& why) {
  Log("transport").error("{} refuses this client: {}", config_.address, why);
  refusal_ = why;
  ended_ = true;
  changed_.notify_all();
}

void GrpcClient::gone(const std::string& why) {
  Log("transport").error("the connection to {} has ended: {}", config_.address, why);
  ended_ = true;
  changed_.notify_all();
}

void GrpcClient::complain(const std::string& what) {
  const auto now = ClientClock::now();
  if (complained_ != ClientClock::time_point{} && now - complained_ < for_seconds(kSecondsOfSilence)) return;
  complained_ = now;
  Log("transport").warning("{} {}", config_.address, what);
}

void GrpcClient::read_done(ClientStream& stream, bool ok) {
  auto packet = ok ? from_buffer(stream.in) : Result<ArrivedPacket>(Failure{Failure::Kind::kDisconnected, ""});
  const std::lock_guard lock(mutex_);
  if (!ok || stream_ != &stream) {
    stream.release();
    return;
  }
  if (!packet.ok()) {
    gone(packet.failure().message);
  } else {
    handle(stream, packet.value());
  }
  if (ended_) {
    stream.release();
  } else if (unread_ >= kMostBytesUnread && !closing_) {
    stream.paused = true;
  } else {
    stream.StartRead(&stream.in);
  }
}

void GrpcClient::write_done(ClientStream& stream, bool ok) {
  const std::lock_guard lock(mutex_);
  stream.writing = false;
  stream.out.Clear();
  if (ok && stream_ == &stream) pump(stream);
}

void GrpcClient::done(ClientStream& stream, const grpc::Status& status) {
  const std::lock_guard lock(mutex_);
  stream.status = status;
  stream.finished = true;
  delivered_ = delivered_ || (stream.bye && status.ok());
  changed_.notify_all();
}

void GrpcClient::handle(ClientStream& stream, const ArrivedPacket& arrived) {
  const Packet& packet = arrived.packet;
  if (!stream.opened) {
    if (packet.kind != Packet::Kind::kOpened || !outbox_.restart(packet.received)) {
      gone("it is no Chorus server of this version");
      return;
    }
    stream.opened = true;
    if (packet.held) stuck_ = {};
    if (gets_nowhere()) {
      gone(fmt::format("it was cut {} times before a message had arrived; the link is too slow, or lost too often",
                       stuck_.cuts));
      return;
    }
    epoch_ = packet.epoch;
    last_seen_ = ClientClock::now();
    complained_ = {};
    changed_.notify_all();
    pump(stream);
    return;
  }
  last_seen_ = ClientClock::now();
  switch (packet.kind) {
    case Packet::Kind::kChunk: {
      auto frame = assembler_.add(packet.chunk, arrived.data);
      if (!frame.ok()) {
        gone(frame.failure().message);
        return;
      }
      if (!outbox_.acknowledge(packet.received)) {
        gone("it acknowledged what was never sent");
        return;
      }
      if (!frame.value() && !assembler_.partial()) receipts_.demand();
      if (frame.value()) {
        receipts_.add(frame.value()->size());
        unread_ += frame.value()->size();
        inbox_.push_back(std::move(frame.value()->bytes));
        changed_.notify_all();
      }
      pump(stream);
      return;
    }
    case Packet::Kind::kAck:
      if (!outbox_.acknowledge(packet.received)) gone("it acknowledged what was never sent");
      changed_.notify_all();
      pump(stream);
      return;
    case Packet::Kind::kBye:
      ended_ = true;
      changed_.notify_all();
      return;
    default:
      gone("it sent what only a client may send");
  }
}

void GrpcClient::pump(ClientStream& stream) {
  if (stream.writing || stream.released || stream.bye) return;
  if (!stream.said_open) {
    stream.said_open = true;
    stream.out = to_buffer(Packet{.kind = Packet::Kind::kOpen,
                                  .version = kStreamVersion,
                                  .session = session_,
                                  .epoch = epoch_,
                                  .received = assembler_.received()});
  } else if (!stream.opened) {
    return;
  } else if (receipts_.due()) {
    receipts_.clear();
    stream.out = to_buffer(Packet{.kind = Packet::Kind::kAck, .received = assembler_.received()});
  } else if (const auto chunk = outbox_.next()) {
    receipts_.clear();
    stream.out = to_buffer(*chunk, assembler_.received());
  } else if (closing_) {
    stream.bye = true;
    stream.out = to_buffer(Packet{.kind = Packet::Kind::kBye});
  } else {
    return;
  }
  stream.writing = true;
  stream.StartWrite(&stream.out);
}

}  // namespace

std::unique_ptr<ClientTransport> make_grpc_client(const GrpcConfig& config) {
  return std::make_unique<GrpcClient>(config);
}

}  // namespace chorus::inline transport_grpc
