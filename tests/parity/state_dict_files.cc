// Writes and reads states of a training, for comparison with Python (state_dict_parity.py).
//
//     state_dict_files FOLDER OPTIMIZER write     trains three steps, leaves OPTIMIZER.run.pt, .pt and .safetensors,
//     trains
//                                                 two more and leaves OPTIMIZER.after.safetensors
//     state_dict_files FOLDER OPTIMIZER read      reads OPTIMIZER.python.pt, trains two steps, leaves the same file
//
// FOLDER/data.safetensors has "x" and "y" of shape [steps, rows, ...].
#include <ATen/core/Dict.h>
#include <ATen/core/jit_type.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <filesystem>
#include <iostream>

#include "tandem/base/atomic_file.h"
#include "tandem/comm/local_group.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/model/files/torch_file.h"
#include "tandem/model/files/torch_optimizer.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/data_parallel.h"

namespace {

using namespace tandem;
using torch::Tensor;
namespace fs = std::filesystem;

model::OptimizerOptions options_of(const std::string& name) {
  if (name == "adam") return model::AdamOptions{.lr = 1e-2};
  if (name == "adamw")
    return model::AdamOptions{.lr = 1e-2, .weight_decay = 0.1, .decay = model::AdamOptions::Decay::kDecoupled};
  if (name == "sgd") return model::SgdOptions{.lr = 1e-2, .momentum = 0.9};
  if (name == "rmsprop") return model::RmspropOptions{.lr = 1e-3, .momentum = 0.5};
  throw std::runtime_error("no optimizer is called " + name);
}

struct Training {
  explicit Training(const std::string& name) : parallel(net.ptr(), *group, {.optimizer = {options_of(name)}}) {}
  void step(const Tensor& x, const Tensor& y) {
    parallel.backward((net->forward(x).squeeze(1) - y).square().mean());
    parallel.step();
  }
  std::unique_ptr<comm::Group> group = std::move(comm::make_local_group(1).front());
  torch::nn::Sequential net{torch::nn::BatchNorm1d(8), torch::nn::Linear(8, 16), torch::nn::Tanh(),
                            torch::nn::Linear(16, 1)};
  sync::DataParallel parallel;
};

c10::impl::GenericDict make_dict() { return c10::impl::GenericDict(c10::AnyType::get(), c10::AnyType::get()); }

void run(const fs::path& folder, const std::string& name, const std::string& what) {
  const std::string content = read_file(folder / "data.safetensors");
  const model::TensorFile data = model::read_safetensors(std::as_bytes(std::span(content)));
  const Tensor &x = data.at("x"), &y = data.at("y");
  Training training(name);
  sync::Replica& replica = training.parallel.replica();
  int first = 3;
  if (what == "write") {
    for (int step = 0; step < first; ++step) training.step(x[step], y[step]);
    c10::impl::GenericDict all = make_dict(), weights = make_dict();
    for (const auto& item : training.net->named_parameters()) weights.insert(item.key(), item.value());
    for (const auto& item : training.net->named_buffers()) weights.insert(item.key(), item.value());
    all.insert("model", weights);
    all.insert("optimizer", model::torch_state_of(replica.optimizer(), replica.parameters()));
    all.insert("epoch", std::int64_t{3});
    model::save_torch_file(all, folder / (name + ".run.pt"));
    model::save_weights_torch(*training.net, folder / (name + ".pt"));
    model::save_weights_safetensors(*training.net, folder / (name + ".safetensors"));
  } else {
    const auto all = model::load_torch_file(folder / (name + ".python.pt")).toGenericDict();
    model::NamedTensors saved, live;
    for (const auto& entry : all.at("model").toGenericDict())
      saved.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
    for (const auto& item : training.net->named_parameters()) live.emplace_back(item.key(), item.value().detach());
    for (const auto& item : training.net->named_buffers()) live.emplace_back(item.key(), item.value());
    model::copy_named(saved, live);
    model::load_torch_state(all.at("optimizer"), replica.optimizer(), replica.parameters());
    first = 5;
  }
  for (int step = first; step < first + 2; ++step) training.step(x[step], y[step]);
  model::save_weights_safetensors(*training.net, folder / (name + ".after.safetensors"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("usage: state_dict_files FOLDER OPTIMIZER write|read");
    run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::cerr << "state_dict_files: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
