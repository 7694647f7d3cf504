#include "algorithm/secure/ring_vector.h"

#include <openssl/evp.h>

#include <array>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace chorus::inline secure {
namespace {

// The words of the wire are those of the machine.
static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kChunkBytes = 16 * 1024;

/// Bytes of an AES-128-CTR key stream, one chunk after the other.
class KeyStream {
 public:
  explicit KeyStream(const Key& key) : cipher_(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
    check(cipher_ != nullptr && EVP_EncryptInit_ex2(cipher_.get(), aes(), bytes, bytes + kAesKeyBytes, nullptr) == 1,
          "OpenSSL has no AES-128-CTR");
  }
  ~KeyStream() { wipe(chunk_.data(), chunk_.size()); }
  KeyStream(const KeyStream&) = delete;
  KeyStream& operator=(const KeyStream&) = delete;

  const unsigned char* next(std::size_t bytes) {
    static const std::array<unsigned char, kChunkBytes> kZeros{};
    int written = 0;
    check(EVP_EncryptUpdate(cipher_.get(), chunk_.data(), &written, kZeros.data(), static_cast<int>(bytes)) == 1,
          "OpenSSL could not expand a mask");
    return chunk_.data();
  }

 private:
  static constexpr std::size_t kAesKeyBytes = 16;
  // Fetched once: an implicit fetch for every mask is slow in OpenSSL 3.0.
  static const EVP_CIPHER* aes() {
    static const EVP_CIPHER* const kCipher = EVP_CIPHER_fetch(nullptr, "AES-128-CTR", nullptr);
    return kCipher;
  }

  std::unique_ptr<EVP_CIPHER_CTX, void (*)(EVP_CIPHER_CTX*)> cipher_;
  alignas(64) std::array<unsigned char, kChunkBytes> chunk_;
};

template <typename Word>
void add_words(Word* words, const void* bytes, std::size_t count, bool subtract) {
  const auto* from = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof(Word));
    words[i] = subtract ? words[i] - word : words[i] + word;
  }
}

}  // namespace

RingVector::RingVector(unsigned bits, std::size_t size) {
  check(bits == 32 || bits == 64, "a ring has 32 or 64 bits");
  if (bits == 32) {
    words_.emplace<0>(size, std::uint32_t{0});
  } else {
    words_.emplace<1>(size, std::uint64_t{0});
  }
}

std::size_t RingVector::size() const {
  return std::visit([](const auto& words) { return words.size(); }, words_);
}

std::uint64_t RingVector::at(std::size_t i) const {
  return std::visit([i](const auto& words) -> std::uint64_t { return words.at(i); }, words_);
}

void RingVector::set(std::size_t i, std::uint64_t value) {
  std::visit([&](auto& words) { words.at(i) = static_cast<typename std::decay_t<decltype(words)>::value_type>(value); },
             words_);
}

ByteView RingVector::bytes() const {
  return std::visit([](const auto& words) { return std::as_bytes(std::span(words)); }, words_);
}

RingVector RingVector::part(std::size_t begin, std::size_t count) const {
  check(begin <= size() && count <= size() - begin, "a part of a vector lies within it");
  RingVector result(bits(), count);
  const std::size_t width = bits() / 8;
  result.words([&](auto words) { std::memcpy(words.data(), bytes().data() + begin * width, count * width); });
  return result;
}

void RingVector::place(std::size_t begin, const RingVector& part) {
  check(part.bits() == bits() && begin <= size() && part.size() <= size() - begin, "a part of a vector lies within it");
  words([&](auto words) { std::memcpy(words.data() + begin, part.bytes().data(), part.bytes().size()); });
}

void RingVector::add(ByteView bytes) {
  check(bytes.size() == this->bytes().size(), "vectors of two rings or lengths cannot be added");
  std::visit([&](auto& words) { add_words(words.data(), bytes.data(), words.size(), false); }, words_);
}

void RingVector::forget() {
  words([](auto all) { wipe(all.data(), all.size_bytes()); });
  *this = RingVector(bits(), 0);
}

void RingVector::add_mask(const Key& key, bool subtract) {
  std::visit(
      [&](auto& words) {
        using Word = typename std::decay_t<decltype(words)>::value_type;
        constexpr std::size_t kStep = kChunkBytes / sizeof(Word);
        KeyStream stream(key);
        for (std::size_t begin = 0; begin < words.size(); begin += kStep) {
          const std::size_t count = std::min(kStep, words.size() - begin);
          add_words(words.data() + begin, stream.next(count * sizeof(Word)), count, subtract);
        }
      },
      words_);
}

}  // namespace chorus::inline secure
