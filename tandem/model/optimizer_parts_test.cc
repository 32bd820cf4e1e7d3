#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <string>

#include "tandem/base/error.h"
#include "tandem/model/optimizer.h"

namespace tandem::model {
namespace {

// Plain rules take sparse gradients.
bool takes_rows(const OptimizerOptions& rule) {
  if (const auto* sgd = std::get_if<SgdOptions>(&rule)) return sgd->momentum == 0 && sgd->weight_decay == 0;
  const auto* adam = std::get_if<AdamOptions>(&rule);
  return adam != nullptr && adam->weight_decay == 0;
}

// Eight parameters of sizes that are no multiples of a cache line, some larger than what is updated by one call, and,
// where the rule takes them, a table whose gradients are sparse.
struct MixedSizes : torch::nn::Module {
  explicit MixedSizes(const OptimizerOptions& rule) {
    for (const std::int64_t width : {700, 3, 401, 17})
      register_module("of" + std::to_string(width), torch::nn::Linear(width, 401));
    if (takes_rows(rule))
      register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 3).sparse(true)));
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel())).mul(0.3).view_as(parameter));
  }
};

struct Trained {
  explicit Trained(const OptimizerOptions& rule)
      : flat(std::make_shared<MixedSizes>(rule), {}), optimizer(flat, {rule}) {
    gradients = flat.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::empty({count}, dtype); });
  }
  // Gradients that tell the step; parameter `absent` has none.
  void fill(int step, std::size_t absent) {
    for (std::size_t s = 0; s < slots().size(); ++s)
      gradients.views[0][s].copy_(at::cos(at::arange(slots()[s].count).add(step)).view(slots()[s].shape));
    gradients.presence[0].fill_(3);
    gradients.presence[0][static_cast<std::int64_t>(absent)] = 0;
    if (gradients.sparse.size() == 1) return;
    const at::Tensor rows = at::tensor({std::int64_t{step % 6}}, at::kLong).unsqueeze(0);
    gradients.sparse[1][0] = at::sparse_coo_tensor(rows, at::full({1, 3}, 0.5 + step), {6, 3});
  }
  // Of the parameters first .. last-1.
  [[nodiscard]] Elements elements(std::size_t first, std::size_t last) const {
    return {slots()[first].offset, last < slots().size() ? slots()[last].offset : flat.buffers()[0].values.numel()};
  }
  [[nodiscard]] const std::vector<ParameterSlot>& slots() const { return flat.buffers()[0].slots; }
  [[nodiscard]] std::vector<at::Tensor> state() const {
    std::vector<at::Tensor> all;
    for (const FlatBuffer& buffer : flat.buffers()) all.push_back(buffer.values.clone());
    for (const auto& named : optimizer.state()) all.push_back(named.second.clone());
    return all;
  }
  FlatParameters flat;
  FlatParameters::Gradients gradients;
  Optimizer optimizer;
};

class ThreadCount {
 public:
  explicit ThreadCount(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  const int before_;
};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, [](const at::Tensor& x, const at::Tensor& y) { return x.equal(y); });
}

std::vector<OptimizerOptions> rules() {
  return {SgdOptions{.lr = 0.1}, SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, AdamOptions{.lr = 1e-2},
          AdamOptions{.lr = 1e-2, .weight_decay = 0.1, .decay = AdamOptions::Decay::kDecoupled},
          RmspropOptions{.lr = 1e-3, .weight_decay = 0.05, .momentum = 0.7}};
}

