// bench/forked_ranks.h: ranks that are processes of this program, for benches that measure between them.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tandem::bench {

/// Forks `ranks` processes, runs `work` in each, and returns the numbers that each rank's gave. Waits for all to end;
/// they die with the process that forked them. What `work` throws is printed. Throws RunError naming `what` and the
/// ranks when some fail. No other thread may run in this process.
[[nodiscard]] std::vector<std::vector<double>> run_forked(const std::string& what, int ranks,
                                                          const std::function<std::vector<double>(int rank)>& work);

}  // namespace tandem::bench
