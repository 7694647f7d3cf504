#include <fmt/format.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/console/log.h"
#include "infrastructure/certificates/certificate.h"
#include "infrastructure/transport/grpc/byte_buffers.h"
#include "infrastructure/transport/grpc/connection_settings.h"
#include "infrastructure/transport/grpc/grpc_transport.h"
#include "infrastructure/transport/grpc/server_session.h"
#include "infrastructure/transport/pace/frame_limit.h"

namespace chorus::inline transport_grpc {
namespace {

using Clock = std::chrono::steady_clock;
using grpc::Status;
using grpc::StatusCode;

constexpr std::size_t kMostUnread = 16;  // frames of one peer that are not yet received
constexpr double kLingerSeconds = 5;     // for peers to read what was sent before the server closed
constexpr double kOpenSeconds = 10;      // for a new stream to identify itself
constexpr auto kTick = std::chrono::milliseconds(100);
constexpr auto kAckPause = std::chrono::milliseconds(200);  // then an acknowledgement travels alone
constexpr std::size_t kMebi = 1U << 20U;
constexpr std::size_t kSmall = 64U << 10U;  // chunks that wait for the next one to be sent with it

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// One mutex guards everything, but for the assembler of a session that is `busy`. gRPC never runs reactions inside a
/// call into gRPC, so the mutex may be held during such a call. StartWrite encrypts and sends: often without the mutex.
class GrpcServer final : public ServerTransport, private grpc::CallbackGenericService {
 public:
  GrpcServer(const GrpcConfig& config, std::string& bound);
  ~GrpcServer() override;
  bool send(PeerId peer, std::shared_ptr<const FrameBytes> frame, bool more) override;
  std::optional<TransportEvent> receive(std::optional<double> seconds) override;

  void read_done(Stream& stream, bool ok);
  void write_done(Stream& stream);
  void lost(Stream& stream);
  void done(Stream& stream);

 private:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;
  // With the mutex held:
  void resume();
  bool waits(const Stream& stream, bool& full) const;
  void handle(Stream& stream, const ArrivedPacket& arrived, std::unique_lock<std::mutex>* lock = nullptr);
  void open(Stream& stream, const Packet& packet);
  void add_chunk(Stream& stream, const ArrivedPacket& arrived, std::unique_lock<std::mutex>* lock);
  void deliver(Session& session, ArrivedFrame frame);
  void reject(Stream& stream, const std::string& why);
  void finish(Stream& stream, const Status& status);
  void end_session(const std::shared_ptr<Session>& session);
  void release(Session& session);
  void pump(Stream& stream, std::unique_lock<std::mutex>* lock = nullptr);
  void tidy();

  GrpcConfig config_;
  RevokedSerials revoked_;
  const std::uint64_t epoch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TransportEvent> events_;
  Sessions sessions_;
  std::set<Stream*> streams_;
  std::deque<Stream*> held_;  // streams with a waiting packet, in order
  FrameSpace space_{config_};
  bool closing_ = false;
  std::unique_ptr<grpc::Server> server_;
  std::thread janitor_;
};

}  // namespace

/// One call of a client. Deletes itself when gRPC is done with it.
class Stream final : public grpc::ServerGenericBidiReactor {
 public:
  Stream(GrpcServer& server, CertificateFacts its) : owner(std::move(its)), server_(server) { StartRead(&in); }
  void OnReadDone(bool ok) override { server_.read_done(*this, ok); }
  void OnWriteDone(bool) override { server_.write_done(*this); }
  void OnCancel() override { server_.lost(*this); }
  void OnDone() override {
    server_.done(*this);
    delete this;
  }

  CertificateFacts owner;
  std::shared_ptr<Session> session;
  std::deque<Packet> control;  // sent before chunks
  std::optional<ArrivedPacket> held;
  Clock::time_point begun = Clock::now(), held_since = {};
  bool writing = false, finished = false, closing = false, bye = false;
  int starting = 0;  // threads that are inside StartWrite; the last one finishes the call, if it must be
  Status status;     // of a finished one
  grpc::ByteBuffer in, out;

