#include "tandem/model/flat_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "tandem/base/error.h"

namespace tandem::model {
namespace {

using torch::nn::Module;

at::Tensor allocate_sevens(std::int64_t count, at::ScalarType dtype) { return at::full({count}, 7.0, dtype); }

// Actor, critic and a head that the loss below may leave out.
struct Net : Module {
  torch::nn::Linear body{nullptr}, actor{nullptr}, critic{nullptr};
  Net() {
    torch::manual_seed(3);
    body = register_module("body", torch::nn::Linear(5, 7));
    actor = register_module("actor", torch::nn::Linear(7, 3));
    critic = register_module("critic", torch::nn::Linear(7, 1));
  }
  at::Tensor loss(const at::Tensor& x) { return actor(torch::tanh(body(x))).square().sum(); }
};

struct Tables : Module {
  torch::nn::Embedding words{nullptr};
  torch::nn::EmbeddingBag bags{nullptr};
  torch::nn::Linear head{nullptr};
  Tables() {
    torch::manual_seed(4);
    words = register_module("words", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
    bags = register_module(
        "bags", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(6, 4).sparse(true).mode(torch::kSum)));
    head = register_module("head", torch::nn::Linear(4, 1));
  }
  at::Tensor loss(const at::Tensor& ids) { return head(words(ids) + bags(ids.unsqueeze(1))).sum(); }
};

std::vector<at::Tensor> gradients_without_flat(Net& net, const at::Tensor& x) {
  net.loss(x).backward();
  std::vector<at::Tensor> all;
  for (auto& parameter : net.parameters())
    all.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  net.zero_grad();
  return all;
}

class FlatParametersTest : public ::testing::Test {
 protected:
  std::shared_ptr<Net> net_ = std::make_shared<Net>();
  at::Tensor x_ = at::arange(10, at::kFloat).view({2, 5}).div(10);
};

TEST_F(FlatParametersTest, ValuesMoveIntoOneBufferWithZeroGapsAndStayAlive) {
  std::vector<at::Tensor> before;
  for (const auto& p : net_->parameters()) before.push_back(p.detach().clone());
  FlatParameters flat(net_, {});
  ASSERT_EQ(flat.buffers().size(), 1U);
  const auto& buffer = flat.buffers()[0];
  ASSERT_EQ(buffer.slots.size(), 6U);
  double in_slots = 0;
  for (std::size_t s = 0; s < 6; ++s) {
    const auto& slot = buffer.slots[s];
    EXPECT_EQ(slot.offset % 16, 0) << slot.name;
    const at::Tensor view = buffer.values.narrow(0, slot.offset, slot.count).view(slot.shape);
    EXPECT_TRUE(view.equal(before[s])) << slot.name;
    EXPECT_TRUE(net_->parameters()[s].is_alias_of(buffer.values));
    in_slots += view.abs().sum().item<double>();
  }
  EXPECT_NEAR(buffer.values.abs().sum().item<double>(), in_slots, 1e-4);
  buffer.values.zero_();
  EXPECT_EQ(net_->actor->weight.abs().sum().item<float>(), 0);
}

TEST_F(FlatParametersTest, GradientsEqualThoseOfTheModuleAndFlagsSayWhichArePresent) {
  const auto expected = gradients_without_flat(*net_, x_);
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  for (int pass = 0; pass < 3; ++pass) {  // each pass starts from zero
    flat.bind(gradients);
    net_->loss(x_).backward();
    flat.collect();
    for (std::size_t s = 0; s < 6; ++s) {
      const at::Tensor want = expected[s].defined() ? expected[s] : at::zeros_like(gradients.views[0][s]);
      EXPECT_TRUE(gradients.views[0][s].equal(want)) << flat.buffers()[0].slots[s].name;
    }
    // body.weight, body.bias, actor.weight, actor.bias, but not the critic's.
    EXPECT_TRUE(gradients.presence[0].equal(at::tensor({1.F, 1.F, 1.F, 1.F, 0.F, 0.F})));
  }
}

TEST_F(FlatParametersTest, AGradientThatIsZeroButWasReachedIsPresent) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->critic(at::zeros({1, 7})).sum().backward();  // the weight's gradient is the input: zero
  flat.collect();
  EXPECT_TRUE(gradients.presence[0].equal(at::tensor({0.F, 0.F, 0.F, 0.F, 1.F, 1.F})));
}

TEST_F(FlatParametersTest, TwoSetsOfGradientsDoNotMix) {
  FlatParameters flat(net_, {});
  auto first = flat.make_gradients(allocate_sevens), second = flat.make_gradients(allocate_sevens);
  flat.bind(first);
  net_->loss(x_).backward();
  flat.collect();
  const at::Tensor kept = first.flat[0].clone();
  flat.bind(second);
  net_->loss(x_ * 2).backward();
  flat.collect();
  EXPECT_TRUE(first.flat[0].equal(kept));
  EXPECT_FALSE(second.flat[0].equal(kept));
}

TEST_F(FlatParametersTest, GradientsThatUserCodeClearsOrReplacesEndInFlatMemory) {
  const auto expected = gradients_without_flat(*net_, x_);
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->loss(x_ * 3).backward();
  net_->zero_grad();  // set_to_none: the first pass is forgotten
  EXPECT_FALSE(net_->body->weight.grad().defined());
  net_->loss(x_).backward();
  net_->critic->bias.mutable_grad() = at::full({1}, 5.F);
  flat.collect();
  EXPECT_TRUE(gradients.views[0][0].equal(expected[0]));
  EXPECT_EQ(gradients.views[0][5].item<float>(), 5);
  EXPECT_TRUE(gradients.presence[0].equal(at::tensor({1.F, 1.F, 1.F, 1.F, 0.F, 1.F})));
  EXPECT_TRUE(net_->critic->bias.grad().is_same(gradients.views[0][5]));
}

TEST_F(FlatParametersTest, AGradientThatWasClearedAndNotMadeAgainIsAbsent) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->loss(x_).backward();
  net_->zero_grad();
  flat.collect();
  EXPECT_EQ(gradients.flat[0].abs().sum().item<float>(), 0);
}

