// fashion_mnist/net.h: a small convolutional network with batch norm and dropout.
#pragma once
#include <torch/nn.h>
#include <torch/types.h>

#include "tandem/model/dropout.h"

namespace fashion_mnist {

struct Net : torch::nn::Module {
  Net() {
    register_module("conv1", conv1);
    register_module("norm1", norm1);
    register_module("conv2", conv2);
    register_module("norm2", norm2);
    register_module("dropout", dropout);
    register_module("hidden", hidden);
    register_module("classes", classes);
  }

  /// Logits [B, 10] of images [B, 1, 28, 28] of bytes.
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = images.to(torch::kFloat).mul_(2.0F / 255).sub_(0.5720F);
    x = torch::max_pool2d(torch::relu(norm1(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(norm2(conv2(x))), 2);
    x = torch::relu(hidden(x.flatten(1)));
    return classes(dropout(x));
  }

  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 16, 3).padding(1)},
      conv2{torch::nn::Conv2dOptions(16, 32, 3).padding(1)};
  torch::nn::BatchNorm2d norm1{16}, norm2{32};
  tandem::nn::Dropout dropout{0.25};
  torch::nn::Linear hidden{32 * 7 * 7, 128}, classes{128, 10};
};

}  // namespace fashion_mnist
