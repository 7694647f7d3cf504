#include "infrastructure/transport/wire/wire.h"

#include <fmt/format.h>
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
constexpr std::size_t kWorthMoving = 1 << 16;    // bytes; below, a copy is cheaper than keeping a string
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

void put(const Message& message, wire::Body& body) {
  for (const auto& [name, tensor] : message.tensors) {
    wire::Tensor& out = (*body.mutable_tensors())[name];
    const at::Tensor here = tensor.detach().cpu().contiguous();
    const TypePair* type = nullptr;
    for (const TypePair& pair : kTypes) {
      if (pair.torch == here.scalar_type()) type = &pair;
    }
    check(type != nullptr, "a tensor of a type that does not travel");
    out.set_type(type->wire);
    for (const std::int64_t size : here.sizes()) out.add_shape(size);
    out.set_data(here.data_ptr(), here.nbytes());
  }
  for (const auto& [name, number] : message.numbers) (*body.mutable_numbers())[name] = number;
  for (const auto& [name, text] : message.texts) (*body.mutable_texts())[name] = text;
}

Failure malformed(const std::string& what) { return {Failure::Kind::kMalformed, "a message cannot be read: " + what}; }

std::optional<Failure> take_tensor(const std::string& name, wire::Tensor& in, at::Tensor& out) {
  const TypePair* type = nullptr;
  for (const TypePair& pair : kTypes) {
    if (pair.wire == in.type()) type = &pair;
  }
  if (type == nullptr) return malformed(fmt::format("tensor \"{}\" has the unknown type {}", name, in.type()));
  if (in.shape_size() > kMostDimensions) return malformed(fmt::format("tensor \"{}\" has too many dimensions", name));
  // Every dimension alone, and every partial product, is compared with what is there, so nothing can overflow.
  const std::size_t width = c10::elementSize(type->torch);
  const std::size_t there = in.data().size() / width;
  std::size_t elements = 1;
  for (const std::int64_t size : in.shape()) {
    // An empty tensor may have other dimensions, but none larger than a real one could have.
    const std::size_t most = elements > 0 && there > 0 ? there / elements : kMostOfNothing;
    if (size < 0 || static_cast<std::uint64_t>(size) > most) {
      return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, in.data().size()));
    }
    elements *= static_cast<std::size_t>(size);
  }
  if (elements * width != in.data().size()) {
    return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, in.data().size()));
  }
  const std::vector<std::int64_t> shape(in.shape().begin(), in.shape().end());
  if (in.data().size() >= kWorthMoving) {
    // A long string is memory of its own, aligned as for any type.
    const auto bytes = std::make_shared<std::string>(std::move(*in.mutable_data()));
    out = torch::from_blob(
        bytes->data(), shape, [bytes](void*) {}, type->torch);
    return std::nullopt;
  }
  out = torch::empty(shape, type->torch);
  if (!in.data().empty()) std::memcpy(out.data_ptr(), in.data().data(), in.data().size());
  return std::nullopt;
}

std::optional<Failure> take(wire::Body& body, Message& message) {
  for (auto& [name, tensor] : *body.mutable_tensors()) {
    if (auto failure = take_tensor(name, tensor, message.tensors[name])) return failure;
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
    put(frame.request.body, *request.mutable_body());
  }
  void operator()(const CohortFrame& frame) const {
    wire::Cohort& cohort = *out.mutable_cohort();
    cohort.set_number(frame.number);
    for (const CohortFrame::Member& member : frame.members) {
      wire::Cohort::Member& added = *cohort.add_members();
      added.set_client(member.client);
      added.set_slot(member.slot);
      put(member.own, *added.mutable_own());
    }
  }
  void operator()(const ReplyFrame& frame) const {
    wire::Reply& reply = *out.mutable_reply();
    reply.set_number(frame.number);
    reply.set_client(frame.reply.client);
    reply.set_slot(frame.reply.slot);
    reply.set_failure(frame.reply.failure);
    reply.set_seconds(frame.reply.seconds);
    put(frame.reply.body, *reply.mutable_body());
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

Result<Frame> read_request(wire::Request& in) {
  RequestFrame frame{in.number(), {.procedure = in.procedure(), .round = in.round()}};
  frame.request.ask = in.ask();
  frame.request.session = in.session();
  frame.request.run = in.run();
  frame.request.layout = in.layout();
  if (auto failure = take(*in.mutable_body(), frame.request.body)) return *failure;
  return Frame(std::move(frame));
}

Result<Frame> read_cohort(wire::Cohort& in) {
  CohortFrame frame{in.number(), {}};
  for (wire::Cohort::Member& member : *in.mutable_members()) {
    CohortFrame::Member& added = frame.members.emplace_back();
    added.client = member.client();
    added.slot = static_cast<std::size_t>(member.slot());
    if (auto failure = take(*member.mutable_own(), added.own)) return *failure;
  }
  return Frame(std::move(frame));
}

Result<Frame> read_reply(wire::Reply& in) {
  ReplyFrame frame{in.number(), {}};
  frame.reply.client = in.client();
  frame.reply.slot = static_cast<std::size_t>(in.slot());
  frame.reply.failure = in.failure();
  frame.reply.seconds = in.seconds() >= 0 ? in.seconds() : 0;
  if (auto failure = take(*in.mutable_body(), frame.reply.body)) return *failure;
  return Frame(std::move(frame));
}

}  // namespace

std::string encode_frame(const Frame& frame) {
  wire::Frame out;
  out.set_version(kWireVersion);
  std::visit(Writer{out}, frame);
  std::string bytes;
  if (out.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !out.SerializeToString(&bytes)) {
    throw WorldError("a message is over 2 GiB, the most that protobuf can carry; train fewer parameters");
  }
  return bytes;
}

Result<Frame> decode_frame(std::string_view bytes) {
  // What is wrong with a peer's bytes is said by the result, not by the library on standard error.
  static std::once_flag quiet;
  std::call_once(quiet, [] { google::protobuf::SetLogHandler(nullptr); });
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return malformed("it is over 2 GiB");
  wire::Frame in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return malformed("the bytes are damaged");
  if (in.version() != kWireVersion) {
    return malformed(fmt::format("it is of version {} and this program speaks version {}", in.version(), kWireVersion));
  }
  switch (in.what_case()) {
    case wire::Frame::kHello:
      return read_hello(in.hello());
    case wire::Frame::kRequest:
      return read_request(*in.mutable_request());
    case wire::Frame::kCohort:
      return read_cohort(*in.mutable_cohort());
    case wire::Frame::kReply:
      return read_reply(*in.mutable_reply());
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
