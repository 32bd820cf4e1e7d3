// A program of another project, with LibTorch: the norm of a small vector, from the library's own sum.
#include <ATen/ops/arange.h>
#include <tandem/base/error.h>
#include <tandem/model/norm.h>
#include <tandem/rl/env/spec.h>

#include <cmath>
#include <cstdio>

int main() {
  const double squares = tandem::model::sum_of_squares(at::arange(1, 4, at::kFloat));
  const bool faulty = !tandem::rl::spec_faults(tandem::rl::Spec{}).empty();
  std::printf("sum of squares %g, an empty spec is %s\n", squares, faulty ? "faulty" : "accepted");
  return squares == 14 && faulty ? 0 : 1;
}
