// Published vectors of the cryptography that secure sums use, and the edge cases that Project Wycheproof tries. Every
// vector was checked with Python's cryptography (OpenSSL), which also gave those without a source of their own.
#include <gtest/gtest.h>

#include "algorithm/secure/primitives.h"
#include "algorithm/secure/ring_vector.h"
#include "tests/hex_bytes.h"

namespace chorus::inline secure {
namespace {

std::string agreed(const char* secret, const char* open) {
  const auto shared = agree(secret_of<32>(secret), array_of<PublicKey>(open));
  if (!shared) return "none";
  std::string hex;
  for (const std::byte byte : shared->view()) {
    constexpr const char* kDigits = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(byte) >> 4U];
    hex += kDigits[static_cast<unsigned>(byte) & 15U];
  }
  return hex;
}

constexpr const char* kScalar = "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4";

// RFC 7748, 5.2. The point of the second vector has its unused bit set: it is refused, and agrees without the bit.
TEST(Vectors, X25519OfRfc7748) {
  EXPECT_EQ(agreed(kScalar, "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552");
  const char* second = "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d";
  EXPECT_EQ(agreed(second, "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"), "none");
  EXPECT_EQ(agreed(second, "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a413"),
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957");
}

TEST(Vectors, X25519ThousandTimesOfRfc7748) {
  Bytes scalar = from_hex("0900000000000000000000000000000000000000000000000000000000000000"), point = scalar;
  for (int i = 1; i <= 1000; ++i) {
    Key secret;
    PublicKey open;
    std::copy(scalar.begin(), scalar.end(), secret.data());
    std::copy(point.begin(), point.end(), open.begin());
    const auto shared = agree(secret, open);
    ASSERT_TRUE(shared) << i;
    point = scalar;
    scalar = bytes_of(shared->view());
    if (i == 1) {
      EXPECT_EQ(scalar, from_hex("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"));
    }
  }
  EXPECT_EQ(scalar, from_hex("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"));
}

// RFC 7748, 6.1.
TEST(Vectors, X25519BothSidesOfRfc7748) {
  const char* alice = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";
  const char* bob = "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb";
  const char* shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
  EXPECT_EQ(agreed(alice, "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"), shared);
  EXPECT_EQ(agreed(bob, "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"), shared);
  EXPECT_EQ(public_key_of(secret_of<32>(bob)),
            array_of<PublicKey>("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"));
}

// Wycheproof: points of the twist, and coordinates of p and above, which count as their remainder.
TEST(Vectors, X25519EdgeCases) {
  EXPECT_EQ(agreed(kScalar, "ebffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
            "db1808f6abcb049329d5a22f3b14b9d0dfb8c065f6b4795bfda27254ee01c44e")
      << "p - 2";
  for (const auto& [above, below, shared] :
       {std::tuple("efffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                   "0200000000000000000000000000000000000000000000000000000000000000",
                   "71cacba0b65daf53ddf9c21fb434bc58ee5cfa3954d1b642fc5155048f03466f"),
        std::tuple("ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                   "1200000000000000000000000000000000000000000000000000000000000000",
                   "76b00406ce7e87774c0038dd8d89b188047977f8828ca1dcb8f98bb5d5d0cf48")}) {
    EXPECT_EQ(agreed(kScalar, above), shared);
    EXPECT_EQ(agreed(kScalar, below), shared);
  }
  for (const char* small : {"0000000000000000000000000000000000000000000000000000000000000000",
                            "0100000000000000000000000000000000000000000000000000000000000000",
                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                            "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"}) {
    EXPECT_EQ(agreed(kScalar, small), "none") << "small order: " << small;
  }
}

// RFC 8032, 7.1: TEST 1, 2, 3 and SHA(abc).
struct SignatureVector {
  const char *seed, *open, *message, *signature;
};
constexpr SignatureVector kSignatures[] = {{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                                            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
                                            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                                            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
                                           {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                                            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
                                            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                                            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
                                           {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                                            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
                                            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                                            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
                                           {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
                                            "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
                                            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
                                            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
                                            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
                                            "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"}};

TEST(Vectors, Ed25519OfRfc8032) {
  for (const SignatureVector& vector : kSignatures) {
    const auto secret = secret_of<64>(std::string(vector.seed) + vector.open);
    const Bytes message = from_hex(vector.message);
    const auto signature = array_of<Signature>(vector.signature);
    EXPECT_EQ(sign(secret, message), signature) << vector.open;
    const auto open = array_of<PublicKey>(vector.open);
    EXPECT_TRUE(verify(open, message, signature));
    Bytes other = message;
    other.push_back(std::byte{0});
    EXPECT_FALSE(verify(open, other, signature));
    for (std::size_t bit = 0; bit < 8 * signature.size(); ++bit) {
      Signature flipped = signature;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      EXPECT_FALSE(verify(open, message, flipped)) << bit;
    }
  }
}

// Wycheproof: the same signature with S + L for S, which satisfies the equation, too, and keys of small order.
TEST(Vectors, Ed25519EdgeCases) {
  const auto open = array_of<PublicKey>(kSignatures[1].open);
  const Bytes message = from_hex(kSignatures[1].message);
  EXPECT_FALSE(verify(open, message,
                      array_of<Signature>("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                                          "f52db7415978abc61b2c2eb6aeebfca0387b2eaeb4302aeeb00d291612bb0c10")));
  Signature zeros{};
  for (const char* small : {"0000000000000000000000000000000000000000000000000000000000000000",
                            "0100000000000000000000000000000000000000000000000000000000000000",
                            "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                            "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    const auto key = array_of<PublicKey>(small);
    std::copy(key.begin(), key.end(), zeros.begin());  // R = the key, S = 0
    EXPECT_FALSE(verify(key, message, zeros)) << small;
  }
}

// RFC 5869, A.1 to A.3, of which 32 bytes are used.
TEST(Vectors, HkdfOfRfc5869) {
  const auto sequence = [](unsigned from, unsigned to) {
    Bytes bytes;
    for (unsigned value = from; value < to; ++value) bytes.push_back(static_cast<std::byte>(value));
    return bytes;
  };
  const Bytes material(22, std::byte{0x0b});
  EXPECT_EQ(bytes_of(derive_key(material, sequence(0, 13), sequence(0xf0, 0xfa)).view()),
            from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
  EXPECT_EQ(bytes_of(derive_key(sequence(0, 0x50), sequence(0x60, 0xb0), sequence(0xb0, 0x100)).view()),
            from_hex("b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"));
  EXPECT_EQ(bytes_of(derive_key(material, {}, {}).view()),
            from_hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"));
}

// ChaCha20-Poly1305 with nonce 0, the only one that is used, around the sizes of its blocks: so many bytes 0, 7, 14,
// ..., bound to the beginning of RFC 8439's associated data, under its key.
struct SealVector {
  std::size_t size, bound;
  const char* sealed;
};
constexpr SealVector kSeals[] = {{0, 0, "3ae5d3f2a376d317eaea5aef0215ba54"},
                                 {1, 1, "2a2543bbb629575b4d4e576f8090be687c"},
                                 {15, 2, "2a5b14b82279c4faf50e63b2f086cfdc28f9514deefeb0b96a244113e25287"},
                                 {16, 3, "2a5b14b82279c4faf50e63b2f086cf435b50a578ce01f94404b589f877a6a8c8"},
                                 {17, 4,
                                  "2a5b14b82279c4faf50e63b2f086cf4306930bbc2d97d659c2d1a1eac181a571"
                                  "1c"},
                                 {63, 11,
                                  "2a5b14b82279c4faf50e63b2f086cf4306bf143c4fe95bc90f9de41bd7d3d952"
                                  "f46cb597225f457d9b3b796054f3f2d9c7e5b38017a46ea9a73f9842fec3aa5c"
                                  "5803cb94ef76123a0e0b62a064acbe"},
                                 {64, 12,
                                  "2a5b14b82279c4faf50e63b2f086cf4306bf143c4fe95bc90f9de41bd7d3d952"
                                  "f46cb597225f457d9b3b796054f3f2d9c7e5b38017a46ea9a73f9842fec3aa90"
                                  "c6dd535f33985c2a95db78bff413af52"},
                                 {65, 0,
                                  "2a5b14b82279c4faf50e63b2f086cf4306bf143c4fe95bc90f9de41bd7d3d952"
                                  "f46cb597225f457d9b3b796054f3f2d9c7e5b38017a46ea9a73f9842fec3aa90"
                                  "222cb7cf8fc381d97039cdb75702282913"}};

TEST(Vectors, SealsEqualOpenssl) {
  const Key key = secret_of<32>("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f");
  const Bytes data = from_hex("50515253c0c1c2c3c4c5c6c7");
  for (const SealVector& vector : kSeals) {
    Bytes text;
    for (std::size_t i = 0; i < vector.size; ++i) text.push_back(static_cast<std::byte>(7 * i & 255U));
    const ByteView bound = ByteView(data).first(vector.bound);
    const Bytes sealed = seal(key, bound, text);
    EXPECT_EQ(sealed, from_hex(vector.sealed)) << vector.size;
    ASSERT_TRUE(unseal(key, bound, sealed));
    EXPECT_EQ(bytes_of(unseal(key, bound, sealed)->view()), text);
    for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
      Bytes flipped = sealed;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      EXPECT_FALSE(unseal(key, bound, flipped)) << vector.size << " " << bit;
    }
    for (std::size_t size = 0; size < sealed.size(); ++size) {
      EXPECT_FALSE(unseal(key, bound, ByteView(sealed).first(size))) << vector.size << " " << size;
    }
    Bytes longer = sealed;
    longer.push_back(std::byte{0});
    EXPECT_FALSE(unseal(key, bound, longer));
  }
}

// NIST SP 800-38A, F.5.1: the ciphertext of AES-128-CTR; and counters that overflow a word or all 128 bits.
TEST(Vectors, MasksEqualAesInCounterMode) {
  const auto masked = [](const char* counter, const Bytes& text) {
    RingVector vector(32, text.size() / 4);
    vector.add_mask(secret_of<32>(std::string("2b7e151628aed2a6abf7158809cf4f3c") + counter), false);
    Bytes result = bytes_of(vector.bytes());
    for (std::size_t i = 0; i < text.size(); ++i) result[i] ^= text[i];
    return result;
  };
  const Bytes zeros(48);
  EXPECT_EQ(masked("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
                   from_hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
                            "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")),
            from_hex("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
                     "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee"));
  EXPECT_EQ(
      masked("000000000000000000000000ffffffff", zeros),
      from_hex("33c14e7e92d8ebe55ee2d8d98a1e65326791ab9e2faeedef478d0e7c254011ae75e13c9374ce88c40b501401e84b548f"));
  EXPECT_EQ(
      masked("ffffffffffffffffffffffffffffffff", zeros),
      from_hex("8af2860142f786f409307c1a3f7eaaac7df76b0c1ab899b33e42f047b91b546f57127d4034b1bebfaef466b9c7726fc6"));
}

}  // namespace
}  // namespace chorus::inline secure
