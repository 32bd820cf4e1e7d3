// Question: can any bytes make the readers of checkpoints crash, hang, or read outside what they were given?
//
// The first byte chooses the reader. A manifest's digest is made right first, or nothing behind it would be reached.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "tandem/base/error.h"
#include "tandem/model/files/checkpoint.h"
#include "tandem/model/files/safetensors.h"

namespace {

void read_part(std::span<const std::byte> bytes) {
  const auto layout = tandem::model::parse_safetensors(bytes);
  for (const auto& entry : layout.entries) {
    if (entry.end > bytes.size() - layout.data_begin || entry.begin > entry.end) std::abort();
  }
}

void read_manifest(std::string text) {
  if (!text.ends_with('}')) text.push_back('}');
  const auto manifest = tandem::model::parse_manifest(tandem::model::seal_manifest(text));
  if (tandem::model::parse_manifest(tandem::model::make_manifest(manifest)) != manifest) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    switch (data[0] % 3) {
      case 0:
        read_part(bytes);
        break;
      case 1:
        read_manifest(text);
        break;
      default:
        (void)tandem::model::parse_manifest(text);
    }
  } catch (const tandem::CheckpointError&) {
  }
  return 0;
}
