// One rank of a data-parallel training, for comparison with torch's DistributedDataParallel (data_parallel_parity.py).
//
//     tandem launch --ranks 2 -- data_parallel_rank FOLDER
//
// For each model there are FOLDER/MODEL.weights.safetensors and FOLDER/MODEL.data.safetensors with "x" and "y" of shape
// [steps, ranks, rows, ...]; rank 0 leaves FOLDER/MODEL.tandem.safetensors. Exits with 1 when a rank fails.
#include <torch/nn/functional/pooling.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "tandem/comm/world.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/sync/data_parallel.h"

namespace {

using namespace tandem;
using torch::Tensor;
namespace fs = std::filesystem;

struct Model : torch::nn::Module {
  // `step`, `rank`: for what only some ranks do in some steps.
  virtual Tensor forward(const Tensor& x, int step, int rank) = 0;
};

struct Mlp : Model {
  Mlp() {
    a = register_module("a", torch::nn::Linear(8, 32));
    b = register_module("b", torch::nn::Linear(32, 32));
    c = register_module("c", torch::nn::Linear(32, 1));
  }
  Tensor forward(const Tensor& x, int, int) override { return c(torch::tanh(b(torch::tanh(a(x))))).squeeze(1); }
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr};
};

struct Cnn : Model {
  Cnn() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    last = register_module("last", torch::nn::Linear(8 * 4 * 4, 1));
  }
  Tensor forward(const Tensor& x, int, int) override {
    const Tensor pooled = torch::max_pool2d(torch::relu(norm(conv(x))), 2);
    return last(pooled.flatten(1)).squeeze(1);
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear last{nullptr};
};

struct Words : Model {
  Words() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(50, 8).sparse(true)));
    last = register_module("last", torch::nn::Linear(8, 1));
  }
  Tensor forward(const Tensor& x, int, int) override { return last(table(x.to(torch::kLong)).mean(1)).squeeze(1); }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear last{nullptr};
};

// "never" takes part in no loss, "sometimes" on rank 0 in even steps.
struct Partial : Model {
  Partial() {
    a = register_module("a", torch::nn::Linear(8, 16));
    never = register_module("never", torch::nn::Linear(16, 1));
    sometimes = register_module("sometimes", torch::nn::Linear(16, 1));
    always = register_module("always", torch::nn::Linear(16, 1));
  }
  Tensor forward(const Tensor& x, int step, int rank) override {
    const Tensor hidden = torch::tanh(a(x));
    const Tensor out = always(hidden).squeeze(1);
    return rank == 0 && step % 2 == 0 ? out + sometimes(hidden).squeeze(1) : out;
  }
  torch::nn::Linear a{nullptr}, never{nullptr}, sometimes{nullptr}, always{nullptr};
};

std::shared_ptr<Model> make(const std::string& name) {
  if (name == "mlp_adam") return std::make_shared<Mlp>();
  if (name == "cnn_momentum") return std::make_shared<Cnn>();
  if (name == "words") return std::make_shared<Words>();
  if (name == "partial") return std::make_shared<Partial>();
  throw std::runtime_error("no model is called " + name);
}

// None: torch's own SGD makes the updates.
std::vector<model::OptimizerOptions> optimizer_of(const std::string& name) {
  if (name == "mlp_adam") return {model::AdamOptions{.lr = 1e-3}};
  if (name == "cnn_momentum") return {model::SgdOptions{.lr = 0.002, .momentum = 0.9}};
  return {};
}

std::vector<std::byte> bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  std::vector<std::byte> bytes(fs::file_size(file));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

void train(const std::string& name, const fs::path& folder, const comm::World& world) {
  const std::shared_ptr<Model> net = make(name);
  // Rank 0 alone reads the weights: the others receive them.
  if (world.rank == 0) model::load_weights_safetensors(*net, folder / (name + ".weights.safetensors"));
  const model::TensorFile data = model::read_safetensors(bytes_of(folder / (name + ".data.safetensors")));
  const Tensor x = data.at("x"), y = data.at("y");
  sync::DataParallel parallel(net, *world.group, {.optimizer = optimizer_of(name)});
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05));
  for (int step = 0; step < x.size(0); ++step) {
    const Tensor out = net->forward(x[step][world.rank], step, world.rank);
    const Tensor loss = (out - y[step][world.rank]).square().mean();
    parallel.backward(loss, static_cast<double>(out.size(0)));
    if (parallel.replica().has_optimizer()) {
      parallel.step();
    } else {
      parallel.average();
      sgd.step();
    }
  }
  parallel.require_same_state();
  if (world.rank == 0) model::save_weights_safetensors(*net, folder / (name + ".tandem.safetensors"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: data_parallel_rank FOLDER");
    const comm::World world = comm::open_world(comm::launcher_environment(), {});
    for (const char* name : {"mlp_adam", "cnn_momentum", "words", "partial"}) train(name, argv[1], world);
  } catch (const std::exception& error) {
    std::cerr << "data_parallel_rank: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
