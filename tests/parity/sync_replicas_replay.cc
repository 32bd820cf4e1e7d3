// Replays a scripted order of arrivals under the SyncReplicas strategy with tensorflow_compatible() options, for
// comparison with TensorFlow's SyncReplicasOptimizer (sync_replicas_parity.py).
//
//     sync_replicas_replay FOLDER dense|sparse AGGREGATE
//
// FOLDER/script.safetensors has "turns" (int64: whose gradient arrives, one after the other), "tokens" [turns, workers]
// (1 for who gets a token by it), the first values "w", "b" and "table", and for each worker and gradient "x" [workers,
// gradients, rows, 8], "y" and "rows" (of the table). FOLDER/replay.safetensors gets all values after each turn, and
// whether its gradient was accepted: [turns, ...]. Workers are threads. Exits with 1 when one that TensorFlow gave a
// token has none within a minute.
#include <torch/nn/functional/embedding.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/worker.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace {

using namespace tandem;
using torch::Tensor;
namespace fs = std::filesystem;

enum class Gradients { kDense, kSparse };

struct Net : torch::nn::Module {
  Net(const model::TensorFile& script, Gradients gradients) : kind(gradients) {
    w = register_parameter("w", script.at("w").clone());
    b = register_parameter("b", script.at("b").clone());
    if (kind == Gradients::kSparse) table = register_parameter("table", script.at("table").clone());
  }
  Tensor loss(const Tensor& x, const Tensor& y, const Tensor& rows) {
    Tensor z = torch::matmul(x, w) + b;
    if (kind == Gradients::kSparse)
      z = z + torch::nn::functional::embedding(rows, table, torch::nn::functional::EmbeddingFuncOptions().sparse(true));
    return (torch::tanh(z) - y).square().mean();
  }
  const Gradients kind;
  Tensor w, b, table;
};

sync::Placement placement(int worker, int workers) {
  return {.replica = worker, .replicas = workers, .shards = workers, .mine = {worker, worker + 1}};
}

sync::Replica make_replica(int worker, int workers, const model::TensorFile& script, Gradients gradients) {
  model::FlatParameters::Options flat;
  model::SgdOptions rule{.lr = 0.1, .momentum = 0.9};
  if (gradients == Gradients::kSparse) {
    flat.sparse_parameters = {"table"};
    rule = {.lr = 0.5};
  }
  return {placement(worker, workers), std::make_shared<Net>(script, gradients), 1, {rule}, flat};
}

Limits a_minute(std::stop_token stop = {}) {
  return {.deadline = Deadline::after(std::chrono::minutes(1)), .stop = std::move(stop)};
}

// A worker's side of the script.
struct Turn {
  std::binary_semaphore may_offer{0}, has_token{0};
};

class Replay {
 public:
  Replay(const model::TensorFile& script, Gradients gradients, int aggregate)
      : script_(script),
        gradients_(gradients),
        workers_(static_cast<int>(script.at("x").size(0))),
        turns_(static_cast<std::size_t>(workers_)),
        spare_(make_replica(0, workers_, script, gradients)) {
    options_ = sync::tensorflow_compatible();
    options_.replicas_to_aggregate = aggregate;
    options_.average_decay = 0.9;
  }