// Parameter `absent` differs from step to step, so counts do. Three threads share out what operations leave them at
// elements that are no borders of vectors.
TEST(OptimizerPartsTest, PartsInAnyOrderHaveTheBitsOfOneStep) {
  const ThreadCount threads(3);
  for (const OptimizerOptions& rule : rules()) {
    Trained whole(rule), parts(rule);
    for (int step = 0; step < 6; ++step) {
      const auto absent = static_cast<std::size_t>(step % 3);
      for (Trained* each : {&whole, &parts}) each->fill(step, absent);
      whole.optimizer.step(whole.gradients, 0.125, 0.5);
      parts.optimizer.begin_parts(0.125, 0.5);
      parts.optimizer.step_part(parts.gradients, 0, parts.elements(5, 8));
      if (step % 2 == 0) {  // two, cut within the larger of them
        const Elements both = parts.elements(3, 5);
        const std::int64_t cut = both.begin + 256 * (step + 1);
        parts.optimizer.step_part(parts.gradients, 0, {cut, both.end});
        parts.optimizer.step_part(parts.gradients, 0, {both.begin, cut});
      }
      parts.optimizer.end_parts(parts.gradients);
      ASSERT_TRUE(equal(whole.state(), parts.state())) << "rule " << rule.index() << ", step " << step;
    }
  }
}

TEST(OptimizerPartsTest, UndoneParametersMomentsAndCountsAreThoseBefore) {
  Trained trained(AdamOptions{.lr = 1e-2});
  trained.fill(0, 1);
  trained.optimizer.step(trained.gradients, 1, 1);
  const std::vector<at::Tensor> before = trained.state();
  trained.optimizer.begin_parts(1, 1);
  trained.optimizer.step_part(trained.gradients, 0, trained.elements(0, 2));
  trained.optimizer.step_part(trained.gradients, 0, trained.elements(6, 8));
  EXPECT_FALSE(equal(before, trained.state()));
  trained.optimizer.undo_parts();
  EXPECT_TRUE(equal(before, trained.state()));
  trained.optimizer.undo_parts();
  EXPECT_TRUE(equal(before, trained.state())) << "outside a step in parts";

  Trained other(AdamOptions{.lr = 1e-2});
  other.fill(0, 1);
  other.optimizer.step(other.gradients, 1, 1);
  for (Trained* each : {&trained, &other}) each->optimizer.step(each->gradients, 1, 1);
  EXPECT_TRUE(equal(trained.state(), other.state()));
}

TEST(OptimizerPartsTest, ASparseGradientThatIsNotOfRowsChangesNothing) {
  Trained trained(AdamOptions{});
  trained.fill(0, 1);
  trained.gradients.sparse[1][0] = at::ones({6, 3}).to_sparse(2);
  const std::vector<at::Tensor> before = trained.state();
  EXPECT_THROW(trained.optimizer.step(trained.gradients, 1, 1), DataError);
  EXPECT_TRUE(equal(before, trained.state()));
  trained.optimizer.begin_parts(1, 1);
  trained.optimizer.step_part(trained.gradients, 0, trained.elements(0, 2));
  EXPECT_THROW(trained.optimizer.end_parts(trained.gradients), DataError);
  trained.optimizer.undo_parts();
  EXPECT_TRUE(equal(before, trained.state()));
}

TEST(OptimizerPartsTest, PartsMakeWholeParametersEachOnce) {
  Trained trained(AdamOptions{});
  trained.fill(0, 1);
  const std::vector<at::Tensor> before = trained.state();
  const Elements part = trained.elements(2, 4);
  const auto step_part = [&](std::int64_t begin, std::int64_t end) {
    trained.optimizer.step_part(trained.gradients, 0, {begin, end});
  };
  EXPECT_THROW(step_part(part.begin, part.end), InvariantError) << "before begin_parts()";
  trained.optimizer.begin_parts(1, 1);
  EXPECT_THROW(step_part(part.begin + 8, part.end), InvariantError) << "no whole cache lines";
  EXPECT_THROW(step_part(part.begin, trained.flat.buffers()[0].values.numel() + 16), InvariantError);
  EXPECT_THROW(trained.optimizer.step(trained.gradients, 1, 1), InvariantError);
  step_part(part.begin, part.end);
  EXPECT_THROW(step_part(part.begin, part.begin + 16), InvariantError) << "twice";
  trained.optimizer.undo_parts();

  trained.optimizer.begin_parts(1, 1);
  step_part(part.begin + 16, part.end);
  EXPECT_THROW(trained.optimizer.end_parts(trained.gradients), InvariantError) << "16 elements are missing";
  trained.optimizer.undo_parts();
  EXPECT_TRUE(equal(before, trained.state()));
}

}  // namespace
}  // namespace tandem::model
