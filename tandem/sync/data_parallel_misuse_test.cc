// What trains ranks apart in silence with other libraries is an error here, at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <sstream>

#include "tandem/base/error.h"
#include "tandem/sync/testing/data_parallel_ranks.h"

namespace tandem::sync {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StrEq;

// A layer, and one that is registered when it is first used.
struct LazyNet : torch::nn::Module {
  LazyNet() { first = register_module("first", torch::nn::Linear(3, 4)); }
  torch::Tensor forward(const torch::Tensor& x) {
    if (late.is_empty() && grows) late = register_module("late", torch::nn::Linear(4, 1));
    const torch::Tensor y = torch::tanh(first(x));
    return (late.is_empty() ? y : late(y)).square().mean();
  }
  [[nodiscard]] std::shared_ptr<LazyNet> copy() const {
    const torch::NoGradGuard no_grad;
    const auto made = std::make_shared<LazyNet>();
    made->first->weight.copy_(first->weight);
    made->first->bias.copy_(first->bias);
    return made;
  }
  torch::nn::Linear first{nullptr}, late{nullptr};
  bool grows = false;
};

using LazyWork = std::function<void(DataParallel&, LazyNet&, torch::optim::SGD&, const torch::Tensor& x)>;

std::vector<std::string> run_lazy(const LazyWork& work, const DataParallelOptions& options = without_optimizer()) {
  return run_as_members(2, [&](comm::Group& group) {
    const auto net = std::make_shared<LazyNet>();
    DataParallel parallel(net, group, options);
    torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.1));
    work(parallel, *net, sgd, torch::linspace(-1, 1 + group.rank(), 6).view({2, 3}));
  });
}

TEST(DataParallelMisuseTest, AParameterThatTheFirstForwardRegistersIsNamed) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
                net.grows = true;
                parallel.backward(net.forward(x), 2);
              }),
              Each(AllOf(HasSubstr("parameter \"late.weight\" was registered after the module was bound"),
                         HasSubstr("run one forward pass before DataParallel"))));
}

TEST(DataParallelMisuseTest, ABufferThatIsRegisteredLaterIsNamed) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
                net.register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).affine(false)));
                parallel.backward(net.forward(x), 2);
              }),
              Each(HasSubstr("buffer \"norm.running_mean\" was registered after the module was bound")));
}

TEST(DataParallelMisuseTest, AParameterThatIsReplacedIsNamed) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
                net.first = net.replace_module("first", torch::nn::Linear(3, 4));
                parallel.backward(net.forward(x), 2);
              }),
              Each(HasSubstr("parameter \"first.weight\" was replaced by another tensor")));
}

TEST(DataParallelMisuseTest, ALayerWithoutParametersMayCome) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
                net.register_module("empty", torch::nn::Sequential());
                parallel.backward(net.forward(x), 2);
                parallel.average();
              }),
              Each(StrEq("")));
}

TEST(DataParallelMisuseTest, ParametersThatSetDataTiesAreNamed) {
  EXPECT_THAT(run_as_members(2,
                             [](comm::Group& group) {
                               torch::nn::Sequential net(torch::nn::Linear(3, 3), torch::nn::Linear(3, 3));
                               DataParallel parallel(net.ptr(), group, without_optimizer());
                               net->parameters()[2].set_data(net->parameters()[0].data());
                               parallel.backward(net->forward(torch::ones({2, 3})).mean(), 2);
                             }),
              Each(AllOf(HasSubstr("parameter \"0.weight\" and parameter \"1.weight\" share memory"),
                         HasSubstr("registering one tensor under both names"))));
}

TEST(DataParallelMisuseTest, ABufferThatIsAViewOfAParameterIsRefused) {
  EXPECT_THAT(
      run_as_members(1,
                     [](comm::Group& group) {
                       const auto net = std::make_shared<LazyNet>();
                       net->register_buffer("row", net->first->weight.detach()[1]);
                       DataParallel parallel(net, group, without_optimizer());
                     }),
      Each(HasSubstr("parameter \"first.weight\" and buffer \"row\" are different tensors over the same memory")));
}

