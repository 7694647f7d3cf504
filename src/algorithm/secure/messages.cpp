#include "algorithm/secure/messages.h"

#include <algorithm>
#include <cstring>

#include "core/base/byte_reader.h"

namespace chorus::inline secure {
namespace {

constexpr std::uint8_t kVersion = 2;        // 1 had no hash at the end of the server's messages
constexpr std::uint8_t kMostVersions = 16;  // beyond them it is damage, and no version
constexpr std::size_t kAdvertisementBytes = 4 + 32 + 32 + 32 + 64;

void put(Bytes& bytes, ByteView more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

template <typename T>
void put_number(Bytes& bytes, T value) {
  put(bytes, std::as_bytes(std::span(&value, 1)));
}

Digest tail_of(ByteView message) { return Hash("chorus secure sum message").add(message).digest(); }

std::size_t tail_bytes(ByteView message) { return from_server(static_cast<MessageType>(message[1])) ? kTailBytes : 0; }

template <std::size_t N>
void take(ByteReader& reader, std::array<std::byte, N>& value) {
  const ByteView piece = reader.bytes(N);
  std::copy(piece.begin(), piece.end(), value.begin());
}

/// The rest of a message that is a list of `size` bytes per entry.
template <typename Entry, typename Read>
std::optional<std::vector<Entry>> read_list(ByteView bytes, std::size_t size, Read read) {
  const auto body = body_of(bytes);
  if (!body || body->size() % size != 0) return std::nullopt;
  ByteReader reader(*body);
  std::vector<Entry> entries;
  entries.reserve(reader.left() / size);
  std::optional<ClientId> last;
  while (reader.left() > 0) {
    const auto client = reader.take<ClientId>();
    if (last && client <= *last) return std::nullopt;
    last = client;
    Entry entry;
    if (!read(reader, client, entry)) return std::nullopt;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void put_advertisement(Bytes& bytes, const Advertisement& value) {
  put_number(bytes, value.client);
  put(bytes, value.sealing);
  put(bytes, value.masking);
  put(bytes, value.commitment);
  put(bytes, value.signature);
}

}  // namespace

Bytes begin_message(const MessageHead& head, std::size_t body) {
  Bytes bytes;
  bytes.reserve(kHeadBytes + body + (from_server(head.type) ? kTailBytes : 0));
  put_number(bytes, kVersion);
  put_number(bytes, static_cast<std::uint8_t>(head.type));
  put_number(bytes, head.client);
  put(bytes, head.tag);
  return bytes;
}

Bytes end_message(Bytes message) {
  if (tail_bytes(message) > 0) put(message, tail_of(message));
  return message;
}

std::optional<ByteView> body_of(ByteView message) {
  if (message.size() < kHeadBytes || message.size() < kHeadBytes + tail_bytes(message)) return std::nullopt;
  return message.subspan(kHeadBytes, message.size() - kHeadBytes - tail_bytes(message));
}

bool undamaged(ByteView message) {
  const auto body = body_of(message);
  if (!body) return false;
  const std::size_t before = kHeadBytes + body->size();
  if (before == message.size()) return true;
  const Digest expected = tail_of(message.first(before));
  return std::equal(expected.begin(), expected.end(), message.begin() + static_cast<std::ptrdiff_t>(before));
}

Digest Advertisement::signed_part(const Digest& context) const {
  return Hash("chorus secure sum keys").add(context).add(client).add(sealing).add(masking).add(commitment).digest();
}

std::optional<MessageHead> read_head(ByteView bytes) {
  ByteReader reader(bytes);
  const auto version = reader.take<std::uint8_t>();
  const auto type = reader.take<std::uint8_t>();
  MessageHead head;
  head.client = reader.take<ClientId>();
  take(reader, head.tag);
  if (!reader.ok() || version != kVersion || type < 1 || type > static_cast<std::uint8_t>(MessageType::kUnmask)) {
    return std::nullopt;
  }
  head.type = static_cast<MessageType>(type);
  return head;
}

std::string no_head(ByteView bytes) {
  const auto version = bytes.size() < kHeadBytes ? 0 : std::to_integer<unsigned>(bytes[0]);
  if (version == 0 || version == kVersion || version > kMostVersions) return "not a message of a secure sum";
  return "a message of secure sums of version " + std::to_string(version) + ", and this side has version " +
         std::to_string(kVersion) + "; upgrade chorus on " + (version < kVersion ? "the other" : "this") + " side";
}

Bytes write_advertisement(const MessageHead& head, const Advertisement& value) { return write_keys(head, {value}); }

Bytes write_keys(const MessageHead& head, const std::vector<Advertisement>& value) {
  Bytes bytes = begin_message(head, value.size() * kAdvertisementBytes);
  for (const Advertisement& entry : value) put_advertisement(bytes, entry);
  return end_message(std::move(bytes));
}

Bytes write_shares(const MessageHead& head, const std::vector<SealedShare>& value) {
  Bytes bytes = begin_message(head, value.size() * (4 + kSealedBytes));
  for (const SealedShare& entry : value) {
    put_number(bytes, entry.client);
    put(bytes, entry.sealed);
  }
  return end_message(std::move(bytes));
}

Bytes write_masked(const MessageHead& head, unsigned bits, ByteView words) {
  Bytes bytes = begin_message(head, 1 + words.size());
  put_number(bytes, static_cast<std::uint8_t>(bits));
  put(bytes, words);
  return end_message(std::move(bytes));
}

Bytes write_survivors(const MessageHead& head, const std::vector<ClientId>& value) {
  Bytes bytes = begin_message(head, value.size() * 4);
  for (const ClientId client : value) put_number(bytes, client);
  return end_message(std::move(bytes));
}

Bytes write_signature(const MessageHead& head, const Signature& value) {
  Bytes bytes = begin_message(head, value.size());
  put(bytes, value);
  return end_message(std::move(bytes));
}

Bytes write_signatures(const MessageHead& head, const std::vector<SignedBy>& value) {
  Bytes bytes = begin_message(head, value.size() * 68);
  for (const SignedBy& entry : value) {
    put_number(bytes, entry.client);
    put(bytes, entry.signature);
  }
  return end_message(std::move(bytes));
}

Bytes write_revealed(const MessageHead& head, const std::vector<RevealedShare>& value) {
  Bytes bytes = begin_message(head, value.size() * (5 + Share::size()));
  for (const RevealedShare& entry : value) {
    put_number(bytes, entry.client);
    put_number(bytes, static_cast<std::uint8_t>(entry.kind));
    put(bytes, entry.share.view());
  }
  return end_message(std::move(bytes));
}

std::optional<Advertisement> read_advertisement(ByteView bytes) {
  auto list = read_keys(bytes);
  if (!list || list->size() != 1) return std::nullopt;
  return list->front();
}

std::optional<std::vector<Advertisement>> read_keys(ByteView bytes) {
  return read_list<Advertisement>(bytes, kAdvertisementBytes,
                                  [](ByteReader& reader, ClientId client, Advertisement& entry) {
                                    entry.client = client;
                                    take(reader, entry.sealing);
                                    take(reader, entry.masking);
                                    take(reader, entry.commitment);
                                    take(reader, entry.signature);
                                    return true;
                                  });
}

std::optional<std::vector<SealedShare>> read_shares(ByteView bytes) {
  return read_list<SealedShare>(bytes, 4 + kSealedBytes, [](ByteReader& reader, ClientId client, SealedShare& entry) {
    const ByteView sealed = reader.bytes(kSealedBytes);
    entry = {client, Bytes(sealed.begin(), sealed.end())};
    return true;
  });
}

std::optional<MaskedInput> read_masked(ByteView bytes) {
  const auto body = body_of(bytes);
  if (!body || body->empty()) return std::nullopt;
  return MaskedInput{static_cast<unsigned>(body->front()), body->subspan(1)};
}

std::optional<std::vector<ClientId>> read_survivors(ByteView bytes) {
  return read_list<ClientId>(bytes, 4, [](ByteReader&, ClientId client, ClientId& entry) {
    entry = client;
    return true;
  });
}

std::optional<Signature> read_signature(ByteView bytes) {
  Signature signature;
  const auto body = body_of(bytes);
  if (!body || body->size() != signature.size()) return std::nullopt;
  ByteReader reader(*body);
  take(reader, signature);
  return signature;
}

std::optional<std::vector<SignedBy>> read_signatures(ByteView bytes) {
  return read_list<SignedBy>(bytes, 68, [](ByteReader& reader, ClientId client, SignedBy& entry) {
    entry.client = client;
    take(reader, entry.signature);
    return true;
  });
}

std::optional<std::vector<RevealedShare>> read_revealed(ByteView bytes) {
  return read_list<RevealedShare>(bytes, 5 + Share::size(),
                                  [](ByteReader& reader, ClientId client, RevealedShare& entry) {
                                    entry.client = client;
                                    const auto kind = reader.take<std::uint8_t>();
                                    if (kind != 1 && kind != 2) return false;
                                    entry.kind = static_cast<RevealedShare::Kind>(kind);
                                    const ByteView share = reader.bytes(Share::size());
                                    std::copy(share.begin(), share.end(), entry.share.data());
                                    return true;
                                  });
}

}  // namespace chorus::inline secure
