// base/budget.h: bounds on what data from outside may cost the one who reads it.
//
//   Budget budget({.bytes = 64 << 20, .items = 1'000'000, .depth = 64}, [this](const std::string& why) { fail(why); });
//   budget.take_items(1);
//   const Budget::Level level = budget.enter();  // left at the end of the scope
//
// A file can be small and still ask for a lot: by nesting, by references that multiply, by sizes that are only claimed.
// So a decoder counts what it is about to build or to look at, before it does, and stops at the first bound that is
// passed. Counts are used instead of times, so that a file is read or refused alike on every machine; the work of every
// decoder is in proportion to its counts.
//
// Threads: single-thread. Errors: whatever the `refuse` of the constructor throws, with a sentence that names the bound
// and its number; DataError where the constructor was given none.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {

/// The most that one piece of data may cost. A bound that is not given is no bound.
struct Bounds {
  std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t items = std::numeric_limits<std::uint64_t>::max();
  int depth = std::numeric_limits<int>::max();
  const char* item = "values";  // the word of messages for what `items` counts
};

class Budget {
 public:
  /// Throws an error with the sentence `why` in it. It must not return.
  using Refuse = std::function<void(const std::string& why)>;

  explicit Budget(
      Bounds bounds, Refuse refuse = [](const std::string& why) { throw DataError(why); })
      : bounds_(bounds), refuse_(std::move(refuse)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Counts bytes that will be read or allocated. Throws when the bound is passed.
  void take_bytes(std::uint64_t count) {
    if (count > bounds_.bytes - bytes_) refuse_(concat("it needs more than ", bounds_.bytes, " bytes of memory"));
    bytes_ += count;
  }
  /// Counts items that will be read or made. Throws when the bound is passed.
  void take_items(std::uint64_t count = 1) {
    if (count > bounds_.items - items_) refuse_(concat("it holds more than ", bounds_.items, " ", bounds_.item));
    items_ += count;
  }

  /// Goes one level deeper, for decoders that are told of beginnings and ends. Throws when the bound is passed; the
  /// depth is then as before.
  void descend() {
    if (depth_ >= bounds_.depth) refuse_(concat("it is nested more than ", bounds_.depth, " levels deep"));
    ++depth_;
  }
  void ascend() { --depth_; }

  /// One level of nesting, which ends with the scope that holds it.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) { budget_.descend(); }
    ~Level() { budget_.ascend(); }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };
  /// descend(), until the scope that holds the level ends.
  [[nodiscard]] Level enter() { return Level(*this); }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t items() const { return items_; }

 private:
  const Bounds bounds_;
  const Refuse refuse_;
  std::uint64_t bytes_ = 0, items_ = 0;
  int depth_ = 0;
};

}  // namespace tandem
