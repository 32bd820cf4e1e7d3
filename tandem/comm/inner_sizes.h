// comm/inner_sizes.h: how many members each inner group of a layered group has, and the ranks that follow from it.
//
// Threads: all, for reading.
#pragma once
#include <string>
#include <vector>

namespace tandem::comm {

class InnerSizes {
 public:
  /// Not known yet.
  InnerSizes() = default;
  explicit InnerSizes(std::vector<int> sizes);

  [[nodiscard]] int parts() const { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] int of(int part) const { return sizes_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] int largest() const;
  /// Members of all parts.
  [[nodiscard]] int all() const { return begins_.empty() ? 0 : begins_.back(); }
  /// The first rank of a part; while nothing is known, the part itself.
  [[nodiscard]] int begin(int part) const { return begins_.empty() ? part : begins_[static_cast<std::size_t>(part)]; }
  /// The part that has the rank.
  [[nodiscard]] int part_of(int rank) const;

  /// Before a message of a part, or of the parts' leaders, which counts their ranks from 0.
  [[nodiscard]] std::string describe(int part) const;
  [[nodiscard]] std::string describe_all() const;

 private:
  std::vector<int> sizes_, begins_;
};

}  // namespace tandem::comm
