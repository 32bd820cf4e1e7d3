#include "dataset.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <memory>
#include <sstream>
#include <vector>

#include "idx.h"
#include "tandem/base/error.h"

namespace fashion_mnist {
namespace {

constexpr const char* kRemedy = "; install Debian's dataset-fashion-mnist, or name another folder with --data";

at::Tensor read_compressed(const std::filesystem::path& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) throw tandem::DataError("cannot open " + path.string() + kRemedy);
  std::vector<std::byte> bytes;
  constexpr unsigned kChunk = 1U << 20;
  for (;;) {
    const std::size_t at = bytes.size();
    bytes.resize(at + kChunk);
    const int count = gzread(file.get(), bytes.data() + at, kChunk);
    if (count < 0) throw tandem::DataError(path.string() + " is damaged: it does not unpack" + kRemedy);
    bytes.resize(at + static_cast<std::size_t>(count));
    if (count == 0) break;
  }
  return parse_idx(bytes, path.string());
}

}  // namespace

Images read(const std::filesystem::path& folder, Part part) {
  const std::string prefix = part == Part::kTrain ? "train" : "t10k";
  const at::Tensor pixels = read_compressed(folder / (prefix + "-images-idx3-ubyte.gz"));
  const at::Tensor labels = read_compressed(folder / (prefix + "-labels-idx1-ubyte.gz"));
  if (pixels.dim() != 3 || pixels.size(1) != 28 || pixels.size(2) != 28 || labels.dim() != 1 ||
      labels.size(0) != pixels.size(0)) {
    std::ostringstream sizes;
    sizes << pixels.sizes() << " with labels " << labels.sizes();
    throw tandem::DataError("the " + prefix + " images are " + sizes.str() + "; expected [N, 28, 28] and [N]");
  }
  return {.pixels = pixels.unsqueeze(1), .labels = labels.to(at::kLong)};
}

}  // namespace fashion_mnist
