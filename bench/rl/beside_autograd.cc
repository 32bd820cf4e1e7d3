#include "bench/rl/beside_autograd.h"

namespace tandem::bench {

void print_rate(const std::string& name, const std::string& contender, double multiply_adds,
                std::vector<double> seconds) {
  const Samples samples(std::move(seconds));
  const double billions = 2 * multiply_adds / 1e9;
  print({.case_name = name,
         .contender = contender,
         .unit = "GFLOP/s",
         .value = billions / samples.quantile(0.5),
         .p99 = billions / samples.quantile(0.99),
         .samples = samples.size()});
}

}  // namespace tandem::bench
