#include "tandem/metrics/crc32c.h"

#include <array>

namespace tandem {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = remainder;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t remainder = 0xffffffff;
  for (const char c : bytes) remainder = remainder >> 8 ^ kTable[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  return ~remainder;
}

}  // namespace tandem
