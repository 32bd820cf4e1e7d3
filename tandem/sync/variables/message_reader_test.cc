// What another replica says of a gradient is checked before it indexes anything.
#include <gtest/gtest.h>
#include <torch/nn/modules/embedding.h>

#include "tandem/base/error.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/sync/variables/variable_link.h"

namespace tandem::sync {
namespace {

constexpr std::int64_t kRows = 5, kWidth = 3;

// Two rows of an embedding's gradient, as a replica sends them, with `count` and `row` changed.
std::vector<std::byte> two_rows(std::int64_t count, std::int64_t row) {
  const std::array<std::int64_t, 3> head{count, row, 1};
  const std::array<float, 2 * kWidth> values{1, 2, 3, 4, 5, 6};
  std::vector<std::byte> bytes;
  for (const net::Bytes part : {std::as_bytes(std::span(head)), std::as_bytes(std::span(values))})
    bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

class MessageReaderTest : public ::testing::Test {
 protected:
  void read(const std::vector<std::byte>& bytes) {
    MessageReader reader(bytes);
    reader.read_gradient(parameters_.buffers(), gradients_);
  }

  torch::nn::Embedding table_{torch::nn::EmbeddingOptions(kRows, kWidth).sparse(true)};
  model::FlatParameters parameters_{table_.ptr(), {}};
  model::FlatParameters::Gradients gradients_ =
      parameters_.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); });
};

TEST_F(MessageReaderTest, RowsAreTaken) {
  read(two_rows(2, 4));
  EXPECT_EQ(gradients_.sparse[0][0]._indices()[0][0].item<std::int64_t>(), 4);
}

TEST_F(MessageReaderTest, RowsThatTheTableDoesNotHaveAreRefused) {
  for (const std::int64_t row : {kRows, std::int64_t{-1}, std::int64_t{1} << 40})
    EXPECT_THROW(read(two_rows(2, row)), RunError) << row;
}

TEST_F(MessageReaderTest, ACountIsNotBelieved) {
  for (const std::int64_t count : {std::int64_t{6}, std::int64_t{1} << 60})
    EXPECT_THROW(read(two_rows(count, 0)), RunError) << count;
}

}  // namespace
}  // namespace tandem::sync
