#include "tandem/rl/env/mujoco/mujoco_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::rl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Folders with empty files; nothing is loaded here.
class MujocoPlacesTest : public ::testing::Test {
 protected:
  fs::path put(const std::string& file) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "";
    return root_ / file;
  }

  const TemporaryFolder root_;
};

TEST_F(MujocoPlacesTest, ANamedLibraryIsAFileAPackageAReleaseOrAPythonEnvironment) {
  const fs::path file = put("anything.so"), package = put("mujoco/libmujoco.so.4.0.1"),
                 release = put("release/lib/libmujoco.so"),
                 venv = put("venv/lib/python3.12/site-packages/mujoco/libmujoco.so.4.0.1");
  for (const auto& [named, found] : std::vector<std::pair<std::string, fs::path>>{
           {"anything.so", file}, {"mujoco", package}, {"release", release}, {"venv", venv}}) {
    EXPECT_EQ(mujoco_library_files({.library = (root_ / named).string()}, "4.0.1"), std::vector{found.string()});
  }
  EXPECT_THAT(
      message_of<ConfigError>([&] { (void)mujoco_library_files({.library = (root_ / "venv/lib").string()}, "4.0.1"); }),
      AllOf(HasSubstr("is no libmujoco.so and no folder with one"), HasSubstr("tools/bootstrap --mujoco")));
}

TEST_F(MujocoPlacesTest, OfSeveralVersionsTheRightOneIsTaken) {
  put("mujoco/libmujoco.so.3.3.7");
  put("mujoco/libmujoco.so.4.1.0");
  const fs::path right = put("mujoco/libmujoco.so.4.0.1");
  EXPECT_EQ(mujoco_library_files({.library = (root_ / "mujoco").string()}, "4.0.1"), std::vector{right.string()});
}

// What lies in the current folder is never loaded: only the last candidate has no folder, and the loader looks for that
// in the system's places.
TEST_F(MujocoPlacesTest, WithoutANameThePythonEnvironmentAndTheLoaderAreAskedButNotTheCurrentFolder) {
  const fs::path here = fs::current_path();
  const fs::path venv = put("venv/lib/python3.12/site-packages/mujoco/libmujoco.so.4.0.1").parent_path();
  put("libmujoco.so.4.0.1");
  fs::current_path(root_.path());
  const std::vector<std::string> files = mujoco_library_files({.python = (root_ / "venv").string()}, "4.0.1");
  const std::vector<std::string> other = mujoco_library_files({.python = (root_ / "venv").string()}, "9.9.9");
  fs::current_path(here);
  ASSERT_GE(files.size(), 2u);
  EXPECT_EQ(files[files.size() - 2], (venv / "libmujoco.so.4.0.1").string());
  EXPECT_EQ(files.back(), "libmujoco.so.4.0.1");
  for (const std::string& file : files) EXPECT_FALSE(file.starts_with((root_ / "lib").string())) << file;
  EXPECT_EQ(other, std::vector<std::string>{"libmujoco.so.9.9.9"});
}

TEST_F(MujocoPlacesTest, ModelsLieInTheNamedFolderOrBesideTheLibraryAndPathsAreTakenAsTheyAre) {
  const fs::path mine = put("mine/ant.xml"), packages = root_ / "site-packages";
  const fs::path theirs = put("site-packages/gymnasium/envs/mujoco/assets/ant.xml");
  const std::string library = (packages / "mujoco/libmujoco.so.4.0.1").string();
  EXPECT_EQ(mujoco_model_file({.models = (root_ / "mine").string()}, library, "ant.xml"), mine);
  EXPECT_EQ(mujoco_model_file({}, library, "ant.xml"), theirs);
  EXPECT_EQ(mujoco_model_file({}, library, mine.string()), mine);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)mujoco_model_file({}, library, "aunt.xml"); }),
              AllOf(HasSubstr("the model 'aunt.xml' was not found"), HasSubstr(theirs.parent_path().string()),
                    HasSubstr("TANDEM_MUJOCO_MODELS")));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)mujoco_model_file({}, library, "./aunt.xml"); }),
              HasSubstr("there is no model './aunt.xml'"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)mujoco_model_file({}, library, "mine/ant.xml"); }),
              HasSubstr("write ./mine/ant.xml"));
}

}  // namespace
}  // namespace tandem::rl
