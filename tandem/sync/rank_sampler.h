// sync/rank_sampler.h: which rows of a data set each rank trains on, as a sampler of torch::data.
//
//     sync::RankSampler sampler(dataset.size().value(), world.rank, world.size);
//     auto loader = torch::data::make_data_loader(dataset, sampler, /*batch_size=*/32);
//
// An epoch has every row exactly once, over all ranks. Its rows are shuffled, in the same order on all ranks, and cut
// into steps of batch size x ranks rows, each of which the ranks divide among themselves as evenly as possible. So one
// rank with a batch size of 96 and three with 32 see the same rows in the same step. The last step of an epoch has what
// is left; a rank may have no row in it, and its loader ends one step earlier than the others': it calls
// DataParallel::skip() in that step (steps() says how many there are).
//
// (torch::data::samplers::DistributedRandomSampler repeats rows, or leaves some out, where they do not divide.)
//
// Threads: single-thread, the loader's. Blocking: nothing. Errors: ConfigError for impossible numbers.
#pragma once
#include <torch/data/samplers/base.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::sync {

class RankSampler final : public torch::data::samplers::Sampler<> {
 public:
  enum class Order { kShuffled, kAsTheyAre };

  /// `rows`: of the data set. The first epoch is number `first_epoch`, each reset() after it the next; the order of an
  /// epoch depends on `seed` and its number alone, so a resumed run gives the epoch at which it goes on.
  RankSampler(std::size_t rows, int rank, int ranks, std::uint64_t seed = 0, std::size_t first_epoch = 0,
              Order order = Order::kShuffled);

  /// Begins the next epoch; a data loader calls it before each, also before the first.
  void reset(std::optional<std::size_t> rows = std::nullopt) override;
  /// This rank's rows of the next step; none when it has no further ones in this epoch.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  /// Steps of an epoch, the same on all ranks.
  [[nodiscard]] static std::size_t steps(std::size_t rows, int ranks, std::size_t batch_size);

  /// The number of the epoch under way.
  [[nodiscard]] std::size_t epoch() const { return epoch_; }
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void shuffle();

  std::size_t rows_;
  int rank_, ranks_;
  std::uint64_t seed_;
  std::size_t epoch_;
  Order order_;
  std::vector<std::size_t> all_;  // the rows of all ranks, in the epoch's order
  std::size_t taken_ = 0;         // of them, by the steps that are over
  enum class Stage { kNew, kRunning } stage_ = Stage::kNew;
};

}  // namespace tandem::sync