TEST_F(FlatParametersTest, AGradientWrittenByHandCountsAndZeroingDoesNot) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->zero_grad(/*set_to_none=*/false);
  net_->actor->bias.mutable_grad().add_(2);
  flat.collect();
  EXPECT_TRUE(gradients.presence[0].equal(at::tensor({0.F, 0.F, 0.F, 1.F, 0.F, 0.F})));
}

TEST_F(FlatParametersTest, MarkedAsWrittenAllCountButThoseThatHaveNone) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  flat.mark_written();
  net_->actor->bias.mutable_grad().reset();
  flat.collect();
  EXPECT_TRUE(gradients.presence[0].equal(at::tensor({1.F, 1.F, 1.F, 0.F, 1.F, 1.F})));
  flat.bind(gradients);
  flat.collect();
  EXPECT_TRUE(gradients.presence[0].equal(at::zeros({6}))) << "the mark is for one pass";
}

TEST_F(FlatParametersTest, AReplacedGradientOfAnotherShapeIsNamed) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->critic->bias.mutable_grad().reset();
  net_->critic->bias.unsafeGetTensorImpl()->mutable_grad() = at::ones({2});
  try {
    flat.collect();
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("critic.bias"), ::testing::HasSubstr("[2]")));
  }
}

TEST_F(FlatParametersTest, HooksOfOthersStillRunAndAreLeftBehind) {
  int calls = 0;
  struct Count : torch::autograd::PostAccumulateGradHook {
    int& calls;
    explicit Count(int& counter) : calls(counter) {}
    void operator()(const at::Tensor&) override { ++calls; }
  };
  torch::autograd::impl::set_post_acc_grad_hooks(net_->body->bias, std::make_unique<Count>(calls));
  {
    FlatParameters flat(net_, {});
    auto gradients = flat.make_gradients(allocate_sevens);
    flat.bind(gradients);
    net_->loss(x_).backward();
    flat.collect();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(gradients.presence[0][1].item<float>(), 1);
  }
  EXPECT_FALSE(net_->body->bias.grad().defined());  // the views ended with the object
  net_->loss(x_).backward();
  EXPECT_EQ(calls, 2);
}

