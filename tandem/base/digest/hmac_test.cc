#include "tandem/base/digest/hmac.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

namespace tandem {
namespace {

std::vector<std::byte> repeated(unsigned char value, std::size_t count) {
  return std::vector<std::byte>(count, std::byte{value});
}

// Cases 1, 2 and 6 of RFC 4231: a short key, one of text, and one that is longer than a block.
TEST(HmacTest, GivesTheCodesOfRfc4231) {
  EXPECT_EQ(hex_of(hmac_sha256(repeated(0x0b, 20), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex_of(hmac_sha256(std::as_bytes(std::span("Jefe", 4)), "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex_of(hmac_sha256(repeated(0xaa, 131), "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, PartsAreOneText) {
  const std::vector<std::byte> key = repeated(1, 3);
  const std::array parts{std::as_bytes(std::span("ab", 2)), std::as_bytes(std::span("c", 1))};
  EXPECT_EQ(hmac_sha256(key, parts), hmac_sha256(key, "abc"));
}

TEST(HmacTest, DigestsAreEqualOnlyWhereAllBytesAre) {
  const Sha256::Digest digest = hmac_sha256({}, "");
  EXPECT_TRUE(equal_in_constant_time(digest, digest));
  for (std::size_t i = 0; i < digest.size(); ++i) {
    Sha256::Digest other = digest;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(equal_in_constant_time(digest, other)) << i;
  }
}

TEST(RandomHexTest, HasTheLengthAndIsNeverTheSame) {
  std::set<std::string> all;
  for (int time = 0; time < 100; ++time) all.insert(random_hex(16));
  EXPECT_EQ(all.size(), 100U);
  EXPECT_EQ(all.begin()->size(), 32U);
}

}  // namespace
}  // namespace tandem
