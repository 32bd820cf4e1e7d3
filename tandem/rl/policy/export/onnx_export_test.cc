// Laws of the file of ONNX. What onnxruntime makes of it is tested by tests/parity/deployment_parity.py.
#include "tandem/rl/policy/export/onnx_export.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/version.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/export/onnx_graph.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Spec onnx_spec(ActionSpace action) {
  return {.id = "Test-v0", .observation = {{.name = "joints", .shape = {3}}}, .action = std::move(action)};
}

// A text of protobuf is its length and its bytes.
std::string as_field(const std::string& text) { return static_cast<char>(text.size()) + text; }

TEST(OnnxExportTest, InputsAndOutputsHaveTheirNames) {
  Spec spec = onnx_spec(Discrete{2});
  const MlpPolicy policy(spec, {.hidden = {4}}, model::seeded(1));
  const std::string file = onnx_of({.policy = policy});
  for (const char* name : {"joints", "logits", "action"}) EXPECT_THAT(file, HasSubstr(as_field(name)));
  for (const char* name : {"mask", "next_state"}) EXPECT_THAT(file, Not(HasSubstr(as_field(name))));
  spec.has_action_mask = true;
  const MlpPolicy masked(spec, {.hidden = {4}}, model::seeded(1));
  EXPECT_THAT(onnx_of({.policy = masked}), HasSubstr(as_field("mask")));
  const RecurrentPolicy remembers(onnx_spec(Box{{-1}, {1}}), {.size = 8}, model::seeded(1));
  const std::string its = onnx_of({.policy = remembers});
  for (const char* name : {"joints", "state", "next_state", "mean", "action"})
    EXPECT_THAT(its, HasSubstr(as_field(name)));
  EXPECT_THAT(its, Not(HasSubstr(as_field("mask"))));
}

TEST(OnnxExportTest, TheFileTellsWhereItComesFrom) {
  const MlpPolicy policy(onnx_spec(Discrete{2}), {.hidden = {4}}, model::seeded(1));
  const std::string file = onnx_of({.policy = policy, .facts = {{"algorithm", "ppo"}, {"run", "runs/pole"}}});
  for (const char* fact : {"algorithm", "ppo", "run", "runs/pole", "env", "Test-v0", "tandem_version", kVersion})
    EXPECT_THAT(file, HasSubstr(as_field(fact)));
  EXPECT_THAT(file, HasSubstr(R"({"name":"joints","input":"joints","type":"float32","shape":[3]})"));
}

TEST(OnnxExportTest, APolicyGivesTheSameBytesAgain) {
  const MlpPolicy policy(onnx_spec(Discrete{2}), {.hidden = {4}}, model::seeded(1));
  EXPECT_EQ(onnx_of({.policy = policy}), onnx_of({.policy = policy}));
}

TEST(OnnxExportTest, AFolderThatIsNotThereIsACheckpointError) {
  const MlpPolicy policy(onnx_spec(Discrete{2}), {.hidden = {4}}, model::seeded(1));
  EXPECT_THROW(export_onnx({.policy = policy}, "/nonexistent/folder/policy.onnx"), CheckpointError);
}

TEST(OnnxGraphTest, ATypeWithoutAPlaceInOnnxIsADefect) {
  OnnxGraph graph;
  EXPECT_THROW((void)graph.constant(at::zeros({1}, at::kComplexFloat)), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
