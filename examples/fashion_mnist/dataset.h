// fashion_mnist/dataset.h: Fashion-MNIST as Debian's package dataset-fashion-mnist installs it.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

namespace fashion_mnist {

struct Images {
  at::Tensor pixels;  // [N, 1, 28, 28] uint8
  at::Tensor labels;  // [N] int64, 0 .. 9
};

enum class Part { kTrain, kTest };

/// Throws tandem::DataError naming the file that is missing or damaged, and the package to install.
[[nodiscard]] Images read(const std::filesystem::path& folder, Part part);

}  // namespace fashion_mnist
