// app/run/early_end.h: when a library of the process ends it in the middle of its work, by exit(), quick_exit() or an
// exception that leaves a thread, this is a failure that says whose it is, and no end with exit code 0.
//
//   const EarlyEnd early([&](const std::string& why) { record.failed(why); });
//   ... work ...
//
// While an object lives, exit() ends the process with code 3 after a message on standard error that names the library
// which called it, and std::terminate() does the same where another library's exception came to it. An exception of the
// program's own is a defect, and ends the process as it would without an object, after the same last acts. Nothing in
// the process notices _exit(): a launcher does (base/last_word.h), and without one the run's status stays "running".
//
// Threads: objects are made and destroyed on one thread, in the order of a stack. Last acts run on the thread that
// called exit() while all others go on. Blocking: last acts get 10 s together; then the process ends without the rest.
// A child of fork() is not concerned. The first object takes over the handler of std::terminate() for good.
#pragma once
#include <functional>
#include <string>

namespace tandem::app {

class EarlyEnd {
 public:
  /// `last_act` gets the reason; what it throws is passed over. Those of older objects come first. An empty one does
  /// nothing.
  explicit EarlyEnd(std::function<void(const std::string& why)> last_act = {});
  /// Does not return while another thread ends the process: its last acts use what is about to be destroyed.
  ~EarlyEnd();
  EarlyEnd(const EarlyEnd&) = delete;
  EarlyEnd& operator=(const EarlyEnd&) = delete;
};

}  // namespace tandem::app
