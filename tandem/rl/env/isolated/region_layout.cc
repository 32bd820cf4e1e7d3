#include "tandem/rl/env/isolated/region_layout.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// Deals out the memory, in steps of a cache line. Sizes come from specs, so sums are bounded before they are made.
class Dealer {
 public:
  explicit Dealer(std::string id) : id_(std::move(id)) {}

  [[nodiscard]] std::uint64_t take(std::uint64_t rows, std::uint64_t row_bytes) {
    const std::uint64_t begin = end_;
    if (row_bytes > kMostRegionBytes / rows) refuse();
    end_ += (rows * row_bytes + 63) / 64 * 64;
    if (end_ > kMostRegionBytes) refuse();
    return begin;
  }
  [[nodiscard]] std::uint64_t end() const { return end_; }

 private:
  [[noreturn]] void refuse() const {
    throw ConfigError(concat(id_, ": the arrays of an env group take more than ", kMostRegionBytes >> 30,
                             " GiB, which is the most that a worker process shares; use more shards, or fewer "
                             "environments"));
  }

  const std::string id_;
  std::uint64_t end_ = 0;
};

}  // namespace

RegionLayout layout_of(const Spec& spec, int environments, std::uint32_t spin_ns) {
  if (environments < 1) throw ConfigError(concat("a group of ", environments, " environments; it needs at least 1"));
  const auto rows = static_cast<std::uint64_t>(environments);
  const bool is_box = std::holds_alternative<Box>(spec.action);
  RegionLayout layout;
  RegionTable& table = layout.table;
  table.environments = static_cast<std::uint32_t>(environments);
  table.leaves = static_cast<std::uint32_t>(spec.observation.size());
  table.action_type = number_of(is_box ? ElementType::kFloat32 : ElementType::kInt64);
  table.action_elements = static_cast<std::uint32_t>(action_elements(spec.action));
  table.mask_elements = spec.has_action_mask ? static_cast<std::uint32_t>(mask_elements(spec.action)) : 0;
  table.metrics = static_cast<std::uint32_t>(spec.metrics.size());
  table.spin_ns = spin_ns;
  Dealer dealer(spec.id);
  (void)dealer.take(1, sizeof(RegionHeader));
  (void)dealer.take(1, sizeof(LeafEntry) * spec.observation.size());
  table.actions = dealer.take(rows, table.action_elements * std::uint64_t{is_box ? 4U : 8U});
  table.reward = dealer.take(rows, sizeof(double));
  table.terminated = dealer.take(rows, 1);
  table.truncated = dealer.take(rows, 1);
  table.mask = dealer.take(rows, table.mask_elements);
  table.metric_values = dealer.take(rows, table.metrics * sizeof(double));
  for (std::uint64_t* array : {&table.seeds, &table.failures, &table.start_seeds})
    *array = dealer.take(rows, sizeof(std::uint64_t));
  for (const Leaf& leaf : spec.observation) {
    LeafEntry entry{.type = number_of(leaf.type), .row_bytes = leaf.bytes()};
    entry.observation = dealer.take(rows, entry.row_bytes);
    entry.final_observation = dealer.take(rows, entry.row_bytes);
    layout.leaves.push_back(entry);
  }
  table.window = dealer.take(1, kWindowBytes);
  table.bytes = dealer.end();
  return layout;
}

RegionLayout bare_layout() {
  RegionLayout layout;
  layout.table.environments = 1;
  Dealer dealer("the spec of an environment");
  (void)dealer.take(1, sizeof(RegionHeader));
  layout.table.window = dealer.take(1, kWindowBytes);
  layout.table.bytes = dealer.end();
  return layout;
}

}  // namespace tandem::rl
