#include "algorithm/secure/primitives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "algorithm/secure/ring_vector.h"
#include "algorithm/secure/shamir.h"
#include "core/base/error.h"
#include "tests/hex_bytes.h"

namespace chorus::inline secure {
namespace {

TEST(Primitives, AgreementEqualsRfc7748) {
  const Key alice = secret_of<32>("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const PublicKey bob = array_of<PublicKey>("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  EXPECT_EQ(bytes_of(agree(alice, bob)->view()),
            from_hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"));
  EXPECT_EQ(public_key_of(alice),
            array_of<PublicKey>("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"));
}

TEST(Primitives, KeyDerivationEqualsRfc5869) {
  const Bytes okm = bytes_of(derive_key(from_hex("0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"),
                                        from_hex("000102030405060708090a0b0c"), from_hex("f0f1f2f3f4f5f6f7f8f9"))
                                 .view());
  EXPECT_EQ(okm, from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
}

TEST(Primitives, SignatureEqualsRfc8032) {
  const auto secret = secret_of<64>(
      "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
      "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  const PublicKey open = array_of<PublicKey>("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  const Signature expected = array_of<Signature>(
      "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
      "655141"
      "438e7a100b");
  EXPECT_EQ(sign(secret, {}), expected);
  EXPECT_TRUE(verify(open, {}, expected));
  Signature wrong = expected;
  wrong[3] ^= std::byte{1};
  EXPECT_FALSE(verify(open, {}, wrong));
  EXPECT_FALSE(verify(open, from_hex("00"), expected));
}

// Wycheproof, x25519_test.json, cases 1 to 3: an ordinary key, and two on the twist of the curve.
TEST(Primitives, AgreementEqualsWycheproof) {
  struct Case {
    const char *secret, *open, *shared;
  };
  for (const Case& vector : {Case{"c8a9d5a91091ad851c668b0736c1c9a02936c0d3ad62670858088047ba057475",
                                  "504a36999f489cd2fdbc08baff3d88fa00569ba986cba22548ffde80f9806829",
                                  "436a2c040cf45fea9b29a0cb81b1f41458f863d0d61b453d0a982720d6d61320"},
                             Case{"d85d8c061a50804ac488ad774ac716c3f5ba714b2712e048491379a500211958",
                                  "63aa40c6e38346c5caf23a6df0a5e6c80889a08647e551b3563449befcfc9733",
                                  "279df67a7c4611db4708a0e8282b195e5ac0ed6f4b2f292c6fbd0acac30d1332"},
                             Case{"c8b45bfd32e55325d9fd648cb302848039000b390e44d521e58aab3b29a6964b",
                                  "0f83c36fded9d32fadf4efa3ae93a90bb5cfa66893bc412c43fa7287dbb99779",
                                  "4bc7e01e7d83d6cf67632bf90033487a5fc29eba5328890ea7b1026d23b9a45f"}}) {
    EXPECT_EQ(bytes_of(agree(secret_of<32>(vector.secret), array_of<PublicKey>(vector.open))->view()),
              from_hex(vector.shared));
  }
}

// Wycheproof's classes of forged Ed25519 signatures: s + L instead of s, s or R of zeros, a public key of small order,
// and every changed bit.
TEST(Primitives, ForgedSignaturesAreRefused) {
  const SigningKeys keys = new_signing_keys();
  const Bytes message = from_hex("0011223344");
  const Signature good = sign(keys.secret, message);
  ASSERT_TRUE(verify(keys.open, message, good));
  const Bytes order = from_hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  Signature other = good;
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    carry += static_cast<unsigned>(other[32 + i]) + static_cast<unsigned>(order[i]);
    other[32 + i] = static_cast<std::byte>(carry & 255U);
    carry >>= 8;
  }
  EXPECT_FALSE(verify(keys.open, message, other)) << "s + L";
  for (const std::size_t half : {0U, 32U}) {
    other = good;
    std::fill_n(other.begin() + static_cast<std::ptrdiff_t>(half), 32, std::byte{0});
    EXPECT_FALSE(verify(keys.open, message, other)) << "zeros from byte " << half;
  }
  // With the neutral element as key, R = neutral element and s = 0 satisfy the equation for every message.
  PublicKey neutral{};
  neutral[0] = std::byte{1};
  other.fill(std::byte{0});
  other[0] = std::byte{1};
  EXPECT_FALSE(verify(neutral, message, other));
  for (std::size_t bit = 0; bit < 8 * good.size(); bit += 3) {
    other = good;
    other[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(verify(keys.open, message, other)) << bit;
  }
}

// NIST SP 800-38A, F.5.1: the key stream of AES-128-CTR.
TEST(Primitives, MaskEqualsSp80038a) {
  RingVector mask(32, 16);
  mask.add_mask(secret_of<32>("2b7e151628aed2a6abf7158809cf4f3cf0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"), false);
  EXPECT_EQ(bytes_of(mask.bytes()), from_hex("ec8cdf7398607cb0f2d21675ea9ea1e4362b7c3c6773516318a077d7fc5073ae"
                                             "6a2cc3787889374fbeb4c81b17ba6c44e89c399ff0f198c6d40a31db156cabfe"));
}

// From Python: hashlib, and cryptography's ChaCha20Poly1305 with nonce 0.
TEST(Primitives, HashAndSealEqualPython) {
  EXPECT_EQ(Hash("purpose").add("abc").add(7).digest(),
            array_of<Digest>("d6505e079ebce1a242d21d691d3b8654d21b138e92659915f052f111f2c135fa"));
  const Key key = secret_of<32>("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
  const auto view = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const Bytes sealed = seal(key, view("bound"), view("secret shares"));
  EXPECT_EQ(sealed, from_hex("6bdd2143c89286a27b002e04dc6dce5983b43a126215a44dd826b06068"));
  EXPECT_EQ(bytes_of(unseal(key, view("bound"), sealed)->view()), bytes_of(view("secret shares")));
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    Bytes changed = sealed;
    changed[i] ^= std::byte{0x10};
    EXPECT_FALSE(unseal(key, view("bound"), changed));
  }
  EXPECT_FALSE(unseal(key, view("Bound"), sealed));
  EXPECT_FALSE(unseal(random_key(), view("bound"), sealed));
  EXPECT_FALSE(unseal(key, view("bound"), ByteView(sealed).first(7)));
}

// 1.6, mistake 12. The points of small order, in all their encodings, as listed by Wycheproof and libsodium.
TEST(Primitives, Mistake12KeysOfSmallOrderAreRefused) {
  const Key secret = random_key();
  for (const char* hex : {"0000000000000000000000000000000000000000000000000000000000000000",
                          "0100000000000000000000000000000000000000000000000000000000000000",
                          "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
                          "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
                          "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"}) {
    EXPECT_FALSE(agree(secret, array_of<PublicKey>(hex))) << hex;
  }
  // The unused bit of a key: a second form of the same key would not be recognised as a duplicate.
  PublicKey twice = public_key_of(random_key());
  EXPECT_TRUE(agree(secret, twice));
  twice[31] |= std::byte{0x80};
  EXPECT_FALSE(agree(secret, twice));
}

// 1.6, mistake 13.
TEST(Primitives, Mistake13SecretsAreWiped) {
  alignas(Key) std::byte memory[sizeof(Key)];
  Key* key = new (memory) Key(random_key());
  EXPECT_FALSE(std::all_of(memory, memory + 32, [](std::byte b) { return b == std::byte{0}; }));
  key->~Key();
  EXPECT_TRUE(std::all_of(memory, memory + 32, [](std::byte b) { return b == std::byte{0}; }));

  Key source = random_key();
  const Key target = std::move(source);
  EXPECT_EQ(source, Key());  // NOLINT(bugprone-use-after-move): that it is empty is the point
  EXPECT_NE(target, Key());

  // A heap block that was given back still holds no secret.
  auto bytes = std::make_unique<SecretBytes>(64);
  std::fill_n(bytes->data(), 64, std::byte{0xAB});
  const volatile std::byte* block = bytes->data();
  bytes->clear();
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(block[i] == std::byte{0});
}

// 1.6, mistakes 4 and 5: a mask reaches every value of the ring without bias, and differs for every key.
TEST(RingVector, Mistake4And5MasksAreUniform) {
  RingVector mask(32, 200'000);
  const Key key = random_key();
  mask.add_mask(key, false);
  std::vector<int> high(16, 0);
  std::uint64_t ones = 0;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    ++high[mask.at(i) >> 28];
    ones += static_cast<std::uint64_t>(__builtin_popcountll(mask.at(i)));
  }
  for (const int count : high) EXPECT_NEAR(count, 12'500, 650);  // six standard deviations
  EXPECT_NEAR(static_cast<double>(ones), 3.2e6, 7600);
  RingVector other(32, 4);
  other.add_mask(random_key(), false);
  EXPECT_NE(other.at(0), mask.at(0));
}

TEST(RingVector, MasksCancelAndSumsWrap) {
  for (const unsigned bits : {32U, 64U}) {
    RingVector x(bits, 5000);
    x.set(3, 17);
    x.set(4999, ~std::uint64_t{0});
    const RingVector before = x;
    const Key key = random_key();
    x.add_mask(key, false);
    EXPECT_FALSE(x == before);
    x.add_mask(key, true);
    EXPECT_TRUE(x == before);
    RingVector one(bits, 5000);
    one.set(4999, 1);
    x.add(one);
    EXPECT_EQ(x.at(4999), 0U);
    EXPECT_THROW(x.add(RingVector(bits, 4999)), InternalError);
  }
}

std::vector<PlacedShare> placed(const std::vector<Share>& shares, const std::vector<std::uint32_t>& points,
                                const std::vector<std::size_t>& chosen) {
  std::vector<PlacedShare> result;
  for (const std::size_t i : chosen) result.push_back({points[i], &shares[i]});
  return result;
}

TEST(Shamir, AnyThresholdOfSharesGivesTheSecret) {
  const std::vector<std::uint32_t> points = {1, 2, 3, 5, 8, 1000};
  const Key seed = random_seed();
  const std::vector<Share> shares = split_secret(seed, 3, points);
  SecretJoiner joiner;
  int sets = 0;
  for (unsigned set = 0; set < 64; ++set) {
    std::vector<std::size_t> chosen;
    for (std::size_t i = 0; i < 6; ++i) {
      if ((set >> i & 1U) == 1) chosen.push_back(i);
    }
    const std::optional<Key> joined = joiner.join(placed(shares, points, chosen), 3);
    EXPECT_EQ(joined.has_value(), chosen.size() >= 3);
    if (joined) {
      EXPECT_EQ(*joined, seed);
      ++sets;
    }
  }
  EXPECT_EQ(sets, 42);
}

// 1.6, mistake 8.
TEST(Shamir, Mistake8WrongUseIsRefused) {
  const std::vector<std::uint32_t> points = {1, 2, 3, 4};
  const Key seed = random_seed();
  const std::vector<Share> shares = split_secret(seed, 3, points);
  SecretJoiner joiner;
  EXPECT_FALSE(joiner.join(placed(shares, points, {0, 1}), 3)) << "fewer than the threshold";
  EXPECT_FALSE(joiner.join(placed(shares, points, {0, 1, 1}), 3)) << "a point twice";
  std::vector<PlacedShare> at_zero = placed(shares, points, {0, 1, 2});
  at_zero[1].x = 0;
  EXPECT_FALSE(joiner.join(at_zero, 3)) << "the point 0";
  Share outside;
  std::memset(outside.data(), 0xFF, Share::size());
  std::vector<PlacedShare> wrong = placed(shares, points, {0, 1, 2});
  wrong[2].share = &outside;
  EXPECT_FALSE(joiner.join(wrong, 3)) << "not an element of the field";
  std::vector<PlacedShare> swapped = placed(shares, points, {0, 1, 2});
  std::swap(swapped[0].x, swapped[1].x);
  EXPECT_NE(*joiner.join(swapped, 3), seed) << "another index";
  const std::vector<std::uint32_t> with_zero = {0, 1, 2};
  EXPECT_THROW(split_secret(seed, 2, with_zero), InternalError);
  EXPECT_THROW(split_secret(seed, 5, points), InternalError);
  EXPECT_THROW(split_secret(Key(secret_of<32>(std::string(64, 'f'))), 2, points), InternalError);
}

// Fewer shares than the threshold are uniform, whatever the secret: compare the top bits of many first shares.
TEST(Shamir, TooFewSharesSayNothing) {
  const std::vector<std::uint32_t> points = {1, 2};
  Key zero;
  std::vector<int> buckets(8, 0);
  for (int i = 0; i < 4000; ++i) {
    const std::vector<Share> shares = split_secret(zero, 2, points);
    std::uint64_t word = 0;
    std::memcpy(&word, shares[0].data(), 8);
    ++buckets[word >> 58];
  }
  for (const int count : buckets) EXPECT_NEAR(count, 500, 126);  // six standard deviations
}

}  // namespace
}  // namespace chorus::inline secure
