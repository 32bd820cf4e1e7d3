// pipeline/published.h: the newest version of a value, from one writer to many readers that never wait for each other.
//
//   published.publish(step, [&](Weights& memory) { copy(parameters, memory); });      // the learner
//   const auto weights = published.read(); use(weights.value()); tag(weights.version());   // a rollout worker
//
// Readers hold no lock while they read, and the writer never waits for them: it writes into a copy that nobody reads.
//
// Threads: publish() may be called by one thread at a time, read() and version() by any.
// Ownership: the constructor makes all copies, more than there can be readings. A reading keeps its value as it is
// until the reading is destroyed, which must be before this object is. Errors: InvariantError when more readings are
// alive than were announced, or a version goes back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/mutex.h"

namespace tandem::pipeline {

/// `T`: the value; publish() overwrites it in place, so its memory is made once.
template <typename T>
class Published {
  /// `readings`: readers that hold this copy. The writer never takes a copy with readers, nor the newest one.
  struct Copy {
    T value;
    std::int64_t version = 0;
    int readings = 0;
  };

 public:
  /// A reader's hold on one version. It must be destroyed before its Published is; it can be moved, not copied.
  class Reading {
   public:
    Reading(Reading&& other) noexcept
        : all_(std::exchange(other.all_, nullptr)), copy_(other.copy_), version_(other.version_) {}
    Reading& operator=(Reading&&) = delete;
    ~Reading() {
      if (all_ == nullptr) return;
      MutexLock lock(all_->mutex_);
      --copy_->readings;
    }
    /// Reads without the lock: nobody writes this copy while the reading lives.
    [[nodiscard]] const T& value() const { return copy_->value; }
    /// The newest version; another one may be published by the time the caller looks at the answer.
    [[nodiscard]] std::int64_t version() const { return version_; }

   private:
    friend class Published;
    Reading(Published* all, Copy* copy) : all_(all), copy_(copy), version_(copy->version) {}
    Published* all_;
    Copy* copy_;
    std::int64_t version_;
  };

  /// `make()` gives memory for one value; the first one is published as version 0. `readings`: the most at a time.
  template <typename Make>
  Published(int readings, const Make& make) {
    TANDEM_CHECK(readings > 0);
    for (int i = 0; i < readings + 2; ++i) copies_.push_back(Copy{.value = make()});  // one newest, one to write
  }

  /// Makes what `fill(T&)` writes the newest. Readers that come meanwhile get the one before.
  template <typename Fill>
  void publish(std::int64_t version, const Fill& fill) {
    const std::size_t free = take_free(version);
    fill(copies_[free].value);
    MutexLock lock(mutex_);
    copies_[free].version = version;
    newest_ = free;
  }

  /// Returns the newest value, which stays as it is while the reading lives.
  [[nodiscard]] Reading read() {
    MutexLock lock(mutex_);
    ++copies_[newest_].readings;
    return Reading(this, &copies_[newest_]);
  }
  [[nodiscard]] std::int64_t version() const {
    MutexLock lock(mutex_);
    return copies_[newest_].version;
  }

 private:
  // Finds a copy to write. With `readings` readers at most, one of readings + 2 copies is always free.
  std::size_t take_free(std::int64_t version) const {
    MutexLock lock(mutex_);
    TANDEM_CHECK(version >= copies_[newest_].version, "version ", version, " after ", copies_[newest_].version);
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      if (i != newest_ && copies_[i].readings == 0) return i;
    }
    fail_check("a free copy", __FILE__, __LINE__, "more readings than announced");
  }

  mutable Mutex mutex_;
  // The mutex guards versions and readings. Values belong to the writer or to readers, without it.
  std::vector<Copy> copies_;
  std::size_t newest_ TANDEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::pipeline
