#include "tandem/model/module_buffers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "tandem/base/error.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/state_hash.h"

namespace tandem::model {
namespace {

struct Normed : torch::nn::Module {
  torch::nn::BatchNorm1d first{nullptr}, second{nullptr};
  torch::nn::Linear layer{nullptr};
  explicit Normed(int width = 5) {
    first = register_module("first", torch::nn::BatchNorm1d(3));
    layer = register_module("layer", torch::nn::Linear(3, width));
    second = register_module("second", torch::nn::BatchNorm1d(width));
    register_buffer("undefined", at::Tensor());
  }
  at::Tensor forward(const at::Tensor& x) { return second(layer(first(x))); }
};

TEST(ModuleBuffersTest, BatchNormWritesItsStatisticsIntoFlatTensors) {
  auto plain = std::make_shared<Normed>(), net = std::make_shared<Normed>();
  copy_module(*plain, *net);
  ModuleBuffers buffers(net);
  ASSERT_EQ(buffers.values().size(), 2U);
  EXPECT_EQ(buffers.values()[0].merge, FlatModuleBuffer::Merge::kMean);
  EXPECT_EQ(buffers.values()[1].merge, FlatModuleBuffer::Merge::kShardZero);
  const at::Tensor x = at::arange(12, at::kFloat).view({4, 3});
  (void)plain->forward(x);
  (void)net->forward(x);
  for (const auto& flat : buffers.values()) {
    for (const auto& slot : flat.slots) {
      EXPECT_EQ(slot.offset * static_cast<std::int64_t>(flat.values.element_size()) % 64, 0);
      const at::Tensor found = flat.values.narrow(0, slot.offset, slot.count).view(slot.shape);
      EXPECT_TRUE(found.equal(plain->named_buffers()[slot.name])) << slot.name;
    }
  }
  EXPECT_EQ(net->first->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(ModuleBuffersTest, EachShardStartsFromTheSavedValues) {
  auto net = std::make_shared<Normed>();
  ModuleBuffers buffers(net);
  (void)net->forward(at::rand({4, 3}));
  buffers.save_start();
  const at::Tensor start = net->first->running_mean.clone();
  const at::Tensor x = at::rand({4, 3});
  (void)net->forward(x);
  const at::Tensor after = net->first->running_mean.clone();
  EXPECT_FALSE(after.equal(start));
  buffers.restore_start();
  EXPECT_TRUE(net->first->running_mean.equal(start));
  EXPECT_EQ(net->first->num_batches_tracked.item<std::int64_t>(), 1);
  (void)net->forward(x);
  EXPECT_TRUE(net->first->running_mean.equal(after));
}

TEST(ModuleBuffersTest, ABufferWithOtherMemoryComesBackWithItsValues) {
  auto net = std::make_shared<Normed>();
  ModuleBuffers buffers(net);
  const at::Tensor loaded = at::full_like(net->second->running_var, 7);
  net->second->running_var.set_data(loaded.clone());
  buffers.save_start();
  EXPECT_TRUE(net->second->running_var.equal(loaded));
  EXPECT_TRUE(net->second->running_var.is_alias_of(buffers.values()[0].values));
}

TEST(ModuleBuffersTest, ABufferOfAnotherShapeIsNamed) {
  auto net = std::make_shared<Normed>();
  ModuleBuffers buffers(net);
  net->second->running_var.set_data(at::ones({17}));
  try {
    buffers.restore_start();
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("second.running_var"));
  }
}

TEST(ModuleBuffersTest, AModuleWithoutBuffersIsEmpty) {
  ModuleBuffers buffers(std::make_shared<torch::nn::LinearImpl>(2, 2));
  EXPECT_TRUE(buffers.empty());
  buffers.save_start();
  buffers.restore_start();
}

TEST(ModuleCopyTest, ParametersAndBuffersBecomeEqualAndStayFlat) {
  auto from = std::make_shared<Normed>(), to = std::make_shared<Normed>();
  (void)from->forward(at::rand({4, 3}));
  from->first->weight.set_requires_grad(false).fill_(3);
  FlatParameters flat(to, {});
  ModuleBuffers buffers(to);
  copy_module(*from, *to);
  for (const auto& item : from->named_parameters()) {
    EXPECT_TRUE(item.value().equal(to->named_parameters()[item.key()])) << item.key();
  }
  EXPECT_TRUE(from->second->running_var.equal(to->second->running_var));
  EXPECT_TRUE(to->layer->weight.is_alias_of(flat.buffers()[0].values));
  EXPECT_TRUE(to->second->running_var.is_alias_of(buffers.values()[0].values));
}

TEST(ModuleCopyTest, EveryDifferenceIsListedAndNothingIsCopied) {
  auto from = std::make_shared<Normed>(), to = std::make_shared<Normed>(6);
  const at::Tensor before = to->first->weight.detach().clone();
  from->first->weight.detach().fill_(9);
  try {
    copy_module(*from, *to);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 6U) << error.what();  // layer: 2; second: 2 parameters and 2 buffers
  }
  EXPECT_TRUE(to->first->weight.equal(before));
}

}  // namespace
}  // namespace tandem::model
