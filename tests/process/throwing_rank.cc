// A rank that trains under DataParallel, for tests of what is told when one of the ranks throws:
//
//   throwing_rank BACKEND WHERE RANK
//
// In the third step, RANK throws WHERE it is told: loader, loss (sizes that do not fit), backward (a graph that is
// gone), after (the optimizer's step), uncaught (nobody catches it); or it ends by exit(0).
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include "tandem/comm/world.h"
#include "tandem/sync/data_parallel.h"

using namespace tandem;

namespace {

void train(const std::string& backend, const std::string& where, int rank) {
  const comm::World world = comm::open_world(
      comm::launcher_environment(), {.backend = backend == "tcp" ? comm::Backend::kTcp : comm::Backend::kHost});
  torch::nn::Linear net(3, 1);
  sync::DataParallel parallel(net.ptr(), *world.group);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 1000; ++step) {
    const bool throws = step == 2 && world.rank == rank;
    if (throws && (where == "loader" || where == "uncaught")) throw std::runtime_error("row 17 of the table is empty");
    if (throws && where == "exit") std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the point
    const torch::Tensor rows = torch::ones({4, throws && where == "loss" ? 5 : 3});
    const torch::Tensor loss = net->forward(rows).square().mean();
    if (throws && where == "backward") (void)torch::autograd::grad({loss}, {net->weight});
    parallel.backward(loss, 4);
    parallel.average();
    if (throws && where == "after") throw std::runtime_error("row 17 of the table is empty");
    optimizer.step();
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string backend = argv[1], where = argv[2];
  const int rank = std::stoi(argv[3]);
  if (where == "uncaught") {
    train(backend, where, rank);
    return 0;
  }
  try {
    train(backend, where, rank);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 3;
  }
}
