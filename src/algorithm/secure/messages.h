#pragma once

#include <optional>
#include <string>
#include <vector>

#include "algorithm/secure/primitives.h"
#include "algorithm/secure/shamir.h"
#include "core/base/client_id.h"

/// The messages of a secure sum. Every message begins with a version, its type, the client that sends or receives it
/// and a tag: the session's context for the first two types, the session id for the others, so that a message of
/// another session, attempt or model is recognised. A message of the server ends with the SHA-256 of the rest: damage
/// on the way could make another list of it that is valid, too, and a shorter list of survivors would make its reader
/// reveal a masking key of which others reveal the own mask. All integers are little-endian. Readers check every length
/// before use and return nothing for bytes that are not exactly one message; `undamaged` checks the hash.
namespace chorus::inline secure {

enum class MessageType : std::uint8_t {
  kAdvertise = 1,    ///< client: its public keys
  kKeys = 2,         ///< server: the public keys of all clients
  kShares = 3,       ///< client: sealed shares for its neighbours
  kForwarded = 4,    ///< server: sealed shares of its neighbours
  kMasked = 5,       ///< client: its masked input
  kSurvivors = 6,    ///< server: whose inputs arrived
  kConsistency = 7,  ///< client: its signature of that list (active server)
  kSignatures = 8,   ///< server: the signatures of the others (active server)
  kUnmask = 9        ///< client: shares that remove masks
};

/// The client id of a message to all clients.
inline constexpr ClientId kEverybody = 0xFFFFFFFF;

struct MessageHead {
  MessageType type = MessageType::kAdvertise;
  ClientId client = 0;
  Digest tag = {};
};
inline constexpr std::size_t kHeadBytes = 1 + 1 + 4 + 32;

/// What ends a message of the server. It says nothing about who wrote it: signatures do, against an active server.
inline constexpr std::size_t kTailBytes = sizeof(Digest);
constexpr bool from_server(MessageType type) { return static_cast<unsigned>(type) % 2 == 0; }

/// The beginning of a message, with room for `body` more bytes.
Bytes begin_message(const MessageHead& head, std::size_t body);
/// Appends what ends it, for the server.
Bytes end_message(Bytes message);
/// Between header and end; nothing when there is no room for both.
std::optional<ByteView> body_of(ByteView message);
/// Whether the end belongs to the rest. Always true for messages of clients, which have none.
bool undamaged(ByteView message);

/// The header alone; nothing when the bytes do not begin with one.
std::optional<MessageHead> read_head(ByteView bytes);
/// Why there is none, for the reader's log: these bytes are no message, or one of another version of chorus.
std::string no_head(ByteView bytes);

/// A client's public keys. The commitment lets the server detect a wrong reconstruction of the client's own mask.
struct Advertisement {
  ClientId client = 0;
  PublicKey sealing = {};    ///< X25519, for shares
  PublicKey masking = {};    ///< X25519, for pairwise masks
  Digest commitment = {};    ///< to the seed of the client's own mask
  Signature signature = {};  ///< of the above and the context; zeros with a semi-honest server

  /// What is signed.
  Digest signed_part(const Digest& context) const;
  bool operator==(const Advertisement&) const = default;
};

struct SealedShare {
  ClientId client = 0;  ///< receiver or sender
  Bytes sealed = {};
};

struct SignedBy {
  ClientId client = 0;
  Signature signature = {};
};

/// A share that one client reveals about another: of the seed of its own mask, or of its masking key. Never both: a
/// list with one entry per client cannot express that.
struct RevealedShare {
  enum class Kind : std::uint8_t { kOwnMask = 1, kMaskingKey = 2 };
  ClientId client = 0;
  Kind kind = Kind::kOwnMask;
  Share share = {};
};

/// Size of the two shares when sealed.
inline constexpr std::size_t kSealedBytes = 2 * Share::size() + kSealOverhead;

Bytes write_advertisement(const MessageHead& head, const Advertisement& value);
Bytes write_keys(const MessageHead& head, const std::vector<Advertisement>& value);
Bytes write_shares(const MessageHead& head, const std::vector<SealedShare>& value);
Bytes write_masked(const MessageHead& head, unsigned bits, ByteView words);
Bytes write_survivors(const MessageHead& head, const std::vector<ClientId>& value);
Bytes write_signature(const MessageHead& head, const Signature& value);
Bytes write_signatures(const MessageHead& head, const std::vector<SignedBy>& value);
Bytes write_revealed(const MessageHead& head, const std::vector<RevealedShare>& value);

/// A masked input; `words` is a view into the message.
struct MaskedInput {
  unsigned bits = 0;
  ByteView words = {};
};

/// Entries are strictly ascending by client; anything else is not a message.
std::optional<Advertisement> read_advertisement(ByteView bytes);
std::optional<std::vector<Advertisement>> read_keys(ByteView bytes);
std::optional<std::vector<SealedShare>> read_shares(ByteView bytes);
std::optional<MaskedInput> read_masked(ByteView bytes);
std::optional<std::vector<ClientId>> read_survivors(ByteView bytes);
std::optional<Signature> read_signature(ByteView bytes);
std::optional<std::vector<SignedBy>> read_signatures(ByteView bytes);
std::optional<std::vector<RevealedShare>> read_revealed(ByteView bytes);

}  // namespace chorus::inline secure
