#include "tandem/rl/replay/rate_limiter.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

std::vector<std::string> limiter_faults(const RateLimiterOptions& options) {
  std::vector<std::string> faults;
  const auto need = [&](bool is_right, const auto&... words) {
    if (!is_right) faults.push_back(concat("rate limiter: ", words...));
  };
  need(options.samples_per_insert > 0 && std::isfinite(options.samples_per_insert), "samples_per_insert is ",
       options.samples_per_insert, " and must be above 0");
  need(options.min_rows >= 1, "min_rows is ", options.min_rows, " and must be 1 at least");
  need(options.rows_of_insert >= 1 && options.rows_of_sample >= 1, "one insert is of ", options.rows_of_insert,
       " rows and one draw of ", options.rows_of_sample, "; both must be 1 at least");
  const double least = std::max(static_cast<double>(options.rows_of_sample),
                                static_cast<double>(options.rows_of_insert) * options.samples_per_insert);
  need(options.error_buffer >= least && std::isfinite(options.error_buffer), "error_buffer is ", options.error_buffer,
       " and must be ", least, " at least, or an insert and a draw could wait for each other for ever");
  return faults;
}

WaitOutcome why_not(const Limits& limits) {
  return limits.stop.stop_requested() ? WaitOutcome::kStopped : WaitOutcome::kDeadline;
}

}  // namespace

RateLimiter::RateLimiter(const RateLimiterOptions& options)
    : options_(options),
      least_(static_cast<double>(options.min_rows) * options.samples_per_insert - options.error_buffer),
      most_(static_cast<double>(options.min_rows) * options.samples_per_insert + options.error_buffer) {
  const std::vector<std::string> faults = limiter_faults(options);
  if (!faults.empty()) throw ConfigError(faults);
}

// D of the header.
double RateLimiter::surplus(std::int64_t inserted, std::int64_t sampled) const {
  return static_cast<double>(inserted) * options_.samples_per_insert - static_cast<double>(sampled);
}

bool RateLimiter::may_insert() const {
  const std::int64_t after = counts_.inserted + options_.rows_of_insert;
  return after <= options_.min_rows || surplus(after, counts_.sampled) <= most_;
}

bool RateLimiter::may_sample() const {
  return counts_.inserted >= options_.min_rows &&
         surplus(counts_.inserted, counts_.sampled + options_.rows_of_sample) >= least_;
}

WaitOutcome RateLimiter::insert(const Limits& limits) {
  {
    MutexLock lock(mutex_);
    if (!insertable_.wait(mutex_, limits.stop, limits.deadline,
                          [this]() TANDEM_REQUIRES(mutex_) { return may_insert(); }))
      return why_not(limits);
    counts_.inserted += options_.rows_of_insert;
  }
  sampleable_.notify_all();
  return WaitOutcome::kReady;
}

WaitOutcome RateLimiter::sample(const Limits& limits) {
  {
    MutexLock lock(mutex_);
    if (!sampleable_.wait(mutex_, limits.stop, limits.deadline,
                          [this]() TANDEM_REQUIRES(mutex_) { return may_sample(); }))
      return why_not(limits);
    counts_.sampled += options_.rows_of_sample;
  }
  insertable_.notify_all();
  return WaitOutcome::kReady;
}

bool RateLimiter::try_insert() {
  {
    MutexLock lock(mutex_);
    if (!may_insert()) return false;
    counts_.inserted += options_.rows_of_insert;
  }
  sampleable_.notify_all();
  return true;
}

bool RateLimiter::try_sample() {
  {
    MutexLock lock(mutex_);
    if (!may_sample()) return false;
    counts_.sampled += options_.rows_of_sample;
  }
  insertable_.notify_all();
  return true;
}

RateCounts RateLimiter::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

void RateLimiter::restore(const RateCounts& counts) {
  const double surplus_then = surplus(counts.inserted, counts.sampled);
  const bool is_before_first_draw = counts.sampled == 0 && counts.inserted <= options_.min_rows;
  if (counts.inserted < 0 || counts.sampled < 0 ||
      !(is_before_first_draw || (surplus_then >= least_ && surplus_then <= most_))) {
    throw CheckpointError(concat("rate limiter: ", counts.inserted, " rows inserted and ", counts.sampled,
                                 " drawn cannot come of these options; D is ", surplus_then, " and must be ", least_,
                                 " to ", most_));
  }
  {
    MutexLock lock(mutex_);
    counts_ = counts;
  }
  insertable_.notify_all();
  sampleable_.notify_all();
}

}  // namespace tandem::rl
