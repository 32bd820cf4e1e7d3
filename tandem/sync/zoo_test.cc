// The zoo: kinds of models and of loops that users have, each on 2 and 3 ranks with uneven rows, compared with a plain
// LibTorch loop over all rows. A new kind is a function that builds it, and a line in animals().
#include "tandem/sync/testing/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/modules/transformercoder.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/optim/adam.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <tuple>
#include <utility>

#include "tandem/comm/testing/met_groups.h"

namespace tandem::sync::zoo {
namespace {

using comm::Medium;
using torch::nn::Linear;
using torch::nn::Sequential;
using torch::nn::Tanh;

// --- Rules ---

template <typename Optimizer, typename Options>
Rule rule(const Options& options, std::optional<model::OptimizerOptions> fused) {
  return {.plain = [options](const std::vector<Tensor>& of) { return std::make_unique<Optimizer>(of, options); },
          .fused = std::move(fused)};
}

Rule sgd(double momentum) {
  return rule<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(momentum),
                                 model::SgdOptions{.lr = 0.1, .momentum = momentum});
}

// A parameter that had a gradient of zero, and not none, would decay.
Rule decaying_adam() {
  return rule<torch::optim::Adam>(torch::optim::AdamOptions(0.01).weight_decay(0.1),
                                  model::AdamOptions{.lr = 0.01, .weight_decay = 0.1});
}

Rule rmsprop() {
  return rule<torch::optim::RMSprop>(torch::optim::RMSpropOptions(0.001), model::RmspropOptions{.lr = 0.001});
}

Rule lbfgs() {
  Rule its = rule<torch::optim::LBFGS>(torch::optim::LBFGSOptions(0.5).max_iter(3).line_search_fn("strong_wolfe"), {});
  its.asks = Rule::Asks::kRepeatedly;
  return its;
}

// An optimizer that a user wrote: steps of a tenth of each tensor's norm, with a memory of their direction.
struct NormalisedOptions : torch::optim::OptimizerCloneableOptions<NormalisedOptions> {};
class Normalised final : public torch::optim::Optimizer {
 public:
  explicit Normalised(std::vector<Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<NormalisedOptions>()) {}
  Tensor step(LossClosure /*closure*/) override {
    const std::vector<Tensor>& parameters = param_groups().front().params();
    const torch::NoGradGuard no_grad;
    directions_.resize(parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& gradient = parameters[i].grad();
      if (!gradient.defined()) continue;
      Tensor& direction = directions_[i];
      direction = direction.defined() ? direction * 0.9 + gradient : gradient.clone();
      parameters[i].sub_(direction / (direction.norm() + 1e-3) * parameters[i].norm() * 0.1);
    }
    return {};
  }

