#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <atomic>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/sync/testing/served_world.h"
#include "tandem/sync/variables/asynchronous.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::unique_ptr<Replica> make_replica(std::shared_ptr<torch::nn::Module> module, int replicas,
                                      const std::vector<model::OptimizerOptions>& optimizer,
                                      const model::FlatParameters::Options& flat = {}) {
  return std::make_unique<Replica>(place_on_cpu(replicas, replicas).front(), std::move(module), 1, optimizer, flat);
}

void read_nothing(const StepReport&, const std::vector<at::Tensor>&) {}

// A step of the replica without a gradient.
void step_alone(SharedVariables& variables, int replica, const Limits& limits) {
  variables.exchange({.replica = replica}, nullptr, limits, read_nothing);
}

// Writers add one to every element of tensors that are too large for one cache, a reader looks for elements that
// differ.
TEST(SharedVariablesTest, AReaderNeverSeesATensorHalfWritten) {
  constexpr std::int64_t kElements = 300'000;
  constexpr int kWriters = 3, kUpdates = 300;
  const auto replica = make_replica(std::make_shared<Linear>(kElements), kWriters + 1, {model::SgdOptions{.lr = 1}});
  SharedVariables variables(*replica, {});
  std::atomic<int> writing = kWriters;
  std::vector<std::jthread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      at::set_num_threads(1);
      model::FlatParameters::Gradients gradients = variables.make_gradients();
      gradients.flat[0].fill_(-1);
      for (int i = 0; i < kUpdates; ++i)
        variables.exchange({.replica = writer, .scale = 1, .learning_rate = 1, .lr_factor = 1}, &gradients, {},
                           read_nothing);
      --writing;
    });
  }
  int torn = 0, reads = 0, moved = 0;
  float last = 0;
  bool is_over = false;
  while (!is_over) {
    is_over = writing == 0;
    variables.exchange({.replica = kWriters}, nullptr, {}, [&](const auto&, const std::vector<at::Tensor>& values) {
      const float* element = values[0].const_data_ptr<float>();
      const float first = element[0];
      for (std::int64_t i = 1; i < kElements; ++i) torn += element[i] == first ? 0 : 1;
      moved += first == last ? 0 : 1;
      last = first;
    });
    ++reads;
  }
  EXPECT_EQ(torn, 0) << "in " << reads << " reads, of which " << moved << " saw new values";
  EXPECT_EQ(last, kWriters * kUpdates);
  const GradientAccount account = variables.take_account();
  for (int writer = 0; writer < kWriters; ++writer)
    EXPECT_EQ(account.replicas.at(static_cast<std::size_t>(writer)).applied, kUpdates);
  EXPECT_EQ(account.sizes.steps, kWriters * kUpdates);
}

struct Mixed : torch::nn::Module {
  Mixed() {
    body = register_module("body", torch::nn::Linear(3, 5));
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 3).sparse(true)));
    head = register_module("head", torch::nn::Linear(5, 2));
    exact = register_parameter("exact", torch::full({3}, 2.0, torch::kDouble));
    frozen = register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
    const torch::NoGradGuard no_grad;
    float next = 0;
    for (torch::Tensor& parameter : parameters()) parameter.fill_(next += 0.25F);
  }
  torch::nn::Linear body{nullptr}, head{nullptr};
  torch::nn::Embedding words{nullptr};
  torch::Tensor exact, frozen;
};

// Groups, dtypes, sparse and frozen parameters: an update there is the update here.
TEST(SharedVariablesTest, TheUpdateIsThatOfTheReplicasOwnOptimizer) {
  const model::FlatParameters::Options flat{.groups = {{"rest", {}}, {"head", {"head"}}}, .sparse_parameters = {}};
  const std::vector<model::OptimizerOptions> rules{model::AdamOptions{.lr = 0.1}, model::AdamOptions{.lr = 0.01}};
  const auto replica = make_replica(std::make_shared<Mixed>(), 1, rules, flat);
  const auto reader = make_replica(std::make_shared<Mixed>(), 1, rules, flat);
  SharedVariables variables(*replica, {});
  auto& net = dynamic_cast<Mixed&>(replica->module());
  model::FlatParameters::Gradients gradients = replica->parameters().make_gradients(
      [](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
  for (int step = 0; step < 3; ++step) {
    replica->parameters().bind(gradients);
    const torch::Tensor hidden = net.body(net.words(torch::tensor({1, step})));
    // The head takes no part in the second step.
    ((step == 1 ? hidden.square().sum() : net.head(hidden).square().sum()) + net.exact.square().sum()).backward();
    replica->parameters().collect();
    variables.exchange({.replica = 0, .scale = 0.5, .learning_rate = 0.1, .lr_factor = 0.9}, &gradients, {},
                       read_nothing);
    replica->optimizer().step(gradients, 0.5, 0.9);
  }
  variables.store(*reader);
  const auto expected = replica->state(), got = reader->state();
  ASSERT_EQ(expected.size(), got.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(torch::equal(got[i].second, expected[i].second)) << got[i].first;
}

TEST(SharedVariablesTest, AWaitThatReachesItsDeadlineNamesWhoIsBehind) {
  const auto replica = make_replica(std::make_shared<Linear>(), 3, {model::SgdOptions{}});
  SharedVariables variables(*replica, {.wait_for_slower = 0});
  EXPECT_THROW(step_alone(variables, 1, within(1ms)), DeadlineExceeded);
  try {
    step_alone(variables, 0, within(1ms));
    ADD_FAILURE() << "no exception";
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("replica 0 waited for replica 2, which"));
  }
  step_alone(variables, 2, within(30s));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(step_alone(variables, 0, {.deadline = Deadline::infinite(), .stop = stop.get_token()}), GroupAborted);
  variables.leave(1);
  variables.leave(2);
  step_alone(variables, 0, within(30s));
}

TEST(SharedVariablesTest, ALossEndsAllWaitsUnlessWhoIsLostHasLeft) {
  const auto replica = make_replica(std::make_shared<Linear>(), 3, {model::SgdOptions{}});
  SharedVariables variables(*replica, {.wait_for_slower = 0});
  variables.leave(1);
  variables.lose(1, std::make_exception_ptr(PeerLost(1, "left")));
  std::jthread waits([&] { EXPECT_THROW(step_alone(variables, 0, within(1min)), PeerLost); });
  variables.lose(2, std::make_exception_ptr(PeerLost(2, "died")));
  waits.join();
  EXPECT_THROW(step_alone(variables, 0, within(1min)), PeerLost);
  EXPECT_THROW(variables.leave(0), PeerLost);
}

}  // namespace
}  // namespace tandem::sync