 private:
  GrpcServer& server_;
};

namespace {

/// A call that is refused at once.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

GrpcServer::GrpcServer(const GrpcConfig& config, std::string& bound)
    : config_(config), revoked_(config.revoked), epoch_(new_epoch()) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(
      config.address, config.tls.secure() ? server_credentials(config.tls) : grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(this);
  apply_settings(config, builder);
  server_ = builder.BuildAndStart();
  if (!server_ || port == 0) {
    throw WorldError(fmt::format("cannot listen on {}; is the port in use, or not one of this machine's addresses?",
                                 config.address));
  }
  bound = fmt::format("{}:{}", config.address.substr(0, config.address.rfind(':')), port);
  janitor_ = std::thread([this] { tidy(); });
}

GrpcServer::~GrpcServer() {
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    for (Stream* stream : streams_) {
      stream->closing = true;
      pump(*stream);
    }
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::duration<double>(kLingerSeconds), [&] { return streams_.empty(); });
  }
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  server_->Wait();
  janitor_.join();
}

grpc::ServerGenericBidiReactor* GrpcServer::CreateReactor(grpc::GenericCallbackServerContext* context) {
  if (context->method() != kExchangeMethod) return new Refusal({StatusCode::UNIMPLEMENTED, "there is no such method"});
  CertificateFacts owner;
  if (config_.tls.secure()) {
    const auto pem = context->auth_context()->FindPropertyValues("x509_pem_cert");
    if (!pem.empty()) owner = readable_facts({pem[0].data(), pem[0].size()});
    if (owner.name.empty()) return new Refusal({StatusCode::UNAUTHENTICATED, "the certificate names nobody"});
    if (const std::string why = revoked_.refusal(owner); !why.empty()) {
      Log("transport").warning("{} was refused: {}", owner.name, why);
      return new Refusal({StatusCode::PERMISSION_DENIED, why});
    }
  }
  const std::lock_guard lock(mutex_);
  if (closing_) return new Refusal({StatusCode::UNAVAILABLE, "the server is closing"});
  if (streams_.size() >= static_cast<std::size_t>(config_.peers)) {
    return new Refusal({StatusCode::RESOURCE_EXHAUSTED, "the server has as many peers as it may"});
  }
  return *streams_.insert(new Stream(*this, std::move(owner))).first;
}

bool GrpcServer::send(PeerId peer, std::shared_ptr<const FrameBytes> frame, bool more) {
  if (frame->size() > config_.frame_bytes()) throw WorldError(over_limit(frame->size(), config_.frame_bytes()));
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Session> session = sessions_.find(peer);
  if (!session) return false;
  const auto backlog = static_cast<double>(session->outbox.bytes() + frame->size());
  if (session->outbox.frames() > 0 && backlog > config_.backlog * static_cast<double>(kMebi)) {
    Log("transport").warning("a peer is dropped: it has not read {} frames", session->outbox.frames());
    Stream* stream = session->stream;
    end_session(session);
    if (stream != nullptr) finish(*stream, {StatusCode::ABORTED, "it reads too slowly"});
    return false;
  }
  session->outbox.push(std::move(frame));
  if (session->stream != nullptr && !more) pump(*session->stream, &lock);
  return true;
}

std::optional<TransportEvent> GrpcServer::receive(std::optional<double> seconds) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return !events_.empty(); };
  if (!seconds) {
    changed_.wait(lock, ready);
  } else if (!changed_.wait_for(lock, std::chrono::duration<double>(*seconds), ready)) {
    return std::nullopt;
  }
  TransportEvent event = std::move(events_.front());
  events_.pop_front();
  if (event.kind != TransportEvent::Kind::kFrame) return event;
  if (const std::size_t size = event.bytes().size(); size > kSmallFrameBytes) space_.give_back(size);
  if (const auto session = sessions_.find(event.peer)) --session->unread;
  resume();
  return event;
}