TEST_F(FlatParametersTest, GroupsAreContiguousRangesAndTheFirstMatchWins) {
  FlatParameters flat(net_, {{{"rest", {}}, {"heads", {"actor", "critic.weight"}}, {"late", {"critic"}}}, {}});
  const auto& buffer = flat.buffers()[0];
  ASSERT_EQ(flat.groups(), 3);
  std::vector<std::string> names;
  for (const auto& slot : buffer.slots) names.push_back(slot.name);
  EXPECT_TRUE(std::ranges::is_sorted(buffer.slots, {}, &ParameterSlot::group));
  EXPECT_THAT(names, ::testing::ElementsAre("body.weight", "body.bias", "actor.weight", "actor.bias", "critic.weight",
                                            "critic.bias"));
  EXPECT_EQ(buffer.slots.back().group, 2);
  EXPECT_TRUE(flat.parameters()[0].is_same(net_->body->weight));
}

TEST_F(FlatParametersTest, AllFaultsOfTheOptionsAreReportedAtOnce) {
  try {
    FlatParameters flat(net_, {{{"a", {"act"}}, {"b", {"critic.bias.x"}}}, {"table"}});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 3U) << error.what();  // "act" is no whole word of "actor"
  }
}

TEST_F(FlatParametersTest, FrozenParametersStayWhereTheyAreAndAreListed) {
  net_->body->weight.set_requires_grad(false);
  const void* before = net_->body->weight.data_ptr();
  FlatParameters flat(net_, {});
  EXPECT_THAT(flat.frozen(), ::testing::ElementsAre("body.weight"));
  EXPECT_EQ(net_->body->weight.data_ptr(), before);
  EXPECT_EQ(flat.buffers()[0].slots.size(), 5U);
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->body->weight.set_requires_grad(true);
  EXPECT_THROW(flat.bind(gradients), ConfigError);
}

TEST_F(FlatParametersTest, NothingToTrainIsAnError) {
  for (auto& parameter : net_->parameters()) parameter.set_requires_grad(false);
  EXPECT_THROW(FlatParameters(net_, {}), ConfigError);
}

TEST_F(FlatParametersTest, AModuleThatMovedIsNoticed) {
  FlatParameters flat(net_, {});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net_->actor->to(at::kDouble);
  EXPECT_THROW(flat.bind(gradients), ConfigError);
}

TEST(FlatParametersTiedTest, ASharedTensorAppearsOnceAndGetsTheSumOfItsGradients) {
  struct Tied : Module {
    torch::nn::Linear one{nullptr};
    Tied() {
      one = register_module("one", torch::nn::Linear(3, 3));
      register_module("two", one.ptr());
      register_parameter("three", one->bias);
    }
  };
  auto net = std::make_shared<Tied>();
  FlatParameters flat(net, {{{"rest", {}}, {"tied", {"three"}}}, {}});
  ASSERT_EQ(flat.buffers()[0].slots.size(), 2U);
  EXPECT_EQ(flat.parameters().size(), 2U);
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net->one(net->one(at::ones({1, 3}))).sum().backward();
  flat.collect();
  EXPECT_TRUE(gradients.presence[0].equal(at::ones({2})));
  // d/db of sum(W(Wx+b)+b) = 1 + column sums of W. The bias is the second slot, in the group its other name matched.
  EXPECT_EQ(flat.buffers()[0].slots[1].group, 1);
  EXPECT_TRUE(gradients.views[0][1].allclose(net->one->weight.detach().sum(0) + 1));
}

