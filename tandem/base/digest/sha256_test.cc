#include "tandem/base/digest/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tandem {
namespace {

std::vector<Sha256Blocks*> every_implementation() {
  std::vector<Sha256Blocks*> all{sha256_blocks_portable};
  if (sha256_blocks_x86() != nullptr) all.push_back(sha256_blocks_x86());
  return all;
}

std::string hex_of(Sha256Blocks* blocks, std::string_view text) {
  Sha256 hash(blocks);
  hash.update(text);
  return hash.hex();
}

// The examples of FIPS 180-4 / NIST's "SHA256.pdf", and the empty message and the million a's of its test suite.
TEST(Sha256Test, GivesTheDigestsOfNist) {
  const std::vector<std::pair<std::string, std::string>> vectors{
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (Sha256Blocks* blocks : every_implementation()) {
    for (const auto& [text, digest] : vectors) EXPECT_EQ(hex_of(blocks, text), digest) << text.size() << " characters";
  }
}

TEST(Sha256Test, DoesNotDependOnHowTheBytesAreCut) {
  std::string text(1000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  const std::string whole = hex_of(sha256_blocks_portable, text);
  for (Sha256Blocks* blocks : every_implementation()) {
    for (std::size_t piece : {1, 3, 55, 56, 63, 64, 65, 127, 128, 129, 999}) {
      Sha256 hash(blocks);
      for (std::size_t at = 0; at < text.size(); at += piece) hash.update(std::string_view(text).substr(at, piece));
      EXPECT_EQ(hash.hex(), whole) << "pieces of " << piece;
    }
  }
}

TEST(Sha256Test, BothImplementationsAgreeAtEveryLength) {
  if (sha256_blocks_x86() == nullptr) GTEST_SKIP() << "this processor has no SHA instructions";
  for (std::size_t length = 0; length < 300; ++length) {
    const std::string text(length, static_cast<char>(length));
    ASSERT_EQ(hex_of(sha256_blocks_x86(), text), hex_of(sha256_blocks_portable, text)) << length;
  }
}

TEST(Sha256Test, GoesOnAfterADigest) {
  Sha256 hash;
  hash.update("ab");
  EXPECT_NE(hash.hex(), hex_of(sha256_blocks_portable, "abc"));
  hash.update("c");
  EXPECT_EQ(hash.hex(), hex_of(sha256_blocks_portable, "abc"));
}

}  // namespace
}  // namespace tandem
