#include "infrastructure/transport/wire/wire.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <torch/types.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "message.pb.h"

namespace chorus::inline transport_wire {
namespace {

constexpr int kMostDimensions = 8;
constexpr std::size_t kLarge = 1 << 16;           // bytes; a tensor of so many is in the tail
constexpr std::size_t kMostOfAClient = 32 << 20;  // bytes of a client's message, without large tensors
constexpr std::size_t kAlignment = 64;            // of a tensor in the tail
constexpr std::uint32_t kPaddingTag = (14U << 3U) | 2U, kTailTag = (15U << 3U) | 2U;  // one byte each
constexpr std::size_t kMostOfNothing = 1 << 20;  // of a dimension of a tensor without elements
constexpr ClientId kMostClients = 1 << 24;       // a roster takes 8 bytes for every id up to its largest

struct TypePair {
  wire::Tensor::Type wire;
  at::ScalarType torch;
};
constexpr TypePair kTypes[] = {{wire::Tensor::FLOAT32, at::kFloat}, {wire::Tensor::FLOAT64, at::kDouble},
                               {wire::Tensor::FLOAT16, at::kHalf},  {wire::Tensor::BFLOAT16, at::kBFloat16},
                               {wire::Tensor::INT32, at::kInt},     {wire::Tensor::INT64, at::kLong},
                               {wire::Tensor::UINT8, at::kByte}};

/// The large tensors of a frame that is being written.
struct Tail {
  struct Piece {
    std::size_t at;
    at::Tensor tensor;
  };
  std::vector<Piece> pieces;
  std::size_t size = 0;

  std::size_t add(const at::Tensor& tensor) {
    const std::size_t at = (size + kAlignment - 1) / kAlignment * kAlignment;
    pieces.push_back({at, tensor});
    size = at + tensor.nbytes();
    return at;
  }
};

void put(const Message& message, wire::Body& body, Tail& tail) {
  for (const auto& [name, tensor] : message.tensors) {
    wire::Tensor& out = (*body.mutable_tensors())[name];
    // A copy of what somebody else may change while it travels.
    const bool shared = tensor.use_count() > 1 || tensor.storage().use_count() > 1;
    at::Tensor here = tensor.detach().cpu().contiguous();
    if (shared && here.nbytes() >= kLarge && here.is_alias_of(tensor)) here = here.clone();
    const TypePair* type = nullptr;
    for (const TypePair& pair : kTypes) {
      if (pair.torch == here.scalar_type()) type = &pair;
    }
    check(type != nullptr, "a tensor of a type that does not travel");
    out.set_type(type->wire);
    for (const std::int64_t size : here.sizes()) out.add_shape(size);
    if (here.nbytes() < kLarge) {
      out.set_data(here.data_ptr(), here.nbytes());
    } else {
      out.set_size(here.nbytes());
      out.set_at(tail.add(here));
    }
  }
  for (const auto& [name, number] : message.numbers) (*body.mutable_numbers())[name] = number;
  for (const auto& [name, text] : message.texts) (*body.mutable_texts())[name] = text;
}

Failure malformed(const std::string& what) { return {Failure::Kind::kMalformed, "a message cannot be read: " + what}; }

/// The tail of a frame that is being read.
struct ReadTail {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
  std::size_t claimed = 0;  // by the tensors so far: together no more than there is
};

std::optional<Failure> take_tensor(const std::string& name, wire::Tensor& in, ReadTail& tail, at::Tensor& out) {
  const TypePair* type = nullptr;
  for (const TypePair& pair : kTypes) {
    if (pair.wire == in.type()) type = &pair;
  }
  if (type == nullptr) return malformed(fmt::format("tensor \"{}\" has the unknown type {}", name, in.type()));
  if (in.shape_size() > kMostDimensions) return malformed(fmt::format("tensor \"{}\" has too many dimensions", name));
  std::string_view data = in.data();
  if (in.size() > 0) {
    if (!data.empty() || in.at() > tail.bytes.size() || in.size() > tail.bytes.size() - in.at() ||
        in.size() > tail.bytes.size() - tail.claimed) {
      return malformed(fmt::format("tensor \"{}\" is not where it says", name));
    }
    data = tail.bytes.substr(in.at(), in.size());
    tail.claimed += data.size();
  }
  // Every dimension alone, and every partial product, is compared with what is there, so nothing can overflow.
  const std::size_t width = c10::elementSize(type->torch);
  const std::size_t there = data.size() / width;
  std::size_t elements = 1;
  for (const std::int64_t size : in.shape()) {
    // An empty tensor may have other dimensions, but none larger than a real one could have.
    const std::size_t most = elements > 0 && there > 0 ? there / elements : kMostOfNothing;
    if (size < 0 || static_cast<std::uint64_t>(size) > most) {
      return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, data.size()));
    }
    elements *= static_cast<std::size_t>(size);
  }
  if (elements * width != data.size()) {
    return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, data.size()));
  }
  const std::vector<std::int64_t> shape(in.shape().begin(), in.shape().end());
  const auto address = reinterpret_cast<std::uintptr_t>(data.data());
  if (tail.owner && in.size() > 0 && address % width == 0) {
    out = torch::from_blob(
        const_cast<char*>(data.data()), shape, [owner = tail.owner](void*) {}, type->torch);
    return std::nullopt;
  }
  out = torch::empty(shape, type->torch);
  if (!data.empty()) std::memcpy(out.data_ptr(), data.data(), data.size());
  return std::nullopt;
}

