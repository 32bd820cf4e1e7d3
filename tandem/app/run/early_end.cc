// Handlers of exit() run in the opposite order of their registration, so each object registers one: it then comes
// before the destructors of static objects that existed by then, whose state the last acts may need.
#include "tandem/app/run/early_end.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <list>
#include <optional>
#include <string_view>

#include "tandem/app/exit_code.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr int kRunFailed = static_cast<int>(ExitCode::kRunFailed);
constexpr unsigned kPatience = 10;  // seconds that the last acts get

using LastAct = std::function<void(const std::string&)>;

struct LastActs {
  Mutex mutex;
  std::list<LastAct> all TANDEM_GUARDED_BY(mutex);
  pid_t process = 0;
  std::terminate_handler before = nullptr;
  std::atomic<bool> has_begun{false};
  pthread_t thread{};  // that has begun them
};
LastActs& last_acts() {
  static auto* const it = new LastActs;  // never destroyed: it is used while static objects are
  return *it;
}

bool is_armed() {
  LastActs& acts = last_acts();
  const MutexLock lock(acts.mutex);
  return !acts.all.empty() && acts.process == ::getpid();
}

// The library whose code is the first on this thread's stack behind that of the C and C++ runtime and of LibTorch,
// which only pass on; nothing where it is the program itself.
std::optional<std::string> library_on_stack() {
  constexpr std::array<std::string_view, 8> kRuntime{"libc.so",     "libstdc++", "libgcc_s", "libm.so",
                                                     "libpthread.", "libtorch",  "libc10",   "ld-linux"};
  std::array<void*, 64> frames{};
  const int depth = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info own{};
  ::dladdr(reinterpret_cast<void*>(&library_on_stack), &own);
  bool is_beyond_handlers = false;
  for (int i = 0; i < depth; ++i) {
    Dl_info found{};
    // The address before: a call that does not return may be the last instruction of its function.
    if (::dladdr(static_cast<char*>(frames[static_cast<std::size_t>(i)]) - 1, &found) == 0) continue;
    const std::string_view path = found.dli_fname;
    const std::string_view name = path.substr(path.rfind('/') + 1);
    if (found.dli_fbase == own.dli_fbase) {
      if (is_beyond_handlers) return std::nullopt;
      continue;
    }
    is_beyond_handlers = true;
    if (std::ranges::any_of(kRuntime, [name](std::string_view its) { return name.starts_with(its); })) continue;
    return std::string(path);
  }
  return std::nullopt;
}

void write_line(const std::string& line) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// Calls the last acts once. A second thread that ends the process waits for the first one to do so.
void begin_last_acts(const std::string& why) {
  LastActs& acts = last_acts();
  if (acts.has_begun.exchange(true)) {
    if (::pthread_equal(acts.thread, ::pthread_self()) != 0) ::_exit(kRunFailed);  // one of the acts has failed so
    while (true) ::pause();
  }
  acts.thread = ::pthread_self();
  std::signal(SIGALRM, [](int) { ::_exit(kRunFailed); });
  ::alarm(kPatience);
  std::list<LastAct> all;
  {
    const MutexLock lock(acts.mutex);
    all = acts.all;
  }
  write_line(concat("tandem: failed: ", why, "\n"));
  for (const LastAct& act : all) {
    try {
      if (act) act(why);
    } catch (const std::exception& error) {
      write_line(concat("tandem: that the run failed could not be recorded: ", error.what(), "\n"));
    }
  }
}

void on_exit_called(int code, void*) {
  if (!is_armed()) return;
  const std::optional<std::string> library = library_on_stack();
  begin_last_acts(concat(library ? concat("the library ", *library) : "this program's own code", " called exit(", code,
                         "), which ends the whole process and the run with it; what should end only its own work, such "
                         "as an environment's step(), must throw instead"));
  ::_exit(kRunFailed);
}

std::string text_of_current_exception() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something that is no std::exception";
  }
  return "std::terminate() was called without an exception";
}

[[noreturn]] void on_terminate() {
  if (is_armed()) {
    const std::optional<std::string> library = library_on_stack();
    begin_last_acts(concat("an exception left a thread, which ends the process; it came from ",
                           library ? concat("the library ", *library) : "this program's own code", ": ",
                           text_of_current_exception()));
    if (library) ::_exit(kRunFailed);
  }
  ::alarm(0);
  if (last_acts().before != nullptr) last_acts().before();
  std::abort();
}

}  // namespace

EarlyEnd::EarlyEnd(std::function<void(const std::string& why)> last_act) {
  LastActs& acts = last_acts();
  const MutexLock lock(acts.mutex);
  acts.process = ::getpid();
  acts.all.push_back(std::move(last_act));
  ::on_exit(on_exit_called, nullptr);
  if (acts.before != nullptr) return;
  ::at_quick_exit([] { on_exit_called(0, nullptr); });
  acts.before = std::set_terminate(on_terminate);
}

EarlyEnd::~EarlyEnd() {
  LastActs& acts = last_acts();
  // The last acts use what the caller is about to destroy, and the process ends with them.
  while (acts.has_begun && acts.process == ::getpid()) ::pause();
  const MutexLock lock(acts.mutex);
  acts.all.pop_back();
}

}  // namespace tandem::app
