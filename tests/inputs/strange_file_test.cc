// Files that are none: pipes, whose opening would wait for ever, and names that a terminal would obey. Last, a picture
// that cannot be drawn of a run that has ended well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "bad_input.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

void replace_by_pipe(const fs::path& file) {
  fs::remove_all(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0) << file;
}

TEST(BadFileTest, APipeIsRefusedByEveryReader) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  const auto refused = [&folder](const char* arguments, int code, const std::string& file) {
    SCOPED_TRACE(arguments);
    expect_refusal(tandem(folder.path(), split(arguments)), code, {file, "it is a pipe"});
  };
  replace_by_pipe(folder / "train.yaml");
  refused("train train.yaml --env CartPole-v1", kUserCanFixIt, "train.yaml");
  replace_by_pipe(run / "status.json");
  refused("top run", kRunFailed, "status.json");
  replace_by_pipe(run / "metrics.jsonl");
  refused("plot run -o curve.png", kRunFailed, "metrics.jsonl");
  fs::remove(run / "metrics.jsonl");
  replace_by_pipe(run / "summary.json");
  refused("inspect run", kRunFailed, "summary.json");
  replace_by_pipe(checkpoint_of(run, 3) / "run.safetensors");
  refused("resume run --total-steps 1024", kRunFailed, "run.safetensors");
  replace_by_pipe(checkpoint_of(run, 3) / "manifest.json");
  refused("inspect run/checkpoints/u000000000003", kRunFailed, "manifest.json");
  replace_by_pipe(run / "config.yaml");
  refused("plot run -o curve.png", kUserCanFixIt, "config.yaml");
  replace_by_pipe(folder / "plugin.so");
  refused("envs --plugin plugin.so", kUserCanFixIt, "plugin.so");
}

// Whoever made the run folder may have linked a name in it to a file of the user who goes on with the run.
TEST(BadFileTest, ARunWritesIntoNoFileThatItsFolderLinksTo) {
  for (const char* name : {"metrics.jsonl", "log.txt", "status.json.part", ".lock"}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const fs::path run = copy_of_run(folder.path());
    write_text(folder / "mine", "precious");
    fs::remove(run / name);
    fs::create_symlink(folder / "mine", run / name);
    expect_refusal(tandem(folder.path(), split("resume run --total-steps 1024")), kUserCanFixIt,
                   {name, "is a symbolic link"});
    EXPECT_EQ(read_text(folder / "mine"), "precious");
  }
}

TEST(BadFileTest, NamesAreShownAndNotObeyed) {
  const TemporaryFolder folder;
  const std::string name = "runs\x1b]0;title\x07";
  const Ended ended = run(tandem(folder.path(), {"inspect", name}));
  EXPECT_THAT(ended.err, HasSubstr("runs\\x1b]0;title\\x07"));
  EXPECT_THAT(ended.err, Not(HasSubstr("\x1b")));
  fs::rename(copy_of_run(folder.path()), folder / name);
  const std::string shown = expect_success(tandem(folder.path(), {"inspect", name}));
  EXPECT_THAT(shown, HasSubstr("\\x1b]0;title"));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
}

TEST(BadFileTest, APictureThatCannotBeDrawnIsAWarning) {
  const TemporaryFolder folder;
  const fs::path run = copy_of_run(folder.path());
  fs::remove(run / "curve.png");
  fs::create_directories(run / "curve.png" / "occupied");
  const Ended ended = process_test::run(tandem(folder.path(), split("resume run --total-steps 1024")));
  EXPECT_EQ(ended.how(), "exit code 0") << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("warning: the run has ended well, but its picture could not be drawn"));
  EXPECT_THAT(read_text(run / "summary.json"), HasSubstr("finished"));
}

}  // namespace
}  // namespace tandem::process_test