void GrpcServer::read_done(Stream& stream, bool ok) {
  auto packet = ok ? from_buffer(stream.in) : Result<ArrivedPacket>(Failure{Failure::Kind::kDisconnected, ""});
  std::unique_lock lock(mutex_);
  if (stream.finished) return;
  if (!ok) {
    finish(stream, Status::CANCELLED);
  } else if (!packet.ok()) {
    reject(stream, packet.failure().message);
  } else {
    stream.held = std::move(packet).value();
    bool full = !held_.empty();  // others wait for space
    if (waits(stream, full)) {
      stream.held_since = Clock::now();
      held_.push_back(&stream);
    } else {
      const ArrivedPacket arrived = *std::exchange(stream.held, std::nullopt);
      handle(stream, arrived, &lock);
      if (!stream.finished) stream.StartRead(&stream.in);
    }
  }
  resume();
}

void GrpcServer::write_done(Stream& stream) {
  std::unique_lock lock(mutex_);
  stream.writing = false;
  stream.out.Clear();
  pump(stream, &lock);
}

void GrpcServer::lost(Stream& stream) {
  const std::lock_guard lock(mutex_);
  finish(stream, Status::CANCELLED);
  resume();
}

void GrpcServer::done(Stream& stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(&stream);
  std::erase(held_, &stream);
  changed_.notify_all();
}

// Handles all packets that can be handled now, in order. A large frame that waits for space delays later ones.
void GrpcServer::resume() {
  bool full = false;
  for (std::size_t i = 0; i < held_.size();) {
    Stream& stream = *held_[i];
    if (!stream.finished && waits(stream, full)) {
      ++i;
      continue;
    }
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
    if (stream.finished) continue;
    if (stream.session) stream.session->pace.excuse(Clock::now() - stream.held_since);
    const ArrivedPacket arrived = *std::exchange(stream.held, std::nullopt);
    handle(stream, arrived);
    if (!stream.finished) stream.StartRead(&stream.in);
  }
}

bool GrpcServer::waits(const Stream& stream, bool& full) const {
  const Packet& packet = stream.held->packet;
  if (!stream.session) {
    const auto known = sessions_.with_key(packet.session);
    return known && known->busy;
  }
  if (packet.kind != Packet::Kind::kChunk) return false;
  if (stream.session->unread >= kMostUnread) return true;
  if (!stream.session->begins_large(packet.chunk, config_)) return false;
  full = full || space_.full_for(packet.chunk.size);
  return full;
}

void GrpcServer::handle(Stream& stream, const ArrivedPacket& arrived, std::unique_lock<std::mutex>* lock) {
  const Packet& packet = arrived.packet;
  if (!stream.session) {
    open(stream, packet);
    return;
  }
  switch (packet.kind) {
    case Packet::Kind::kChunk:
      add_chunk(stream, arrived, lock);
      return;
    case Packet::Kind::kAck:
      if (!stream.session->outbox.acknowledge(packet.received)) reject(stream, "it acknowledged what was never sent");
      return;
    case Packet::Kind::kBye:
      end_session(stream.session);
      finish(stream, Status::OK);
      return;
    default:
      reject(stream, "it sent what only a server may send");
  }
}