TEST(DataParallelMisuseTest, AFrozenParameterThatIsAViewOfAnotherIsRefused) {
  EXPECT_THAT(
      run_as_members(1,
                     [](comm::Group& group) {
                       const auto net = std::make_shared<LazyNet>();
                       net->register_parameter("tied", net->first->weight.detach().view({12}), false);
                       DataParallel parallel(net, group, without_optimizer());
                     }),
      Each(HasSubstr("are different tensors over the same memory; to tie them, register the same tensor twice")));
}

TEST(DataParallelMisuseTest, ABackwardPassOfTheOldLoopIsAnErrorThatShowsTheNewOne) {
  EXPECT_THAT(run_lazy([](DataParallel&, LazyNet& net, torch::optim::SGD& sgd, const torch::Tensor& x) {
                net.forward(x).backward();
                sgd.step();
              }),
              Each(AllOf(HasSubstr("a backward pass that DataParallel does not know has reached parameter \"first."),
                         HasSubstr("parallel.backward(loss, rows);"), HasSubstr("parallel.average();"))));
}

TEST(DataParallelMisuseTest, GradientsThatLeaveGradAloneMayBeTakenBetweenSteps) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
                (void)torch::autograd::grad({net.forward(x)}, {net.first->weight});
                parallel.backward(net.forward(x), 2);
                parallel.average();
              }),
              Each(StrEq("")));
}

TEST(DataParallelMisuseTest, AnOptimizersStepWithoutTheMeanIsFoundAtTheNextPass) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD& sgd, const torch::Tensor& x) {
                parallel.backward(net.forward(x), 2);
                sgd.step();
                parallel.backward(net.forward(x), 2);
              }),
              Each(AllOf(HasSubstr("the ranks have trained apart"), HasSubstr("parallel.average();"))));
}

// What is done to the gradients between the pass and the mean.
using BetweenPassAndMean = std::function<void(LazyNet&, torch::optim::SGD&)>;

std::vector<std::string> run_between(const BetweenPassAndMean& between, bool last) {
  return run_lazy([&](DataParallel& parallel, LazyNet& net, torch::optim::SGD& sgd, const torch::Tensor& x) {
    last ? parallel.backward(net.forward(x), 2) : parallel.accumulate(net.forward(x), 2);
    between(net, sgd);
    parallel.average();
  });
}

TEST(DataParallelMisuseTest, GradientsThatAreClearedOrChangedBeforeTheMeanAreNamed) {
  for (const bool last : {true, false}) {
    const auto cleared =
        AllOf(HasSubstr("the gradient of parameter \"first.weight\" was cleared between the backward "),
              HasSubstr("zero_grad() is not needed"));
    const auto changed = HasSubstr("the gradient of parameter \"first.weight\" was changed");
    EXPECT_THAT(run_between([](LazyNet&, torch::optim::SGD& sgd) { sgd.zero_grad(); }, last), Each(cleared));
    EXPECT_THAT(run_between([](LazyNet& net, torch::optim::SGD&) { net.zero_grad(); }, last), Each(cleared));
    EXPECT_THAT(run_between([](LazyNet&, torch::optim::SGD& sgd) { sgd.zero_grad(false); }, last), Each(changed));
    EXPECT_THAT(run_between([](LazyNet& net, torch::optim::SGD&) { net.zero_grad(false); }, last), Each(changed));
    EXPECT_THAT(run_between([](LazyNet& net, torch::optim::SGD&) { net.first->weight.mutable_grad().mul_(0.5); }, last),
                Each(AllOf(changed, HasSubstr("Clip or scale gradients after average()"))));
  }
}

