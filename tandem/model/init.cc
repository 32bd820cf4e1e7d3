#include "tandem/model/init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>
#include <span>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/model/shard_random.h"

namespace tandem::model {
namespace {

// Eight partial sums, always the same elements in each, so compilers can use vectors without changing the result.
double dot(std::span<const double> a, std::span<const double> b) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t lane = 0; i < a.size(); ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

void subtract(std::span<double> from, double factor, std::span<const double> what) {
  for (std::size_t i = 0; i < from.size(); ++i) from[i] -= factor * what[i];
}

// Modified Gram-Schmidt over `count` vectors of `length` >= count. A vector that loses most of its length is projected
// a second time, which is enough (Giraud, Langou, Rozloznik 2005). Gaussian vectors give the uniform distribution.
void orthonormalise(std::span<double> vectors, std::size_t count, std::size_t length) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto own = vectors.subspan(i * length, length);
    double before = 0, after = 0;
    do {
      before = std::sqrt(dot(own, own));
      for (std::size_t j = 0; j < i; ++j) {
        const auto other = vectors.subspan(j * length, length);
        subtract(own, dot(own, other), other);
      }
      after = std::sqrt(dot(own, own));
      TANDEM_CHECK(after > 0, "vector ", i, " of ", count, " depends on those before it");
    } while (after < 0.5 * before);
    for (double& value : own) value /= after;
  }
}

// Held by whoever has put a seed into the process-wide default generator.
Mutex& default_generator_mutex() {
  static Mutex mutex;
  return mutex;
}

void fill_uniform(const at::Tensor& tensor, double bound, at::Generator& generator) {
  at::Tensor numbers = at::empty(tensor.sizes(), tensor.options().device(at::kCPU).requires_grad(false));
  tensor.detach().copy_(numbers.uniform_(-bound, bound, generator));
}

}  // namespace

// The smaller side gives the number of vectors, so that as many orthonormal ones as there can be are drawn.
void init_orthogonal(const at::Tensor& weight, double gain, at::Generator& generator) {
  if (weight.dim() < 2) {
    throw ConfigError(concat("orthogonal initial values need a weight of at least two dimensions, this one has shape ",
                             weight.sizes()));
  }
  if (weight.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const std::int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const auto [count, length] = std::minmax(rows, columns);
  at::Tensor vectors = at::empty({count, length}, at::kDouble).normal_(0, 1, generator);
  orthonormalise(std::span(vectors.mutable_data_ptr<double>(), static_cast<std::size_t>(count * length)),
                 static_cast<std::size_t>(count), static_cast<std::size_t>(length));
  const at::Tensor matrix = rows <= columns ? vectors : vectors.t();
  weight.detach().copy_(matrix.mul(gain).reshape(weight.sizes()));
}

void init_uniform_fan_in(const at::Tensor& weight, const at::Tensor& bias, at::Generator& generator) {
  if (weight.dim() < 2 || weight.numel() == 0) {
    throw ConfigError(
        concat("a fan in needs a weight of at least two dimensions, this one has shape ", weight.sizes()));
  }
  const at::NoGradGuard no_grad;
  const double bound = 1 / std::sqrt(static_cast<double>(weight.numel()) / static_cast<double>(weight.size(0)));
  fill_uniform(weight, bound, generator);
  if (bias.defined()) fill_uniform(bias, bound, generator);
}

SeededDefaultGenerator::SeededDefaultGenerator(std::uint64_t seed) TANDEM_NO_THREAD_SAFETY_ANALYSIS {
  default_generator_mutex().lock();  // until the destructor
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  before_ = generator.get_state();
  seed_generator(generator, seed);
}

SeededDefaultGenerator::~SeededDefaultGenerator() TANDEM_NO_THREAD_SAFETY_ANALYSIS {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_state(before_);
  default_generator_mutex().unlock();
}

}  // namespace tandem::model
