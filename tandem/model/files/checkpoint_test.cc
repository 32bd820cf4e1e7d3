#include "tandem/model/files/checkpoint.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/model/files/checkpoint_store.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

CheckpointInfo sample_info() {
  return {"ppo", "0.1.0", {{"env_steps", 4096}, {"big", std::int64_t{1} << 60}}, {{"config", "lr: \"1\"\n"}}, 12.5};
}

CheckpointManifest sample_manifest() {
  return {7, sample_info(), {{"model", 120, std::string(64, 'a')}, {"shard.0", 8, std::string(64, '0')}}};
}

std::string refusal_of_manifest(const std::string& manifest) {
  try {
    (void)parse_manifest(manifest);
    return "accepted";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

// The same manifest with something replaced and the seal made anew.
std::string forged(const std::string& what, const std::string& with) {
  const std::string text = make_manifest(sample_manifest());
  return seal_manifest(replaced(text.substr(0, text.find(",\"manifest_sha256\"")) + "}", what, with));
}

TEST(CheckpointManifestTest, ComesBackAsItWas) {
  auto manifest = sample_manifest();
  EXPECT_EQ(parse_manifest(make_manifest(manifest)), manifest);
  manifest.info.score.reset();
  EXPECT_EQ(parse_manifest(make_manifest(manifest)), manifest);
  manifest.info.score = std::nan("");  // JSON has none; an undefined score is no score
  EXPECT_EQ(parse_manifest(make_manifest(manifest)).info.score, std::nullopt);
}

TEST(CheckpointManifestTest, EveryCutAndEveryChangedByteIsNoticed) {
  const std::string text = make_manifest(sample_manifest());
  for (std::size_t size = 0; size < text.size(); ++size)
    EXPECT_NE(refusal_of_manifest(text.substr(0, size)), "accepted") << size;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(refusal_of_manifest(changed), "accepted") << i;
  }
  EXPECT_THAT(refusal_of_manifest(replaced(text, "4096", "4097")), AllOf(HasSubstr("changed"), HasSubstr("SHA-256")));
}

TEST(CheckpointManifestTest, WhatIsWellFormedButWrongIsSaid) {
  EXPECT_NE(forged("4096", "4097"), make_manifest(sample_manifest()));
  EXPECT_EQ(refusal_of_manifest(forged("4096", "4097")), "accepted");
  EXPECT_THAT(refusal_of_manifest(forged("\"format_version\":1", "\"format_version\":9")),
              AllOf(HasSubstr("version 9"), HasSubstr("1")));
  EXPECT_THAT(refusal_of_manifest(forged("tandem-checkpoint", "other")), HasSubstr("other"));
  EXPECT_THAT(refusal_of_manifest(forged("shard.0", "../../x")), HasSubstr("../../x"));
  EXPECT_THAT(refusal_of_manifest(forged("shard.0", ".hidden")), HasSubstr(".hidden"));
  EXPECT_THAT(refusal_of_manifest(forged("shard.0", "model")), HasSubstr("twice"));
  EXPECT_THAT(refusal_of_manifest(forged("\"bytes\":8", "\"bytes\":-8")), HasSubstr("8"));
  EXPECT_THAT(refusal_of_manifest(forged("\"updates\":7", "\"updates\":-7")), HasSubstr("-7"));
  EXPECT_THAT(refusal_of_manifest(forged("\"kind\"", "\"kinds\"")), HasSubstr("kind"));
  EXPECT_THAT(refusal_of_manifest(forged(std::string(64, '0'), std::string(64, 'G'))), HasSubstr("SHA-256"));
}

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CheckpointStore store(folder_.path());
    auto writer = store.begin(5);
    writer.write_part("model", {{"w", at::arange(40, at::kFloat)}}, {{"note", "x"}});
    writer.write_part("shard.0", {{"rng", at::ones({3}, at::kByte)}});
    writer.commit(sample_info());
    path_ = Checkpoint(*store.latest()).folder();
  }

  void change(const std::string& file, std::size_t at) const {
    std::string content = read_file(path_ / file);
    content[at] = static_cast<char>(content[at] ^ 4);
    write_file(path_ / file, content);
  }

  template <typename Act>
  std::string error_of(const Act& act) const {
    try {
      act();
      return "accepted";
    } catch (const CheckpointError& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  fs::path path_;
};

TEST_F(CheckpointTest, HoldsWhatWasWritten) {
  const auto checkpoint = Checkpoint::open(path_);
  EXPECT_EQ(checkpoint.updates(), 5);
  EXPECT_EQ(checkpoint.info(), sample_info());
  EXPECT_EQ(checkpoint.parts().size(), 2U);
  const auto model = checkpoint.read_part("model");
  EXPECT_TRUE(model.at("w").equal(at::arange(40, at::kFloat)));
  EXPECT_EQ(model.metadata.at("note"), "x");
  checkpoint.verify();
  EXPECT_THAT(error_of([&] { (void)checkpoint.read_part("nothing"); }),
              AllOf(HasSubstr("nothing"), HasSubstr("shard.0")));
}

TEST_F(CheckpointTest, ACopyElsewhereIsACheckpointToo) {
  const TemporaryFolder other;
  fs::copy(path_, other / "mine", fs::copy_options::recursive);
  EXPECT_TRUE(Checkpoint::open(other / "mine").read_part("shard.0").at("rng").equal(at::ones({3}, at::kByte)));
}

TEST_F(CheckpointTest, DamageIsNamedWithFileAndDigests) {
  const auto checkpoint = Checkpoint::open(path_);
  const std::string digest = checkpoint.parts()[0].sha256;
  change("model.safetensors", 200);
  EXPECT_THAT(error_of([&] { (void)checkpoint.read_part("model"); }),
              AllOf(HasSubstr("model.safetensors"), HasSubstr(digest)));
  EXPECT_THAT(error_of([&] { checkpoint.verify(); }), HasSubstr("damaged"));
  EXPECT_EQ(error_of([&] { (void)checkpoint.read_part("shard.0"); }), "accepted");

  fs::resize_file(path_ / "model.safetensors", 100);
  EXPECT_THAT(error_of([&] { (void)checkpoint.read_part("model"); }), HasSubstr("100 bytes"));
  fs::remove(path_ / "model.safetensors");
  EXPECT_THAT(error_of([&] { (void)checkpoint.read_part("model"); }), HasSubstr("lacks its part model.safetensors"));

  change(std::string(kManifestFile), 30);
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(path_); }),
              AllOf(HasSubstr("manifest.json"), HasSubstr("changed")));
  fs::remove(path_ / kManifestFile);
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(path_); }), HasSubstr("not a checkpoint"));
  EXPECT_THAT(error_of([&] { (void)Checkpoint::open(path_ / "none"); }), HasSubstr("there is no checkpoint"));
}

}  // namespace
}  // namespace tandem::model