void GrpcServer::open(Stream& stream, const Packet& packet) {
  if (packet.kind != Packet::Kind::kOpen || packet.session.size() != kSessionBytes) {
    reject(stream, "a stream must begin with a session");
    return;
  }
  if (packet.version != kStreamVersion) {
    finish(stream,
           {StatusCode::FAILED_PRECONDITION,
            fmt::format("the client speaks version {} of the stream protocol and the server version {}; install "
                        "the same version of Chorus on both",
                        packet.version, kStreamVersion)});
    return;
  }
  if (packet.epoch != 0 && packet.epoch != epoch_) {
    finish(stream, {StatusCode::ABORTED, "the server was restarted"});
    return;
  }
  std::shared_ptr<Session> session = sessions_.with_key(packet.session);
  if (session) {
    if (session->identity != stream.owner.name) {
      reject(stream, "the session is another peer's");
      return;
    }
    if (session->stream != nullptr) finish(*session->stream, {StatusCode::CANCELLED, "the client has connected again"});
    if (!session->outbox.restart(packet.received)) {
      end_session(session);
      reject(stream, "it acknowledged what was never sent");
      return;
    }
  } else {
    if (packet.epoch != 0) {
      finish(stream, {StatusCode::ABORTED, "the connection was lost for too long"});
      return;
    }
    const auto same = sessions_.of(stream.owner.name);
    if (same && same->stream != nullptr) {
      Log("transport").warning("{} was refused: another process is connected with its certificate", stream.owner.name);
      finish(stream, {StatusCode::ALREADY_EXISTS, "another process is connected with this certificate"});
      return;
    }
    if (same) end_session(same);  // its process was restarted
    session = sessions_.add(packet.session, stream.owner.name, config_);
    events_.push_back({TransportEvent::Kind::kJoined, session->id, {}, session->identity});
    changed_.notify_all();
  }
  session->stream = &stream;
  stream.session = session;
  stream.control.push_back(
      {.kind = Packet::Kind::kOpened, .epoch = epoch_, .received = session->received, .held = session->held});
  pump(stream);
}

void GrpcServer::add_chunk(Stream& stream, const ArrivedPacket& arrived, std::unique_lock<std::mutex>* lock) {
  const std::shared_ptr<Session> held = stream.session;
  Session& session = *held;
  if (!session.outbox.acknowledge(arrived.packet.received)) {
    reject(stream, "it acknowledged what was never sent");
    return;
  }
  if (session.begins_large(arrived.packet.chunk, config_)) {
    session.reserved = arrived.packet.chunk.size;
    space_.take(session.reserved);
  }
  auto frame = session.assemble(arrived.packet.chunk, arrived.data, lock);
  if (frame.ok() && frame.value()) deliver(session, std::move(*frame.value()));
  if (stream.finished) return;
  if (!frame.ok() && frame.failure().kind == Failure::Kind::kIo) {
    Log("transport").error("{}; its sender tries again later", frame.failure().message);
    finish(stream, {StatusCode::RESOURCE_EXHAUSTED, "the server has no room for a message; its log says why"});
    return;
  }
  if (!frame.ok()) {
    reject(stream, frame.failure().message);
    return;
  }
  if (!frame.value() && !session.partial) session.receipts.demand();
  pump(stream);
}

// A frame is delivered even if its connection was lost a moment ago: its sender will not be asked for it again.
void GrpcServer::deliver(Session& session, ArrivedFrame frame) {
  const std::size_t size = frame.size();
  if (!sessions_.find(session.id)) return;
  if (size > kSmallFrameBytes && session.reserved == 0) space_.take(size);
  session.reserved = 0;  // released when the frame is received
  ++session.unread;
  session.receipts.add(size);
  events_.push_back({TransportEvent::Kind::kFrame, session.id, std::move(frame.bytes), {}, std::move(frame.file)});
  changed_.notify_all();
}

void GrpcServer::reject(Stream& stream, const std::string& why) {
  Log("transport").warning("a peer is dropped: {}", why);
  if (stream.session) end_session(stream.session);
  finish(stream, {StatusCode::INVALID_ARGUMENT, why});
}