TEST(FlatParametersTiedTest, DifferentTensorsOverTheSameMemoryAreRefused) {
  auto net = std::make_shared<Module>();
  const at::Tensor whole = at::ones({8});
  net->register_parameter("a", whole.narrow(0, 0, 5));
  net->register_parameter("b", whole.narrow(0, 4, 4));
  EXPECT_THROW(FlatParameters(net, {}), ConfigError);
  auto fine = std::make_shared<Module>();
  fine->register_parameter("a", whole.narrow(0, 0, 4));
  fine->register_parameter("b", whole.narrow(0, 4, 4));
  EXPECT_EQ(FlatParameters(fine, {}).buffers()[0].slots.size(), 2U);
}

TEST(FlatParametersKindsTest, EachDtypeHasItsBufferAndChannelsLastIsKept) {
  auto net = std::make_shared<Module>();
  net->register_parameter("single", at::ones({3}));
  net->register_parameter("dual", at::ones({5}, at::kDouble));
  net->register_parameter("brain", at::ones({2, 2}, at::kBFloat16));
  const at::Tensor image = at::rand({4, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast);
  net->register_parameter("image", image.clone());
  net->register_parameter("transposed_hole", at::rand({6, 4}).t().narrow(0, 0, 2));
  FlatParameters flat(net, {});
  ASSERT_EQ(flat.buffers().size(), 3U);
  EXPECT_EQ(flat.buffers()[0].values.scalar_type(), at::kFloat);
  EXPECT_EQ(flat.buffers()[1].values.scalar_type(), at::kDouble);
  EXPECT_EQ(flat.buffers()[2].values.scalar_type(), at::kBFloat16);
  const at::Tensor moved = net->named_parameters()["image"];
  EXPECT_TRUE(moved.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(moved.equal(image));
  EXPECT_TRUE(net->named_parameters()["transposed_hole"].is_contiguous());
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  (net->named_parameters()["brain"].sum().to(at::kDouble) + net->named_parameters()["dual"].sum()).backward();
  flat.collect();
  EXPECT_EQ(gradients.presence[0].sum().item<float>(), 0);
  EXPECT_EQ(gradients.presence[1].item<double>(), 1);
  EXPECT_EQ(gradients.presence[2].item<float>(), 1);
  EXPECT_EQ(gradients.dense[1].sum().item<double>(), 5);
}

TEST(FlatParametersKindsTest, ComplexParametersAreRefusedByName) {
  auto net = std::make_shared<Module>();
  net->register_parameter("phase", at::ones({3}, at::kComplexFloat));
  try {
    FlatParameters flat(net, {});
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("phase"));
  }
}

TEST(FlatParametersSparseTest, TablesStayOutsideAndKeepSparseGradients) {
  auto net = std::make_shared<Tables>();
  FlatParameters flat(net, {});
  ASSERT_EQ(flat.buffers().size(), 2U);
  EXPECT_FALSE(flat.buffers()[0].sparse);
  ASSERT_TRUE(flat.buffers()[1].sparse);
  EXPECT_EQ(flat.buffers()[1].slots[0].name, "words.weight");
  auto gradients = flat.make_gradients(allocate_sevens);
  for (int pass = 0; pass < 2; ++pass) {
    flat.bind(gradients);
    EXPECT_FALSE(gradients.sparse[1][0].defined());
    net->loss(at::tensor({1, 3, 3}, at::kLong)).backward();
    flat.collect();
    ASSERT_TRUE(gradients.sparse[1][0].defined());
    EXPECT_TRUE(gradients.sparse[1][0].is_sparse());
    const at::Tensor row = net->head->weight.detach()[0];
    EXPECT_TRUE(gradients.sparse[1][0].to_dense()[3].allclose(2 * row));
    EXPECT_TRUE(gradients.sparse[1][1].to_dense()[1].allclose(row));
  }
}

TEST(FlatParametersSparseTest, ADenseGradientOfAnAnnouncedSparseParameterIsNamed) {
  auto net = std::make_shared<Net>();
  FlatParameters flat(net, {{}, {"actor"}});
  auto gradients = flat.make_gradients(allocate_sevens);
  flat.bind(gradients);
  net->loss(at::ones({1, 5})).backward();
  EXPECT_THROW(flat.collect(), DataError);
}

}  // namespace
}  // namespace tandem::model
