// One rank of a data-parallel training with compressed gradients, for comparison with torch's communication hooks
// (compression_parity.py).
//
//     tandem launch --ranks 2 -- compression_rank FOLDER
//
// FOLDER holds weights.safetensors, data.safetensors with "x" and "y" of shape [steps, ranks, rows, ...], and
// q.safetensors with the matrices that PowerSGD begins with; rank 0 leaves HOOK.tandem.safetensors for every hook.
// Exits with 1 when a rank fails.
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <filesystem>
#include <iostream>

#include "tandem/base/atomic_file.h"
#include "tandem/comm/world.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/sync/data_parallel.h"
#include "tandem/sync/mean/cast_compression.h"
#include "tandem/sync/mean/power_sgd_compression.h"

namespace {

using namespace tandem;
using torch::Tensor;
namespace fs = std::filesystem;

struct Mlp : torch::nn::Module {
  Mlp() {
    a = register_module("a", torch::nn::Linear(8, 32));
    b = register_module("b", torch::nn::Linear(32, 32));
    c = register_module("c", torch::nn::Linear(32, 1));
  }
  Tensor forward(const Tensor& x) { return c(torch::tanh(b(torch::tanh(a(x))))).squeeze(1); }
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr};
};

model::TensorFile read(const fs::path& file) {
  const std::string content = read_file(file);
  return model::read_safetensors(std::as_bytes(std::span(content)));
}

void train(const std::string& name, const sync::MakeCompression& compression, const fs::path& folder,
           const comm::World& world) {
  const auto net = std::make_shared<Mlp>();
  if (world.rank == 0) model::load_weights_safetensors(*net, folder / "weights.safetensors");
  const model::TensorFile data = read(folder / "data.safetensors"), q = read(folder / "q.safetensors");
  const Tensor &x = data.at("x"), &y = data.at("y");
  sync::DataParallel parallel(net, *world.group,
                              {.optimizer = {model::SgdOptions{.lr = 0.05}}, .compression = compression});
  for (const auto& [entry, tensor] : parallel.compression_state()) {
    if (entry.starts_with("q.")) tensor.copy_(q.at(entry));
  }
  for (int step = 0; step < x.size(0); ++step) {
    const Tensor out = net->forward(x[step][world.rank]);
    parallel.backward((out - y[step][world.rank]).square().mean(), static_cast<double>(out.size(0)));
    parallel.step();
  }
  parallel.require_same_state();
  if (world.rank == 0) model::save_weights_safetensors(*net, folder / (name + ".tandem.safetensors"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: compression_rank FOLDER");
    const comm::World world = comm::open_world(comm::launcher_environment(), {});
    train("none", {}, argv[1], world);
    train("fp16", sync::cast_compression({.to = at::kHalf}), argv[1], world);
    train("bf16", sync::cast_compression({.to = at::kBFloat16}), argv[1], world);
    train("power_sgd", sync::power_sgd_compression({.rank = 2, .start_step = 2}), argv[1], world);
  } catch (const std::exception& error) {
    std::cerr << "compression_rank: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
