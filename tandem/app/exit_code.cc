#include "tandem/app/exit_code.h"

#include <c10/util/Exception.h>

#include <new>
#include <string_view>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

Failure defect(const std::string& what) {
  return {ExitCode::kDefect,
          concat("tandem: a defect of tandem; please report it with the command and these lines:\n", what, "\n")};
}

Failure out_of_memory(const std::string& detail) {
  return {ExitCode::kRunFailed,
          concat("tandem: failed: the system has no more memory to give; use fewer environments, shorter "
                 "rollouts, smaller layers, or a machine with more",
                 detail.empty() ? "" : " (", detail, detail.empty() ? "" : ")", "\n")};
}

// LibTorch gives a CPU allocation that fails no type of its own, so this, alone, looks at a text.
bool is_out_of_memory(const c10::Error& error) {
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         std::string_view(error.what_without_backtrace()).find("can't allocate memory") != std::string_view::npos;
}

// The sentence about what could not be had, without the place in LibTorch's source.
std::string allocation_of(const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  const std::size_t begin = text.find("you tried to allocate");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_first_of(".\n", begin) - begin);
}

}  // namespace

// The order of the handlers matters: an error of the project comes before the standard class that it derives from, and
// c10::Error and system_error before std::exception.
Failure describe_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError& fault) {
    return {ExitCode::kUserCanFixIt, concat("tandem: ", fault.what(), "\n")};
  } catch (const RunError& failure) {
    return {ExitCode::kRunFailed, concat("tandem: failed: ", failure.what(), "\n")};
  } catch (const std::bad_alloc&) {
    return out_of_memory("");
  } catch (const c10::Error& thrown) {
    return is_out_of_memory(thrown) ? out_of_memory(allocation_of(thrown)) : defect(thrown.what());
  } catch (const std::system_error& failure) {  // of files, sockets and threads
    return {ExitCode::kRunFailed, concat("tandem: failed: ", failure.what(), "\n")};
  } catch (const std::exception& other) {
    return defect(other.what());
  } catch (...) {
    return defect("an exception that is no std::exception");
  }
}

}  // namespace tandem::app