 private:
  std::vector<Tensor> directions_;
};

Rule of_ones_own() {
  return {.plain = [](const std::vector<Tensor>& of) { return std::make_unique<Normalised>(of); }};
}

// --- Models ---

// Gives all parameters numbers that no generator has a part in.
template <typename Net>
Net filled(Net net) {
  const torch::NoGradGuard no_grad;
  double phase = 0;
  for (Tensor& parameter : net->parameters()) {
    const Tensor values = torch::sin(torch::arange(parameter.numel(), torch::kDouble) * 1.3 + phase++) * 0.5;
    parameter.copy_(values.view_as(parameter));
  }
  return net;
}

// Of `out` [n, 1] from what is to be learned.
Tensor squared_error(const Tensor& out, const Tensor& rows) {
  return (out.squeeze(1) - rows.square().sum(1).to(out.scalar_type())).square().mean();
}

// One network that learns by the squared error of what `forward` makes of rows.
template <typename Net, typename Forward>
std::vector<Player> learner_of(const Net& net, const Forward& forward) {
  return {{.net = net,
           .losses = {[net, forward](const Tensor& rows) { return squared_error(forward(*net, rows), rows); }}}};
}
template <typename Net>
std::vector<Player> learner_of(const std::shared_ptr<Net>& net) {
  return learner_of(net, [](Net& its, const Tensor& rows) { return its.forward(rows); });
}

std::shared_ptr<torch::nn::SequentialImpl> two_layers(std::int64_t out = 1) {
  return filled(Sequential(Linear(4, 6), Tanh(), Linear(6, out)).ptr());
}

std::vector<Player> in_dtype(torch::ScalarType dtype) {
  const auto net = two_layers();
  net->to(dtype);
  return learner_of(net, [dtype](auto& its, const Tensor& rows) { return its.forward(rows.to(dtype)); });
}

// A weight with three names: a module's, the same module's under another name, and its own.
struct TiedThreeTimes : torch::nn::Module {
  Tensor forward(const Tensor& rows) {
    return torch::matmul(torch::tanh(again(torch::tanh(layer(rows)))), code).sum(1, /*keepdim=*/true);
  }
  Linear layer = register_module("layer", Linear(4, 4));
  Linear again = register_module("again", layer);
  Tensor code = register_parameter("code", layer->weight);
};

std::vector<Player> frozen_layer() {
  const auto net = filled(Sequential(Linear(4, 5), Tanh(), Linear(5, 5), Tanh(), Linear(5, 1)).ptr());
  for (Tensor& parameter : net->ptr(2)->parameters()) parameter.requires_grad_(false);
  return learner_of(net);
}

// `never` is reached by no loss, `seldom` by losses of the last rank's rows alone.
struct Unreached : torch::nn::Module {
  Tensor forward(const Tensor& rows) {
    const Tensor marked = rows.select(1, 3).gt(0), out = layer(rows);
    return marked.any().item<bool>() ? out + seldom(rows) * marked.unsqueeze(1) : out;
  }
  Linear layer = register_module("layer", Linear(4, 1)), never = register_module("never", Linear(4, 2)),
         seldom = register_module("seldom", Linear(4, 1));
};

// Its layers are made for the rows of the first forward pass.
struct LazilyBuilt : torch::nn::Module {
  Tensor forward(const Tensor& rows) {
    if (first.is_empty()) {
      first = register_module("first", Linear(rows.size(1), 5));
      last = register_module("last", Linear(5, 1));
    }
    return last(torch::tanh(first(rows)));
  }
  Linear first{nullptr}, last{nullptr};
};

std::vector<Player> lazily_built() {
  const auto net = std::make_shared<LazilyBuilt>();
  net->forward(torch::zeros({1, 4}));
  return learner_of(filled(net));
}

// The judge's two losses and the maker's one reach both networks.
std::vector<Player> gan() {
  const auto judge = two_layers(), maker = two_layers(4);
  const auto judged = [judge](const Tensor& shown, double sign) {
    return torch::softplus(sign * judge->forward(shown)).mean();
  };
  const auto fake_of = [maker](const Tensor& rows) { return maker->forward(rows.flip(1)); };
  return {{.net = judge,
           .losses = {[=](const Tensor& rows) { return judged(rows, -1); },
                      [=](const Tensor& rows) { return judged(fake_of(rows), 1); }}},
          {.net = maker, .losses = {[=](const Tensor& rows) { return judged(fake_of(rows), -1); }}}};
}

// The slope by the rows is to be 1 everywhere: a loss that is differentiated twice.
std::vector<Player> gradient_penalty() {
  const auto net = two_layers();
  std::vector<Player> players = learner_of(net);
  players.front().losses.emplace_back([net](const Tensor& rows) {
    const Tensor x = rows.clone().requires_grad_(true);
    const Tensor slope =
        torch::autograd::grad({net->forward(x).sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true).front();
    return (slope.norm(2, 1) - 1).square().mean();
  });
  return players;
}

// Three words a row, out of six of seven.
struct Words : torch::nn::Module {
  Tensor forward(const Tensor& rows) {
    const Tensor words = rows.narrow(1, 0, 3).add(1).mul(2.99).floor().to(torch::kLong);
    return last(torch::tanh(table(words).mean(1)));
  }
  torch::nn::Embedding table =
      register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(7, 5).sparse(true)));
  Linear last = register_module("last", Linear(5, 1));
};

// [n, 4] -> [n, 4, width]
Tensor as_sequence(const Tensor& rows, std::int64_t width) {
  return rows.unsqueeze(2) * torch::linspace(0.5, 1.5, width);
}

struct Transformer : torch::nn::Module {
  Tensor forward(const Tensor& rows) { return last(encoder(as_sequence(rows, 8).transpose(0, 1)).mean(0)); }
  torch::nn::TransformerEncoder encoder = register_module(
      "encoder",
      torch::nn::TransformerEncoder(torch::nn::TransformerEncoderLayer(
                                        torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(12).dropout(0)),
                                    2));
  Linear last = register_module("last", Linear(8, 1));
};

struct Recurrent : torch::nn::Module {
  Tensor forward(const Tensor& rows) { return last(std::get<0>(lstm(as_sequence(rows, 3))).select(1, -1)); }
  torch::nn::LSTM lstm =
      register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(3, 5).num_layers(2).batch_first(true)));
  Linear last = register_module("last", Linear(5, 1));
};