TEST(DataParallelMisuseTest, GradientsMayBeClippedAfterTheMeanAndClearedBeforeThePass) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD& sgd, const torch::Tensor& x) {
                for (int step = 0; step < 3; ++step) {
                  sgd.zero_grad();
                  parallel.accumulate(net.forward(x), 2);
                  parallel.backward(net.forward(x), 2);
                  parallel.average();
                  torch::nn::utils::clip_grad_norm_(net.parameters(), 1e-3);
                  sgd.step();
                }
                parallel.require_same_state();
              }),
              Each(StrEq("")));
}

TEST(DataParallelMisuseTest, GradientsThatAreClearedBetweenPassesAreNamed) {
  EXPECT_THAT(run_lazy([](DataParallel& parallel, LazyNet& net, torch::optim::SGD& sgd, const torch::Tensor& x) {
                parallel.accumulate(net.forward(x), 2);
                sgd.zero_grad();
                parallel.backward(net.forward(x), 2);
              }),
              Each(HasSubstr("was cleared")));
}

TEST(DataParallelMisuseTest, CallsOutOfOrderAreTheUsersMistakes) {
  using Call = std::function<void(DataParallel&, const torch::Tensor& loss)>;
  const std::vector<std::pair<Call, std::string>> calls{
      {[](auto& parallel, auto&) { parallel.average(); }, "a step without a backward pass"},
      {[](auto& parallel, auto&) { parallel.step(); }, "step() needs DataParallelOptions::optimizer"},
      {[](auto& parallel, auto&) { parallel.finish(); }, "finish() when no rank has made a step"},
      {[](auto& parallel, auto& loss) { parallel.backward(loss, 0); }, "a loss over 0 rows"},
      {[](auto& parallel, auto& loss) { parallel.backward(loss, -2); }, "a loss over -2 rows"},
      {[](auto& parallel, auto& loss) { parallel.backward(loss.detach()); }, "a tensor [] without one"},
      {[](auto& parallel, auto& loss) { parallel.backward(loss.expand({3})); }, "a tensor [3]"},
      {[](auto& parallel, auto&) { parallel.accumulate({}); }, "got none"},
      {[](auto& parallel, auto& loss) {
         parallel.accumulate(loss);
         parallel.skip();
       },
       "skip() stands for all passes of a step"},
      {[](auto& parallel, auto& loss) {
         parallel.accumulate(loss);
         parallel.finish();
       },
       "finish() between a backward pass"},
      {[](auto& parallel, auto& loss) {
         parallel.accumulate(loss);
         parallel.synchronise();
       },
       "synchronise() between a backward pass"},
      {[](auto& parallel, auto& loss) { parallel.backward(loss, {.counted = Pass::Counted::kSame}); },
       "comes after accumulate() of the first"},
      {[](auto& parallel, auto&) {
         parallel.skip();
         parallel.average();
       },
       "no rank has rows in it"}};
  for (const auto& [call, message] : calls) {
    const Call& make = call;
    const auto outcomes =
        run_lazy([&](DataParallel& parallel, LazyNet& net, torch::optim::SGD&, const torch::Tensor& x) {
          try {
            make(parallel, net.forward(x));
          } catch (const ConfigError& error) {
            throw std::runtime_error(concat("ConfigError: ", error.what()));
          }
        });
    EXPECT_THAT(outcomes, ::testing::Contains(AllOf(HasSubstr("ConfigError: "), HasSubstr(message)))) << message;
  }
}

TEST(DataParallelMisuseTest, AnEndWithoutAStepIsSaid) {
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(run_lazy([](DataParallel&, LazyNet&, torch::optim::SGD&, const torch::Tensor&) {}), Each(StrEq("")));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("ends without a step on rank 0 of 2"), HasSubstr("on rank 1 of 2")));
}

