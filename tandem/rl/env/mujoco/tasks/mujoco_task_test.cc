#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A box on a rail that a motor without limits pushes, a joint that turns as it likes, and how much memory there is.
std::string model_text(const std::string& memory) {
  return "<mujoco><size memory='" + memory + R"('/>
    <worldbody>
      <geom type='plane' size='5 5 1'/>
      <body name='box' pos='0 0 .1'><joint name='x' type='slide' axis='1 0 0'/><geom type='box' size='.1 .1 .1'/></body>
      <body name='ball' pos='2 0 .5'><freejoint/><geom type='sphere' size='.1'/></body>
    </worldbody>
    <actuator><motor joint='x' gear='3'/><motor joint='x' ctrllimited='true' ctrlrange='-2 1'/></actuator>
  </mujoco>)";
}

// What a user writes: a class with a model of its own, with options.
class Rail : public MujocoTask {
 public:
  struct Options : MujocoOptions {
    double worth = 1;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>("rail.xml").with({{"worth", &Options::worth, "Of a metre a second."}});
  }
  Rail() : MujocoTask({.id = "Rail-v0", .max_episode_steps = 20}) {}
  void configure(const Options& options) {
    worth_ = options.worth;
    use_model(options, "rail.xml");
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> /*speeds*/) override {
    positions[0] += random.uniform(-1, 1);
  }
  void observe(std::vector<double>& shown) const override {
    append(shown, qpos().first(1));
    append(shown, qvel().first(1));
  }
  [[nodiscard]] Mark mark() const override { return {qpos()[0]}; }
  [[nodiscard]] Outcome judge(const Passage& passed, std::span<const float> /*action*/) override {
    return {.reward = worth_ * passed.velocity(0), .terminated = passed.to[0] > 3};
  }

  double worth_ = 1;
};

class MujocoTaskTest : public ::testing::Test {
 protected:
  std::string model(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  const TemporaryFolder folder_;
};

TEST_F(MujocoTaskTest, AClassOfAUsersIsAnEnvironmentWithItsModel) {
  EnvRegistry registry;
  const std::string file = model("rail.xml", model_text("1M"));
  const EnvOptionTexts options{{"xml_file", file}, {"worth", "2"}, {"frame_skip", "4"}};
  const auto made = std::make_unique<EnvGroupOf<Rail>>(
      2, [] { return std::make_unique<Rail>(); }, options);
  const auto& box = std::get<Box>(made->spec().action);
  EXPECT_TRUE(std::isinf(box.low[0]) && std::isinf(box.high[0])) << "a motor without limits";
  EXPECT_EQ(box.low[1], -2);
  EXPECT_EQ(box.high[1], 1);
  EXPECT_EQ(made->spec().render_fps, 125);  // four times 2 ms
  EnvBuffers buffers(*made);
  const std::vector<std::uint64_t> seeds{1, 2};
  made->reset(seeds, buffers.arrays());
  const double first = buffers.observation<double>(0)[0];
  const std::vector<float> push{1, 0, -1, 0};
  made->step({.box = push.data()}, buffers.arrays());
  const double moved = buffers.observation<double>(0)[0] - first;
  EXPECT_GT(moved, 0);
  EXPECT_DOUBLE_EQ(buffers.reward()[0], 2 * moved / 0.008);
  EXPECT_LT(buffers.reward()[1], 0);
}

// MuJoCo would end the process.
TEST_F(MujocoTaskTest, AnErrorOfMujocosIsOneOfTheEnvironment) {
  const std::string file = model("small.xml", model_text("2K"));
  EXPECT_THAT(message_of<EnvError>([&] {
                const auto made = std::make_unique<EnvGroupOf<Rail>>(
                    1, [] { return std::make_unique<Rail>(); }, EnvOptionTexts{{"xml_file", file}});
                EnvBuffers buffers(*made);
                const std::vector<std::uint64_t> seeds{1};
                made->reset(seeds, buffers.arrays());
                const std::vector<float> push{1, 0};
                for (int step = 0; step < 2000; ++step) made->step({.box = push.data()}, buffers.arrays());
              }),
              HasSubstr("MuJoCo: "));
}

TEST_F(MujocoTaskTest, AModelThatMujocoCannotReadIsAnErrorWithItsWords) {
  const std::string file = model("bad.xml", "<mujoco><worldbody><body pos='1 2'/></worldbody></mujoco>");
  EXPECT_THAT(message_of<ConfigError>([&] { (void)shared_model(file); }),
              AllOf(HasSubstr("MuJoCo cannot read the model " + file), HasSubstr("pos")));
}

TEST_F(MujocoTaskTest, AModelIsReadOnceWhileItIsUsed) {
  const std::string file = model("rail.xml", model_text("1M"));
  const std::shared_ptr<const mjModel> one = shared_model(file).model, other = shared_model(file).model;
  EXPECT_EQ(one.get(), other.get());
  EXPECT_EQ(body_of(*one, "ball"), 2);
  EXPECT_EQ(body_of(*one, "1"), 1);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)body_of(*one, "7"); }), HasSubstr("it has world, box, ball"));
}

// The other model has a geom more, which changes no size of the state; or a geom of another size, which does not even
// change MuJoCo's signature of the model.
TEST_F(MujocoTaskTest, AStateOfAnotherModelIsRefused) {
  const std::string text = model_text("1M"), geom = "<geom type='sphere' size='.1'/>";
  std::string more = text, larger = text;
  more.insert(more.find(geom), "<geom type='sphere' size='.05' pos='0 0 .1'/>");
  larger.replace(larger.find(geom), geom.size(), "<geom type='sphere' size='.2'/>");
  const std::string one = model("a.xml", text);
  const auto state_of = [](const std::string& file, const std::vector<std::byte>& load) {
    const auto made = std::make_unique<EnvGroupOf<Rail>>(
        1, [] { return std::make_unique<Rail>(); }, EnvOptionTexts{{"xml_file", file}});
    EnvBuffers buffers(*made);
    const std::vector<std::uint64_t> seeds{1};
    made->reset(seeds, buffers.arrays());
    if (!load.empty()) made->load(load, buffers.arrays());
    return made->save();
  };
  // The options are saved, too: both models have the same name here.
  const std::vector<std::byte> state = state_of(one, {});
  EXPECT_EQ(state_of(one, state), state);
  for (const std::string& other : {more, larger}) {
    (void)model("a.xml", other);
    EXPECT_THAT(
        message_of<CheckpointError>([&] { (void)state_of(one, state); }),
        AllOf(HasSubstr("it is of another model than " + one + " is now: the SHA-256"), HasSubstr("begin a new run")));
  }
  (void)model("a.xml", text);
  EXPECT_EQ(state_of(one, state), state) << "the same file again";
}

}  // namespace
}  // namespace tandem::rl