std::vector<Player> batch_norm_in_eval() {
  const torch::nn::BatchNorm1d norm(5);
  norm->running_mean.copy_(torch::linspace(-0.3, 0.4, 5));
  norm->running_var.copy_(torch::linspace(0.6, 1.7, 5));
  const auto net = filled(Sequential(Linear(4, 5), norm, Tanh(), Linear(5, 1)).ptr());
  net->eval();
  return learner_of(net);
}

template <typename Net>
std::vector<Player> made() {
  return learner_of(filled(std::make_shared<Net>()));
}

// In bfloat16 a parameter between 1/2 and 1 is a multiple of 2^-8, and each step rounds it, here as in the plain loop.
constexpr double kUnitInBfloat16 = 0x1p-8;

const std::vector<Animal>& animals() {
  static const std::vector<Animal> all{
      {.name = "TiedThreeTimes", .build = made<TiedThreeTimes>, .rule = sgd(0.9)},
      {.name = "FrozenLayer", .build = frozen_layer, .rule = sgd(0.9)},
      {.name = "UnusedParameter", .build = made<Unreached>, .rule = decaying_adam()},
      {.name = "LazilyBuilt", .build = lazily_built, .rule = decaying_adam()},
      {.name = "Gan", .build = gan, .rule = decaying_adam()},
      {.name = "GradientPenalty", .build = gradient_penalty, .rule = sgd(0)},
      {.name = "Lbfgs", .build = [] { return in_dtype(torch::kDouble); }, .rule = lbfgs(), .allowed = 1e-12},
      {.name = "OptimizerOfOnesOwn", .build = [] { return learner_of(two_layers()); }, .rule = of_ones_own()},
      {.name = "SparseEmbedding", .build = made<Words>, .rule = sgd(0)},
      // With Adam, plain loops differ, too: a bias of the keys has no gradient but what rounding leaves.
      {.name = "Transformer", .build = made<Transformer>, .rule = sgd(0.9)},
      {.name = "Lstm", .build = made<Recurrent>, .rule = rmsprop()},
      {.name = "Double", .build = [] { return in_dtype(torch::kDouble); }, .rule = decaying_adam(), .allowed = 1e-12},
      {.name = "Bfloat16",
       .build = [] { return in_dtype(torch::kBFloat16); },
       .rule = sgd(0),
       .allowed = kZooSteps * kUnitInBfloat16},
      {.name = "BatchNormInEval", .build = batch_norm_in_eval, .rule = sgd(0.9)},
  };
  return all;
}

// --- Tests ---

std::vector<Animal> animals_with_a_fused_rule() {
  std::vector<Animal> some;
  std::ranges::copy_if(animals(), std::back_inserter(some),
                       [](const Animal& its) { return its.rule.fused.has_value(); });
  return some;
}

using Case = std::tuple<Animal, int, Medium>;

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const auto& [animal, ranks, medium] = info.param;
  return concat(animal.name, "On", ranks, "Ranks", medium == Medium::kTcp ? "OverTcp" : "InSharedMemory");
}

class ZooTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {}

  static void expect_the_plain_loop(Update update) {
    const Animal& animal = std::get<Animal>(GetParam());
    const int ranks = std::get<int>(GetParam());
    const std::vector<Player> expected = train_alone(animal, ranks), before = animal.build();
    EXPECT_NE(differences(before, expected, 0.01), "") << "the plain loop should move the parameters";
    EXPECT_THAT(comm::run_over(std::get<Medium>(GetParam()), ranks,
                               [&](comm::Group& group) {
                                 const std::vector<Player> players = train_as_rank(animal, update, group);
                                 EXPECT_EQ(differences(players, expected, animal.allowed), "")
                                     << "rank " << group.rank();
                               }),
                ::testing::Each(::testing::StrEq("")));
  }
};
using FusedZooTest = ZooTest;

TEST_P(ZooTest, AnOptimizerAfterAverageMakesTheStepsOfAPlainLoop) { expect_the_plain_loop(Update::kPlain); }
TEST_P(FusedZooTest, StepMakesTheStepsOfAPlainLoop) { expect_the_plain_loop(Update::kFused); }

const auto kRanks = ::testing::Values(2, 3);
const auto kMedia = ::testing::Values(Medium::kSharedMemory, Medium::kTcp);
INSTANTIATE_TEST_SUITE_P(Zoo, ZooTest, ::testing::Combine(::testing::ValuesIn(animals()), kRanks, kMedia), name_of);
INSTANTIATE_TEST_SUITE_P(Zoo, FusedZooTest,
                         ::testing::Combine(::testing::ValuesIn(animals_with_a_fused_rule()), kRanks, kMedia), name_of);

}  // namespace
}  // namespace tandem::sync::zoo
