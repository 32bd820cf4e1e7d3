#include "tandem/model/files/file_kind.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tandem/base/text.h"

namespace tandem::model {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kZip = "PK\x03\x04"sv, kZipEnd = "PK\x05\x06"sv;

// First bytes, and the sentence for them.
constexpr std::array<std::pair<std::string_view, const char*>, 7> kKnown{{
    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8P\x19"sv,
     "it is of torch.save() before PyTorch 1.6, or with _use_new_zipfile_serialization=False; load it in Python and "
     "save "
     "it once more, without that option"},
    {"\x80"sv, "it is a Python pickle that torch.save() did not write; save the tensors with torch.save()"},
    {"version https://git-lfs"sv, "it is Git LFS's pointer to a file, not the file; git lfs pull fetches it"},
    {"\x89HDF"sv, "it is an HDF5 file, as Keras writes them; save the tensors with safetensors or torch.save()"},
    {"\x93NUMPY"sv, "it is a NumPy array; save the tensors with safetensors or torch.save()"},
    {"GGUF"sv, "it is a GGUF file; save the tensors with safetensors or torch.save()"},
    {"\x1f\x8b"sv, "it is compressed with gzip; gunzip it first"},
}};

// The end's record is 22 bytes long, and a comment of at most 65535 may follow.
bool is_cut_off(std::string_view zip) {
  constexpr std::size_t kMost = 22 + 65535;
  return zip.substr(zip.size() - std::min(zip.size(), kMost)).find(kZipEnd) == std::string_view::npos;
}

}  // namespace

bool is_whole_zip(std::string_view content) { return content.starts_with(kZip) && !is_cut_off(content); }

// Eight bytes, little-endian, are the length of the header, a JSON object that follows.
bool begins_as_safetensors(std::string_view content) {
  constexpr std::uint64_t kMostHeader = 100'000'000;
  std::uint64_t header = 0;
  if (content.size() < 9) return false;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<unsigned char>(content[i]);
  return header >= 2 && header <= kMostHeader && content[8] == '{';
}

std::string kind_of_file(std::string_view content) {
  if (content.empty()) return "it is empty";
  if (begins_as_safetensors(content)) return "it is a safetensors file; read it with load_weights_safetensors()";
  if (content.starts_with(kZip) && is_cut_off(content))
    return concat("it is a zip archive, as torch.save() writes them, that is cut off after ", content.size(),
                  " bytes; copy or save it once more");
  if (content.starts_with(kZip))
    return "it is a zip archive, as torch.save() writes them; load_weights_torch() reads those of torch.save()";
  for (const auto& [begin, sentence] : kKnown) {
    if (content.starts_with(begin)) return sentence;
  }
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  std::string bytes;
  for (const char each : content.substr(0, 8)) {
    const auto byte = static_cast<unsigned char>(each);
    bytes += {' ', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
  }
  return concat("it is of an unknown kind: ", content.size(), " bytes that begin with", bytes);
}

}  // namespace tandem::model