void GrpcServer::finish(Stream& stream, const Status& status) {
  if (stream.finished) return;
  stream.finished = true;
  if (stream.session) {
    stream.session->stream = nullptr;
    stream.session->lost = Clock::now();
    stream.session->held = stream.held.has_value();
    release(*stream.session);
    stream.session.reset();
  }
  stream.status = status;
  if (stream.starting == 0) stream.Finish(status);
}

void GrpcServer::release(Session& session) {
  if (session.reserved > 0) space_.give_back(session.reserved);
  session.reserved = 0;
  session.forget_partial();
}

void GrpcServer::end_session(const std::shared_ptr<Session>& ended) {
  const std::shared_ptr<Session> session = ended;  // the caller's reference may be a member of the erased object
  if (!sessions_.remove(*session)) return;
  release(*session);
  events_.push_back({TransportEvent::Kind::kLeft, session->id, {}, {}});
  changed_.notify_all();
}

void GrpcServer::pump(Stream& stream, std::unique_lock<std::mutex>* lock) {
  if (stream.writing || stream.finished) return;
  grpc::WriteOptions options;
  if (!stream.control.empty()) {
    stream.out = to_buffer(stream.control.front());
    stream.control.pop_front();
  } else if (stream.session && stream.session->receipts.due()) {
    stream.session->receipts.clear();
    stream.out = to_buffer(Packet{.kind = Packet::Kind::kAck, .received = stream.session->received});
  } else if (const auto chunk = stream.session ? stream.session->outbox.next() : std::nullopt) {
    stream.session->receipts.clear();
    const std::uint64_t received = stream.session->received;
    if (chunk->size < kSmall && !stream.session->outbox.written()) options.set_buffer_hint();
    stream.out = to_buffer(*chunk, received);
  } else if (stream.closing && !stream.bye && stream.session) {
    stream.bye = true;
    stream.out = to_buffer(Packet{.kind = Packet::Kind::kBye});
  } else {
    if (stream.closing) finish(stream, {StatusCode::OK, ""});
    return;
  }
  stream.writing = true;
  ++stream.starting;
  if (lock != nullptr) lock->unlock();
  stream.StartWrite(&stream.out, options);
  if (lock != nullptr) lock->lock();
  if (--stream.starting == 0 && stream.finished) stream.Finish(stream.status);
}

// Ends what has taken too long. Runs on its own thread until the server closes.
void GrpcServer::tidy() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    changed_.wait_for(lock, kTick, [&] { return closing_; });
    std::vector<std::shared_ptr<Session>> gone;
    for (const auto& [id, session] : sessions_.all()) {
      if (session->stream == nullptr && seconds_since(session->lost) > config_.grace) gone.push_back(session);
    }
    for (const auto& session : gone) end_session(session);
    for (Stream* stream : streams_) {
      if (stream->finished) continue;
      const std::string slow = stream->session && !stream->held ? stream->session->slowness(config_) : "";
      if (const std::string why = revoked_.refusal(stream->owner); !why.empty()) {
        Log("transport").warning("{} is dropped: {}", stream->owner.name, why);
        if (stream->session) end_session(stream->session);
        finish(*stream, {StatusCode::PERMISSION_DENIED, why});
      } else if (!stream->session && seconds_since(stream->begun) > kOpenSeconds) {
        finish(*stream, {StatusCode::DEADLINE_EXCEEDED, "it did not open a session"});
      } else if (!slow.empty()) {
        Log("transport").warning("{} is dropped: {}", stream->session->name(), slow);
        end_session(stream->session);  // it would send the frame from its start, as slowly, while others wait
        finish(*stream, {StatusCode::ABORTED, slow});
      } else if (stream->session && stream->session->receipts.due_after(kAckPause)) {
        stream->session->receipts.demand();
        pump(*stream);
      }
    }
    resume();
  }
}

}  // namespace

std::unique_ptr<ServerTransport> make_grpc_server(const GrpcConfig& config, std::string& bound) {
  return std::make_unique<GrpcServer>(config, bound);
}

}  // namespace chorus::inline transport_grpc
