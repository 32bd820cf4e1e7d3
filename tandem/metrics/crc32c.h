// metrics/crc32c.h: the checksum of TensorBoard's files: CRC-32C (Castagnoli, RFC 3720 section 12.1).
#pragma once
#include <cstdint>
#include <string_view>

namespace tandem {

[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace tandem