TEST(DataParallelMisuseTest, WeightsMayBeLoadedIntoABoundModule) {
  const auto saved = std::make_shared<LazyNet>();
  saved->register_module("norm", torch::nn::BatchNorm1d(3))->running_mean.fill_(3);
  std::ostringstream file;
  torch::save(saved, file);
  EXPECT_THAT(run_as_members(2,
                             [&](comm::Group& group) {
                               const auto net = std::make_shared<LazyNet>();
                               const auto norm = net->register_module("norm", torch::nn::BatchNorm1d(3));
                               DataParallel parallel(net, group, with_sgd());
                               std::istringstream in(file.str());
                               auto bound = net;
                               torch::load(bound, in);
                               const torch::Tensor x = torch::ones({2, 3});
                               const torch::Tensor before = net->first->weight.detach().clone();
                               EXPECT_TRUE(before.equal(saved->first->weight));
                               parallel.backward(net->forward(x), 2);
                               const torch::Tensor grad = net->first->weight.grad().clone() / 2;
                               parallel.step();
                               EXPECT_TRUE(torch::allclose(net->first->weight.detach(), before - 0.1 * grad));
                               EXPECT_TRUE(norm->running_mean.eq(3).all().item<bool>());
                               const torch::Tensor& flat = parallel.replica().parameters().buffers()[0].values;
                               EXPECT_TRUE(net->first->weight.is_alias_of(flat));
                               parallel.require_same_state();
                             }),
              Each(StrEq("")));
}

// What one process does with all rows: `freeze` says what trains in each step.
using Freeze = std::function<void(LazyNet&, int step)>;

void expect_steps_of_one_process(const Freeze& freeze) {
  const auto rows = [](int rank) { return torch::linspace(-1, 1 + rank, 6).view({2, 3}); };
  torch::manual_seed(3);  // Adam divides by gradients, which must not be all but 0
  const auto start = std::make_shared<LazyNet>();
  const auto expected = start->copy();
  torch::optim::Adam adam(expected->parameters(), torch::optim::AdamOptions(0.1));
  for (int step = 0; step < 6; ++step) {
    freeze(*expected, step);
    adam.zero_grad();
    expected->forward(torch::cat({rows(0), rows(1)})).backward();
    adam.step();
  }
  EXPECT_THAT(run_as_members(
                  2,
                  [&](comm::Group& group) {
                    const auto net = start->copy();
                    freeze(*net, 0);
                    DataParallel parallel(net, group, {.optimizer = {model::AdamOptions{.lr = 0.1}}});
                    for (int step = 0; step < 6; ++step) {
                      freeze(*net, step);
                      parallel.backward(net->forward(rows(group.rank())), 2);
                      parallel.step();
                    }
                    parallel.require_same_state();
                    for (const auto& entry : net->named_parameters()) {
                      EXPECT_TRUE(torch::allclose(entry.value(), expected->named_parameters()[entry.key()], 1e-4, 1e-5))
                          << entry.key();
                    }
                  }),
              Each(StrEq("")));
}

TEST(DataParallelMisuseTest, ALayerMayBeFrozenAndTrainedAgain) {
  expect_steps_of_one_process(
      [](LazyNet& net, int step) { net.first->weight.set_requires_grad(step < 2 || step >= 4); });
}

TEST(DataParallelMisuseTest, ALayerThatWasFrozenAtTheStartMayBeUnfrozen) {
  expect_steps_of_one_process([](LazyNet& net, int step) { net.first->bias.set_requires_grad(step >= 3); });
}

TEST(DataParallelMisuseTest, ALayerThatOneRankAloneUnfreezesIsAnError) {
  EXPECT_THAT(run_as_members(2,
                             [](comm::Group& group) {
                               const auto net = std::make_shared<LazyNet>();
                               net->first->bias.set_requires_grad(false);
                               DataParallel parallel(net, group, without_optimizer());
                               net->first->bias.set_requires_grad(group.rank() == 1);
                               parallel.backward(net->forward(torch::ones({2, 3})), 2);
                               parallel.average();
                             }),
              Each(HasSubstr("differ")));
}

}  // namespace
}  // namespace tandem::sync