std::optional<Failure> take(wire::Body& body, ReadTail& tail, Message& message) {
  for (auto& [name, tensor] : *body.mutable_tensors()) {
    if (auto failure = take_tensor(name, tensor, tail, message.tensors[name])) return failure;
  }
  for (const auto& [name, number] : body.numbers()) message.numbers[name] = number;
  for (const auto& [name, text] : body.texts()) message.texts[name] = text;
  return std::nullopt;
}

void put(const RosterEntry& entry, wire::Hello::Client& out) {
  out.set_id(entry.id);
  out.set_name(entry.name);
  if (entry.examples) out.set_examples(*entry.examples);
  out.set_model(entry.model);
}

struct Writer {
  wire::Frame& out;
  Tail& tail;

  void operator()(const HelloFrame& frame) const {
    wire::Hello& hello = *out.mutable_hello();
    for (const RosterEntry& entry : frame.clients) put(entry, *hello.add_clients());
  }
  void operator()(const RequestFrame& frame) const {
    wire::Request& request = *out.mutable_request();
    request.set_number(frame.number);
    request.set_procedure(frame.request.procedure);
    request.set_round(frame.request.round);
    request.set_ask(frame.request.ask);
    request.set_session(frame.request.session);
    request.set_run(frame.request.run);
    request.set_layout(frame.request.layout);
    put(frame.request.body, *request.mutable_body(), tail);
  }
  void operator()(const CohortFrame& frame) const {
    wire::Cohort& cohort = *out.mutable_cohort();
    cohort.set_number(frame.number);
    for (const CohortFrame::Member& member : frame.members) {
      wire::Cohort::Member& added = *cohort.add_members();
      added.set_client(member.client);
      added.set_slot(member.slot);
      added.set_kept(member.kept);
      put(member.own, *added.mutable_own(), tail);
    }
  }
  void operator()(const ReplyFrame& frame) const {
    wire::Reply& reply = *out.mutable_reply();
    reply.set_number(frame.number);
    reply.set_client(frame.reply.client);
    reply.set_slot(frame.reply.slot);
    reply.set_failure(frame.reply.failure);
    reply.set_seconds(frame.reply.seconds);
    reply.set_keeps(frame.keeps);
    put(frame.reply.body, *reply.mutable_body(), tail);
  }
  void operator()(const AcceptFrame& frame) const {
    out.mutable_accept()->set_number(frame.number);
    out.mutable_accept()->set_slot(frame.slot);
  }
  void operator()(const CancelFrame& frame) const { out.mutable_cancel()->set_number(frame.number); }
  void operator()(const SyncFrame& frame) const { out.mutable_sync()->set_number(frame.number); }
  void operator()(const EndSessionFrame& frame) const { out.mutable_end_session()->set_session(frame.session); }
  void operator()(const ControlFrame& frame) const {
    out.mutable_control()->set_topic(frame.topic);
    out.mutable_control()->set_text(frame.text);
    out.mutable_control()->set_data(frame.data);
  }
};

