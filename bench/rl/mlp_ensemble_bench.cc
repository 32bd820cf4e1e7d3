// Question: at which rate does one core make the products of an off-policy update, in fused kernels and with autograd,
// for two critics forward and backward and for a whole update of SAC, and what do LibTorch's own product of matrices
// and the core's registers reach?
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <iostream>
#include <string>

#include "bench/rl/beside_autograd.h"
#include "bench/rl/sac_update.h"
#include "tandem/base/text.h"

namespace tandem::bench {
namespace {

// A product of square matrices that LibTorch hands to its BLAS.
class Product {
 public:
  explicit Product(std::int64_t units)
      : a_(at::randn({units, units})), b_(at::randn({units, units})), c_(at::empty({units, units})) {}
  // Multiply-adds a second.
  double rate() {
    const double seconds = seconds_of([this] { at::mm_out(c_, a_, b_); });
    return std::pow(static_cast<double>(a_.size(0)), 3) / seconds;
  }

 private:
  at::Tensor a_, b_, c_;
};

template <typename Fused, typename Definition>
void measure(const std::string& name, double multiply_adds, std::int64_t units, Size size, const Fused& fused,
             const Definition& definition) {
  Product product(units);
  std::vector<double> products;
  measure_in_turn(name, multiply_adds, size, fused, definition,
                  [&] { products.push_back(multiply_adds / product.rate()); });
  print_rate(name, "mm", multiply_adds, products);
}

double largest_gap(const SacUpdate& a, const SacUpdate& b) {
  const std::vector<at::Tensor> of_a = a.parameters(), of_b = b.parameters();
  double gap = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) gap = std::max(gap, (of_a[i] - of_b[i]).abs().max().item<double>());
  return gap;
}

int run_case(const SacSizes& sizes, Size size) {
  const std::string name = concat(sizes.hidden[0], "x", sizes.hidden[1], ", ", sizes.rows, " rows");
  at::manual_seed(1);
  SacUpdate update(sizes);
  at::manual_seed(1);
  SacUpdate definition(sizes);
  for (int i = 0; i < 3; ++i) {
    const double fused = update.fuse(), expected = definition.differentiate();
    if (!(std::abs(fused - expected) < 1e-4 * std::max(1.0, expected))) {
      std::cerr << name << ": the loss is " << fused << " in kernels and " << expected << " with autograd\n";
      return 1;
    }
  }
  // Adam turns a gradient near zero into a step of the learning rate, whichever its sign.
  if (const double gap = largest_gap(update, definition); !(gap < 2e-3)) {
    std::cerr << name << ": parameters differ by " << gap << " from autograd's after three updates\n";
    return 1;
  }
  measure(
      concat("critics ", name), update.multiply_adds_of_critics(), sizes.hidden[0], size,
      [&] { update.fuse_critics(); }, [&] { definition.differentiate_critics(); });
  measure(
      concat("update ", name), update.multiply_adds(), sizes.hidden[0], size, [&] { update.fuse(); },
      [&] { definition.differentiate(); });
  return 0;
}

int run_all(Size size) {
  at::set_num_threads(1);
  int wrong = 0;
  for (const SacSizes& each : {SacSizes{17, 6, 256, {256, 256}}, SacSizes{17, 6, 128, {256, 256}},
                               SacSizes{3, 1, 256, {64, 64}}, SacSizes{3, 1, 128, {64, 64}}}) {
    wrong |= run_case(each, size);
  }
  return wrong;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run_all); }