  model::NamedTensors run() {
    const auto groups = comm::make_local_group(workers_);
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < workers_; ++worker)
      threads.emplace_back([this, worker, &group = *groups[static_cast<std::size_t>(worker)]] { work(worker, group); });
    try {
      direct();
    } catch (...) {
      failures_.add("the script", std::current_exception());
    }
    stop_.request_stop();
    for (Turn& turn : turns_) turn.may_offer.release();
    threads.clear();
    failures_.rethrow();
    model::NamedTensors stacked;
    for (const auto& [name, values] : noted_) stacked.emplace_back(name, torch::stack(values));
    return stacked;
  }

 private:
  // Each arrival is there, and whoever gets a token by it has it, before the next is made.
  void direct() {
    const Tensor &turns = script_.at("turns"), &tokens = script_.at("tokens");
    std::vector<std::int64_t> offered(turns_.size()), dropped(turns_.size());
    for (std::size_t worker = 0; worker < turns_.size(); ++worker) await_token(-1, worker);
    for (std::int64_t i = 0; i < turns.numel(); ++i) {
      const auto worker = static_cast<std::size_t>(turns[i].item<std::int64_t>());
      turns_[worker].may_offer.release();
      const sync::GradientTotals totals = await_offer(i, worker, ++offered[worker]);
      note("accepted", torch::tensor(std::int64_t{totals.dropped == dropped[worker]}));
      dropped[worker] = totals.dropped;
      note_values();
      for (std::size_t other = 0; other < turns_.size(); ++other)
        if (tokens[i][static_cast<std::int64_t>(other)].item<std::int64_t>() == 1) await_token(i, other);
    }
  }

  void await_token(std::int64_t turn, std::size_t worker) {
    if (turns_[worker].has_token.try_acquire_for(std::chrono::minutes(1))) return;
    throw RunError(concat("turn ", turn, ": worker ", worker, " gets no token, and TensorFlow's does"));
  }

  // The step that the gradient completes is made with it.
  sync::GradientTotals await_offer(std::int64_t turn, std::size_t worker, std::int64_t offered) {
    const Deadline deadline = Deadline::after(std::chrono::minutes(1));
    while (!deadline.expired()) {
      const sync::GradientTotals totals = variables_->take_account().replicas[worker];
      if (totals.offered == offered) return totals;
      std::this_thread::yield();
    }
    throw RunError(concat("turn ", turn, ": worker ", worker, " offers nothing"));
  }

  void note_values() {
    variables_->store(spare_);
    for (const auto& [name, value] : spare_.named_state()) note(name, value);
    for (const auto& [name, value] : variables_->averages()) note(name, value);
  }
  void note(const std::string& name, const Tensor& value) { noted_[name].push_back(value.detach().clone()); }

  void work(int worker, comm::Group& group) {
    sync::Replica replica = make_replica(worker, workers_, script_, gradients_);
    sync::SyncReplicas strategy(replica, group, options_);
    Turn& turn = turns_[static_cast<std::size_t>(worker)];
    try {
      strategy.begin(a_minute());
      if (worker == 0) variables_ = strategy.variables();
      group.barrier(a_minute());
      auto& net = dynamic_cast<Net&>(replica.module());
      for (std::int64_t k = 0;; ++k) {
        turn.has_token.release();
        turn.may_offer.acquire();
        if (stop_.stop_requested()) break;
        strategy.open(worker);
        net.loss(script_.at("x")[worker][k], script_.at("y")[worker][k], script_.at("rows")[worker][k]).backward();
        strategy.close(1, 0);
        (void)strategy.step(1, a_minute(stop_.get_token()));
      }
    } catch (...) {
      // Whoever waits for a token when the script is over is stopped.
      if (!stop_.stop_requested()) failures_.add(concat("worker ", worker), std::current_exception());
      while (!stop_.stop_requested()) turn.may_offer.acquire();  // worker 0's variables live until then
    }
  }

  const model::TensorFile& script_;
  const Gradients gradients_;
  const int workers_;
  sync::SyncReplicasOptions options_;
  std::vector<Turn> turns_;
  sync::Replica spare_;
  sync::SyncVariables* variables_ = nullptr;  // set before the first token is seen
  std::stop_source stop_;
  Failures failures_;  // the script waits in vain for who failed
  std::map<std::string, std::vector<Tensor>> noted_;
};

void replay(const fs::path& folder, Gradients gradients, int aggregate) {
  const std::string content = read_file(folder / "script.safetensors");
  const model::TensorFile script = model::read_safetensors(std::as_bytes(std::span(content)));
  const model::NamedTensors noted = Replay(script, gradients, aggregate).run();
  std::ofstream out(folder / "replay.safetensors", std::ios::binary);
  model::write_safetensors(noted, {}, [&](std::span<const std::byte> bytes) {
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  });
  if (!out.flush()) throw RunError(concat("cannot write ", folder.string(), "/replay.safetensors"));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string kind = argc == 4 ? argv[2] : "";
    if (kind != "dense" && kind != "sparse")
      throw RunError("usage: sync_replicas_replay FOLDER dense|sparse AGGREGATE");
    replay(argv[1], kind == "dense" ? Gradients::kDense : Gradients::kSparse, std::stoi(argv[3]));
  } catch (const std::exception& error) {
    std::cerr << "sync_replicas_replay: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