Result<Frame> read_hello(const wire::Hello& in) {
  HelloFrame frame;
  for (const wire::Hello::Client& client : in.clients()) {
    if (client.id() >= kMostClients) return malformed(fmt::format("{} is no client's id", client.id()));
    RosterEntry entry{.id = client.id(), .name = client.name(), .examples = {}, .model = client.model()};
    if (client.has_examples()) {
      const double examples = client.examples();
      if (!(examples >= 0 && examples < 1e15)) return malformed("a client's number of examples is not one");
      entry.examples = examples;
    }
    frame.clients.push_back(std::move(entry));
  }
  return Frame(std::move(frame));
}

Result<Frame> read_request(wire::Request& in, ReadTail& tail) {
  RequestFrame frame{in.number(), {.procedure = in.procedure(), .round = in.round()}};
  frame.request.ask = in.ask();
  frame.request.session = in.session();
  frame.request.run = in.run();
  frame.request.layout = in.layout();
  if (auto failure = take(*in.mutable_body(), tail, frame.request.body)) return *failure;
  return Frame(std::move(frame));
}

Result<Frame> read_cohort(wire::Cohort& in, ReadTail& tail) {
  CohortFrame frame{in.number(), {}};
  for (wire::Cohort::Member& member : *in.mutable_members()) {
    CohortFrame::Member& added = frame.members.emplace_back();
    added.client = member.client();
    added.slot = static_cast<std::size_t>(member.slot());
    added.kept = member.kept();
    if (auto failure = take(*member.mutable_own(), tail, added.own)) return *failure;
  }
  return Frame(std::move(frame));
}

Result<Frame> read_reply(wire::Reply& in, ReadTail& tail) {
  ReplyFrame frame{in.number(), {}, in.keeps()};
  frame.reply.client = in.client();
  frame.reply.slot = static_cast<std::size_t>(in.slot());
  frame.reply.failure = in.failure();
  frame.reply.seconds = in.seconds() >= 0 ? in.seconds() : 0;
  if (auto failure = take(*in.mutable_body(), tail, frame.reply.body)) return *failure;
  return Frame(std::move(frame));
}

/// A frame in two parts, before anything is allocated.
struct Parts {
  std::string_view head;
  std::string_view tail;         // the last field, where there is one
  std::size_t from_clients = 0;  // bytes of what a client may send, but for its tensors, and of unknown fields
};

Parts parts_of(std::string_view bytes) {
  namespace io = google::protobuf::io;
  Parts parts{bytes, {}};
  io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  for (;;) {
    const auto begin = static_cast<std::size_t>(in.CurrentPosition());
    const std::uint32_t tag = in.ReadTag();
    std::uint32_t size = 0;
    std::uint64_t number = 0;
    if (tag == kTailTag) {
      if (!in.ReadVarint32(&size)) return parts;
      const auto data = static_cast<std::size_t>(in.CurrentPosition());
      if (size != bytes.size() - data) return parts;
      parts.tail = bytes.substr(data);
      parts.head = bytes.substr(0, begin);
      return parts;
    }
    const std::uint32_t kind = tag & 7U, field = tag >> 3U;
    const bool skipped =
        (kind == 0 && tag != 0 && in.ReadVarint64(&number)) ||
        (kind == 2 && in.ReadVarint32(&size) && size <= bytes.size() && in.Skip(static_cast<int>(size)));
    const bool ours = (field >= wire::Frame::kRequestFieldNumber && field <= wire::Frame::kCohortFieldNumber) ||
                      field == wire::Frame::kControlFieldNumber;
    if (!ours) parts.from_clients += static_cast<std::size_t>(in.CurrentPosition()) - begin;
    if (!skipped) {
      if (!ours) parts.from_clients += bytes.size() - begin;  // protobuf decides what it is
      return parts;
    }
  }
}

void append_varint(std::string& bytes, std::uint32_t value) {
  for (; value >= 0x80U; value >>= 7U) bytes.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
  bytes.push_back(static_cast<char>(value));
}

