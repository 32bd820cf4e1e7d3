#include "tandem/concurrency/failures.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"

namespace tandem {
namespace {

// Whether the member failed only because another one had failed before.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const GroupAborted&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Failures::add(std::string member, std::exception_ptr error) {
  MutexLock lock(mutex_);
  failures_.push_back({std::move(member), std::move(error)});
}

void Failures::clear() {
  MutexLock lock(mutex_);
  failures_.clear();
}

bool Failures::empty() const {
  MutexLock lock(mutex_);
  return failures_.empty();
}

std::vector<Failures::Failure> Failures::all() const {
  MutexLock lock(mutex_);
  return failures_;
}

void Failures::rethrow() const {
  const std::vector<Failure> failures = all();
  if (failures.empty()) return;
  const auto cause =
      std::find_if(failures.begin(), failures.end(), [](const Failure& f) { return !is_consequence(f.error); });
  std::rethrow_exception(cause != failures.end() ? cause->error : failures.front().error);
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace tandem
