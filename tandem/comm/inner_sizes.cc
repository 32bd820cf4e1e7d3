#include "tandem/comm/inner_sizes.h"

#include <algorithm>
#include <utility>

#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

constexpr int kMostNamed = 8;

std::string ranks(int begin, int end) {
  return end - begin == 1 ? concat("rank ", begin) : concat("ranks ", begin, " to ", end - 1);
}

}  // namespace

InnerSizes::InnerSizes(std::vector<int> sizes) : sizes_(std::move(sizes)), begins_{0} {
  for (const int size : sizes_) begins_.push_back(begins_.back() + size);
}

int InnerSizes::largest() const { return *std::max_element(sizes_.begin(), sizes_.end()); }

int InnerSizes::part_of(int rank) const {
  return static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), rank) - begins_.begin()) - 1;
}

std::string InnerSizes::describe(int part) const {
  if (sizes_.empty()) return "while the groups met, within one: ";
  return concat("within the group of ", ranks(begin(part), begin(part) + of(part)), ", counted from 0 here: ");
}

std::string InnerSizes::describe_all() const {
  if (sizes_.empty()) return "while the groups met: ";
  std::string text = "between the groups of ";
  for (int part = 0; part < std::min(parts(), kMostNamed); ++part)
    text += concat(part == 0 ? "" : "; ", ranks(begin(part), begin(part) + of(part)));
  return concat(text, parts() > kMostNamed ? "; and so on" : "", ", counted from 0 here: ");
}

}  // namespace tandem::comm
