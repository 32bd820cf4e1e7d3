#include "tandem/model/init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <span>

#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/model/orthonormal_rows.h"
#include "tandem/model/shard_random.h"

namespace tandem::model {
namespace {

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
  orthonormalise_rows(std::span(vectors.mutable_data_ptr<double>(), static_cast<std::size_t>(count * length)),
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
