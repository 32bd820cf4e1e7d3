// rl/env/wrappers/leaf_map.h: wrappers that show a leaf otherwise, each row by itself: in grey, smaller, scaled.
//
// A leaf that stays as it is costs nothing: the inner group writes it to the caller's arrays. The others it writes to
// memory of the wrapper's.
// Threads: single-thread, as every EnvGroup.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/rl/env/wrappers/env_wrapper.h"

namespace tandem::rl {

/// How rows of one leaf are shown.
class LeafMap {
 public:
  virtual ~LeafMap() = default;
  /// Writes what is shown of a row. May use memory that the object has taken when it was made.
  virtual void show(const std::byte* own, std::byte* shown) = 0;
};

/// What a wrapper does to leaves.
struct LeafChange {
  std::string name;  // the wrapper's
  /// Why a leaf cannot be changed: "is float32[4], no image"; empty where it can.
  std::function<std::string(const Leaf& own)> why_not;
  /// The leaf as it is shown, of one that can be changed; and the map that shows it.
  std::function<Leaf(const Leaf& own)> shown;
  std::function<std::unique_ptr<LeafMap>(const Leaf& own)> map;
};

/// A wrapper that changes the leaf called `leaf`, or, where that is empty, all leaves that can be changed. spec_of()
/// throws ConfigError where there is none.
[[nodiscard]] EnvWrapper leaf_wrapper(LeafChange change, std::string leaf);

/// Whether each leaf of `spec` is chosen, with the reasons as above. `name` is that of a leaf, or empty.
[[nodiscard]] std::vector<bool> chosen_leaves(const Spec& spec, const std::string& name,
                                              const std::function<std::string(const Leaf&)>& why_not);

/// The bounds of an element. Where the leaf has none, they are 0 and 255 of uint8, and infinite of other types.
[[nodiscard]] ValueRange bounds_of(const Leaf& leaf, std::size_t element);

/// A frame of a leaf that is a stack of so many: zeros, or what is nearest to them within the bounds.
[[nodiscard]] std::vector<std::byte> zero_frame(const Leaf& leaf, std::size_t frames);

}  // namespace tandem::rl
