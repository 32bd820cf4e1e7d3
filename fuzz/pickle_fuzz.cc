// Question: can any bytes make the readers of torch.save()'s files crash, hang, or take more memory than they may?
//
// The first byte chooses: even, a pickle alone; odd, a zip archive, whose data.pkl is read. Storages have a few
// elements, whatever the pickle says, since their size is checked against the archive's record before they are read.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/base/error.h"
#include "tandem/model/files/pickle_reader.h"
#include "tandem/model/files/zip_archive.h"

namespace {

void read(std::string_view pickle) {
  constexpr std::int64_t kMost = 64;
  (void)tandem::model::read_pickle(pickle, [](const std::string&, at::ScalarType dtype, std::int64_t count) {
    if (count > kMost) throw tandem::CheckpointError("a storage that is larger than its record");
    return at::zeros({count}, dtype);
  });
}

void read_archive(std::string_view file) {
  const tandem::model::ZipArchive archive(file);
  std::size_t total = 0;
  for (const auto& [name, content] : archive.records()) total += content.bytes.size();
  if (total > file.size()) __builtin_trap();  // records that share bytes
  read(archive.at(std::string(archive.folder()) + "data.pkl"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    data[0] % 2 == 0 ? read(bytes) : read_archive(bytes);
  } catch (const tandem::CheckpointError&) {
  }
  return 0;
}
