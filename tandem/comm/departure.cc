#include "tandem/comm/departure.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <list>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {
namespace {

constexpr const char* kFirstFailure = "first_failure";
constexpr std::size_t kMostBytes = 1000;

thread_local std::string noted;

// The groups that std::terminate() closes, and how each tells its store.
struct Entry {
  std::weak_ptr<Group> group;
  const Group* address = nullptr;
  std::function<void(const std::string& why)> tell;
};
struct Registry {
  Mutex mutex;
  std::list<Entry> entries TANDEM_GUARDED_BY(mutex);
  std::terminate_handler before = nullptr;
};
Registry& registry() {
  static auto* const all = new Registry;  // never destroyed: std::terminate() may come at any time
  return *all;
}

std::function<void(const std::string&)> teller_of(const Group& group) {
  const MutexLock lock(registry().mutex);
  const auto& entries = registry().entries;
  const auto it = std::ranges::find(entries, &group, &Entry::address);
  return it == entries.end() ? std::function<void(const std::string&)>() : it->tell;
}

void leave(Group& group, const std::string& why) noexcept {
  try {
    if (!group.fail(why)) return;
    if (const auto tell = teller_of(group)) tell(why);
  } catch (const std::exception& error) {
    // Nobody is left to be told: the store is gone, or memory is short. The process ends by its own failure.
    (void)error;
  }
}

std::string text_of_current() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& error) {
    return first_lines(error.what());
  } catch (...) {
    return "an exception that is no std::exception";
  }
  return "no exception";
}

[[noreturn]] void on_terminate() {
  leave_all(concat("was ended by std::terminate(): ", text_of_current()));
  if (registry().before != nullptr) registry().before();
  std::abort();
}

std::optional<FirstFailure> read_failure(const std::string& text) {
  constexpr std::string_view kBegin = "rank ";
  if (!text.starts_with(kBegin) || text.size() > kMostBytes + 32) return std::nullopt;
  FirstFailure failure;
  const char* const end = text.data() + text.size();
  const auto [rest, fault] = std::from_chars(text.data() + kBegin.size(), end, failure.rank);
  if (fault != std::errc() || end - rest < 2 || rest[0] != ':' || rest[1] != ' ' || failure.rank < 0)
    return std::nullopt;
  failure.why.assign(rest + 2, end);
  return failure;
}

}  // namespace

void note_failure(const std::string& what) { noted = first_lines(what); }

std::string first_lines(const std::string& what) {
  std::string text = what.substr(0, std::min(what.find("\nException raised from"), what.find("\nframe #")));
  if (text.size() > kMostBytes) text.resize(kMostBytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void leave_by_exception(Group& group) noexcept {
  leave(group,
        noted.empty() ? "left by an exception; what it printed says which" : concat("left by an exception: ", noted));
}

void leave_all(const std::string& why) noexcept {
  constexpr std::chrono::milliseconds kToSend{200};
  std::list<Entry> entries;
  {
    const MutexLock lock(registry().mutex);
    entries = registry().entries;
  }
  for (const Entry& entry : entries) {
    if (const std::shared_ptr<Group> group = entry.group.lock()) leave(*group, why);
  }
  if (!entries.empty()) std::this_thread::sleep_for(kToSend);
}

Departure::Departure(std::shared_ptr<Group> group, std::function<void(const std::string& why)> tell)
    : group_(std::move(group)) {
  const MutexLock lock(registry().mutex);
  if (registry().before == nullptr) registry().before = std::set_terminate(on_terminate);
  registry().entries.push_back({.group = group_, .address = group_.get(), .tell = std::move(tell)});
}

Departure::~Departure() { end(); }

Departure& Departure::operator=(Departure&& other) noexcept {
  if (this == &other) return *this;
  end();
  group_ = std::exchange(other.group_, nullptr);
  return *this;
}

void Departure::end() noexcept {
  if (!group_) return;
  if (under_way_.another()) leave_by_exception(*group_);
  const MutexLock lock(registry().mutex);
  registry().entries.remove_if([&](const Entry& entry) { return entry.address == group_.get(); });
}

FirstFailure tell_first_failure(Store& words, const FirstFailure& mine) {
  const std::string told =
      words.compare_set(kFirstFailure, "", concat("rank ", mine.rank, ": ", first_lines(mine.why)));
  return read_failure(told).value_or(mine);
}

std::optional<FirstFailure> first_failure_of(Store& words) {
  const std::optional<std::string> told = words.find(kFirstFailure);
  return told ? read_failure(*told) : std::nullopt;
}

}  // namespace tandem::comm
