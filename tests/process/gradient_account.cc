#include "gradient_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

// Of one replica. The first two are its own counts, the others those of the variables.
struct Counts {
  std::int64_t gave = 0, lost = 0;
  std::int64_t offered = 0, accepted = 0, applied = 0, dropped = 0;
};

std::vector<Counts> counts_in(const JsonValue& summary) {
  std::vector<Counts> all;
  for (const JsonValue& replica : summary.at("replicas").as_array()) {
    const auto of_variables = [&](const char* name) {
      return summary.at(concat("replica/", all.size(), "/", name)).as_int64();
    };
    all.push_back({.gave = replica.at("gradients").as_int64(),
                   .lost = replica.at("dropped").as_int64(),
                   .offered = of_variables("offered"),
                   .accepted = of_variables("accepted"),
                   .applied = of_variables("applied"),
                   .dropped = of_variables("dropped")});
  }
  return all;
}

// The tensors of whole numbers whose names begin so, of a file of safetensors.
std::vector<std::int64_t> numbers_in(const std::string& file, const std::string& beginning) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  const std::size_t data = sizeof(length) + length;
  std::vector<std::int64_t> numbers;
  const JsonValue header = read_json(file.substr(sizeof(length), length));
  for (const auto& [name, entry] : header.as_object()) {
    if (!name.starts_with(beginning) || entry.at("dtype").as_string() != "I64") continue;
    const auto& offsets = entry.at("data_offsets").as_array();
    for (auto at = offsets[0].as_uint64(); at < offsets[1].as_uint64(); at += sizeof(std::int64_t)) {
      std::int64_t number = 0;
      std::memcpy(&number, file.data() + data + at, sizeof(number));
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace

void expect_accounted_for(const std::filesystem::path& folder, const ExpectedGradients& expected,
                          const std::string& shown) {
  const JsonValue summary = summary_of(folder);
  const std::vector<Counts> all = counts_in(summary);
  ASSERT_EQ(all.size(), expected.replicas);
  std::int64_t applied = 0, in_flight = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    SCOPED_TRACE(concat("replica ", k));
    const Counts& its = all[k];
    EXPECT_EQ(its.gave, expected.of_each);
    EXPECT_EQ(its.offered, its.gave);
    EXPECT_EQ(its.dropped, its.lost);
    EXPECT_EQ(its.accepted, its.gave - its.lost);
    EXPECT_LE(its.applied, its.accepted);
    applied += its.applied;
    in_flight += its.gave - its.lost - its.applied;
  }
  EXPECT_LE(in_flight, expected.most_in_flight);
  // Those that the optimizer's steps were made of, which is counted where a step is made.
  const JsonValue& steps = summary.at("steps");
  const std::int64_t made = steps.at("made").as_int64();
  EXPECT_EQ(std::llround(steps.at("gradients").at("mean").as_double() * static_cast<double>(made)), applied);
  EXPECT_GE(steps.at("effective_batch").at("min").as_double(), 1);
  EXPECT_THAT(shown, HasSubstr("accepted    applied    dropped  waited ms"));
  EXPECT_THAT(shown, HasSubstr(concat(made, " steps, each of ")));
}

std::int64_t dropped_in(const std::filesystem::path& folder) {
  std::int64_t dropped = 0;
  for (const Counts& its : counts_in(summary_of(folder))) dropped += its.lost;
  return dropped;
}

void expect_steps_of_all_updates(const std::filesystem::path& folder) {
  std::int64_t made = 0;
  std::istringstream lines(read_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) made += read_json(line).at("steps_made").as_int64();
  std::filesystem::path newest;  // their names are numbers of as many digits
  for (const auto& entry : std::filesystem::directory_iterator(folder / "checkpoints"))
    newest = std::max(newest, entry.path());
  const std::vector<std::int64_t> steps = numbers_in(read_file(newest / "state.safetensors"), "optimizer.step");
  EXPECT_FALSE(steps.empty());
  for (const std::int64_t of_parameter : steps) EXPECT_EQ(of_parameter, made);
}

}  // namespace tandem::process_test