// As protobuf would write the fields `padding` and `tail`, up to the first tensor.
void append_tail_header(std::string& bytes, const Tail& tail) {
  std::string length;
  append_varint(length, static_cast<std::uint32_t>(tail.size));
  const std::size_t begin = bytes.size() + 2 + 1 + length.size();  // with an empty padding
  const std::size_t padding = (kAlignment - begin % kAlignment) % kAlignment;
  append_varint(bytes, kPaddingTag);
  append_varint(bytes, static_cast<std::uint32_t>(padding));
  bytes.append(padding, '\0');
  append_varint(bytes, kTailTag);
  bytes += length;
}

}  // namespace

FrameBytes encode_parts(const Frame& frame) {
  wire::Frame out;
  out.set_version(kWireVersion);
  Tail tail;
  std::visit(Writer{out, tail}, frame);
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  const std::size_t size = out.ByteSizeLong();
  if (size > kMost || tail.size > kMost || size + tail.size + 2 * kAlignment > kMost) {
    throw WorldError("a message is over 2 GiB, the most that protobuf can carry; train fewer parameters");
  }
  std::string head;
  head.reserve(size + 2 * kAlignment);
  check(out.AppendToString(&head), "a frame cannot be serialised");
  if (!tail.pieces.empty()) append_tail_header(head, tail);
  FrameBytes bytes(std::move(head));
  std::size_t written = 0;
  for (const Tail::Piece& piece : tail.pieces) {
    bytes.add(std::string(piece.at - written, '\0'));
    const std::string_view values(static_cast<const char*>(piece.tensor.data_ptr()), piece.tensor.nbytes());
    bytes.add(values, std::make_shared<const at::Tensor>(piece.tensor));
    written = piece.at + values.size();
  }
  return bytes;
}

std::string encode_frame(const Frame& frame) { return encode_parts(frame).flat(); }

Result<Frame> decode_frame(std::shared_ptr<const std::string> bytes) {
  const std::string_view view = *bytes;
  return decode_frame(view, std::move(bytes));
}

Result<Frame> decode_frame(std::string_view bytes, std::shared_ptr<const void> owner) {
  // What is wrong with a peer's bytes is said by the result, not by the library on standard error.
  static std::once_flag quiet;
  std::call_once(quiet, [] { google::protobuf::SetLogHandler(nullptr); });
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return malformed("it is over 2 GiB");
  ReadTail tail{{}, std::move(owner)};
  const Parts parts = parts_of(bytes);
  tail.bytes = parts.tail;
  bytes = parts.head;
  // An empty element of a list is 2 bytes here and 60 in memory.
  if (parts.from_clients > kMostOfAClient) return malformed("it has too many parts");
  wire::Frame in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return malformed("the bytes are damaged");
  if (in.version() != kWireVersion) {
    return malformed(fmt::format("it is of version {} and this program speaks version {}", in.version(), kWireVersion));
  }
  switch (in.what_case()) {
    case wire::Frame::kHello:
      return read_hello(in.hello());
    case wire::Frame::kRequest:
      return read_request(*in.mutable_request(), tail);
    case wire::Frame::kCohort:
      return read_cohort(*in.mutable_cohort(), tail);
    case wire::Frame::kReply:
      return read_reply(*in.mutable_reply(), tail);
    case wire::Frame::kAccept:
      return Frame(AcceptFrame{in.accept().number(), static_cast<std::size_t>(in.accept().slot())});
    case wire::Frame::kCancel:
      return Frame(CancelFrame{in.cancel().number()});
    case wire::Frame::kEndSession:
      return Frame(EndSessionFrame{in.end_session().session()});
    case wire::Frame::kSync:
      return Frame(SyncFrame{in.sync().number()});
    case wire::Frame::kControl:
      return Frame(
          ControlFrame{in.control().topic(), in.control().text(), std::move(*in.mutable_control()->mutable_data())});
    case wire::Frame::WHAT_NOT_SET:
      break;
  }
  return malformed("it says nothing that this program knows");
}

}  // namespace chorus::inline transport_wire
