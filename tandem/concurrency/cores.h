// concurrency/cores.h: how much of the machine's processor time this process may use, and where.
//
// Three things limit it: the machine's cores, the cores that the process is bound to (taskset, a container's cpuset),
// and a quota of processor time (`cpu.max`, or `cpu.cfs_quota_us` of version 1), which a container with half a core has
// on any number of cores.
//
//   const int replicas = usable_cores().whole();
//
// Threads: all. Blocks on nothing but reading the kernel's files.
#pragma once
#include <sched.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/concurrency/control_groups.h"

namespace tandem {

struct UsableCores {
  int bound = 1;                                           // cores that this process may run on
  double quota = std::numeric_limits<double>::infinity();  // cores' worth of time; infinity where nothing limits it

  /// How many threads can compute at the same time without waiting for each other's core or for more time: a quota is
  /// rounded, halves up, as 1.5 cores are better used by two threads. At least 1.
  [[nodiscard]] int whole() const;
  /// "2 cores", or "0.5 of 2 cores (a quota of processor time)".
  [[nodiscard]] std::string describe() const;
};

/// What this process may use now. Reads the limits anew at each call.
[[nodiscard]] UsableCores usable_cores(const KernelFiles& files = {});
/// The same, as it was at the first call: limits of a process seldom change, and waits ask often.
[[nodiscard]] const UsableCores& usable_cores_at_start();

/// The numbers of "0-2,5,7-8": 0, 1, 2, 5, 7, 8, as the kernel writes sets of cores. Empty for a text that is no set.
[[nodiscard]] std::vector<int> cores_in(std::string_view text);

/// The cores of each NUMA node that this process may run on, by node; nodes without such a core are left out. Empty
/// where the machine does not tell, or has one node only: then there is nothing to choose.
[[nodiscard]] std::vector<std::vector<int>> cores_by_node(const cpu_set_t& bound, const KernelFiles& files = {});

/// Where each of `threads` threads may run so that those next to each other share a node: thread t gets the cores of
/// node t * nodes / threads. Empty where it matters to nobody: with one node, or with fewer threads than nodes, which
/// would leave a node's cores to nobody.
[[nodiscard]] std::vector<std::vector<int>> nodes_of_threads(int threads, const std::vector<std::vector<int>>& nodes);

/// Binds the calling thread to `cores`. What it first touches from now on lies in their node's memory. Returns false
/// where the system refuses, which costs speed only.
bool bind_this_thread(const std::vector<int>& cores);

}  // namespace tandem
