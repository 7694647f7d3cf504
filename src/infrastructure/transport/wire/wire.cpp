#include "infrastructure/transport/wire/wire.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "message.pb.h"

namespace chorus {
namespace {

constexpr int kMostDimensions = 8;

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

std::optional<Failure> take_tensor(const std::string& name, const wire::Tensor& in, at::Tensor& out) {
  const TypePair* type = nullptr;
  for (const TypePair& pair : kTypes) {
    if (pair.wire == in.type()) type = &pair;
  }
  if (type == nullptr) return malformed(fmt::format("tensor \"{}\" has the unknown type {}", name, in.type()));
  if (in.shape_size() > kMostDimensions) return malformed(fmt::format("tensor \"{}\" has too many dimensions", name));
  // The product is compared with what is there, so it cannot overflow: every partial one is at most the data's size.
  const std::size_t width = c10::elementSize(type->torch);
  const std::size_t there = in.data().size() / width;
  std::size_t numbers = 1;
  for (const std::int64_t size : in.shape()) {
    const bool fits = size >= 0 && (size == 0 || numbers == 0 || static_cast<std::uint64_t>(size) <= there / numbers);
    if (!fits)
      return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, in.data().size()));
    numbers *= static_cast<std::size_t>(size);
  }
  if (numbers * width != in.data().size()) {
    return malformed(fmt::format("the shape of tensor \"{}\" does not fit its {} bytes", name, in.data().size()));
  }
  out = torch::empty(std::vector<std::int64_t>(in.shape().begin(), in.shape().end()), type->torch);
  if (!in.data().empty()) std::memcpy(out.data_ptr(), in.data().data(), in.data().size());
  return std::nullopt;
}

std::optional<Failure> take(const wire::Body& body, Message& message) {
  for (const auto& [name, tensor] : body.tensors()) {
    if (auto failure = take_tensor(name, tensor, message.tensors[name])) return failure;
  }
  for (const auto& [name, number] : body.numbers()) message.numbers[name] = number;
  for (const auto& [name, text] : body.texts()) message.texts[name] = text;
  return std::nullopt;
}

template <typename Wire>
std::optional<Failure> parse(std::string_view bytes, Wire& message) {
  // What is wrong with a peer's bytes is told by the result, not by the library on standard error.
  static std::once_flag quiet;
  std::call_once(quiet, [] { google::protobuf::SetLogHandler(nullptr); });
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return malformed("it is over 2 GiB");
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return malformed("the bytes are damaged");
  if (message.version() != kWireVersion) {
    return malformed(
        fmt::format("it is of version {} and this program speaks version {}", message.version(), kWireVersion));
  }
  return std::nullopt;
}

template <typename Wire>
std::string bytes_of(const Wire& message) {
  std::string bytes;
  if (message.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !message.SerializeToString(&bytes)) {
    throw WorldError("a message is over 2 GiB, the most that protobuf can carry; train fewer parameters");
  }
  return bytes;
}

}  // namespace

std::string encode_request(const Request& request) {
  wire::Request out;
  out.set_version(kWireVersion);
  out.set_procedure(request.procedure);
  out.set_round(request.round);
  put(request.body, *out.mutable_body());
  return bytes_of(out);
}

std::string encode_reply(const Reply& reply) {
  wire::Reply out;
  out.set_version(kWireVersion);
  out.set_client(reply.client);
  out.set_slot(reply.slot);
  out.set_failure(reply.failure);
  put(reply.body, *out.mutable_body());
  return bytes_of(out);
}

Result<Request> decode_request(std::string_view bytes) {
  wire::Request in;
  if (auto failure = parse(bytes, in)) return *failure;
  Request request{in.procedure(), in.round(), {}};
  if (auto failure = take(in.body(), request.body)) return *failure;
  return request;
}

Result<Reply> decode_reply(std::string_view bytes) {
  wire::Reply in;
  if (auto failure = parse(bytes, in)) return *failure;
  Reply reply{in.client(), static_cast<std::size_t>(in.slot()), {}, in.failure()};
  if (auto failure = take(in.body(), reply.body)) return *failure;
  return reply;
}

}  // namespace chorus
