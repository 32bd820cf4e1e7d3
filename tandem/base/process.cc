#include "tandem/base/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <sstream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Field 22 is the start in ticks since the boot (proc(5)). Field 2, the program's name in brackets, may hold spaces, so
// counting begins behind the last bracket.
double start_of_this_process() {
  const std::string stat = read_file("/proc/self/stat");
  std::istringstream fields = reader_of(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) throw RunError("/proc/self/stat has no start time: is /proc mounted?");
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};  // Linux host names have up to 64 bytes; the last byte stays zero
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::string process_name() { return concat("process ", ::getpid(), " on ", host_name()); }

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void allow_open_files(std::uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, needed);
  if (limit.rlim_cur == needed && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw RunError(
      concat("this process may have ", before, " open files at a time and needs up to ", needed,
             "; raise the limit (ulimit -n; in a unit of systemd LimitNOFILE=, in docker --ulimit nofile=)"));
}

double peak_rss_mb() {
  static constexpr std::string_view kField = "VmHWM:";
  const std::string status = read_file("/proc/self/status");
  const std::size_t at = status.find(kField);
  double kibibytes = 0;
  if (at == std::string::npos || !(reader_of(status.substr(at + kField.size())) >> kibibytes)) {
    throw RunError("/proc/self/status has no VmHWM: is /proc mounted?");
  }
  return kibibytes * 1024 / 1e6;
}

// A run asks at every update, and that file takes 12 us and more to write, read and understand. A forked process has a
// start of its own.
double seconds_since_process_start() {
  struct Start {
    pid_t process = 0;
    double at = 0;
  };
  thread_local Start start;
  if (const pid_t me = ::getpid(); start.process != me) start = {.process = me, .at = start_of_this_process()};
  return seconds(CLOCK_BOOTTIME) - start.at;
}

BootTime time_since_boot() {
  static const std::string boot = [] {
    std::string text;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
    return text;
  }();
  return {.boot = boot, .seconds = seconds(CLOCK_BOOTTIME)};
}

double thread_cpu_seconds() { return seconds(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace tandem
