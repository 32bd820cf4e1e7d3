// model/shard_random.h: the random stream of the shard that the calling thread works on.
//
// Threads share torch's default generator, so numbers drawn from it depend on the topology. A replica holds one
// generator a shard; while a ShardRandomScope is alive, current_generator() on that thread is the shard's.
// tandem::nn::Dropout and the random operations of a loss read it. When there is more than one shard and the default
// generator moved within a Scope, it says so, and the learner makes that an error (RngOrder::kShards) or lets it be
// (kUnordered).
//
// Generators are CPU ones: numbers for another device are drawn on the CPU and copied, so they do not depend on it. The
// default generators of other devices are not watched.
// Threads: a generator serves one thread at a time; a scope belongs to the thread that made it.
#pragma once
#include <ATen/core/Generator.h>

#include <cstdint>

namespace tandem::model {

enum class RngOrder { kShards, kUnordered };

/// The generator of the shard that this thread is working on, or the default CPU generator outside of any Scope.
[[nodiscard]] at::Generator current_generator();

/// Makes `generator` current on this thread until the end of the scope. Scopes nest.
class ShardRandomScope {
 public:
  explicit ShardRandomScope(at::Generator generator);
  ~ShardRandomScope();
  ShardRandomScope(const ShardRandomScope&) = delete;
  ShardRandomScope& operator=(const ShardRandomScope&) = delete;
  /// Whether torch's default CPU generator moved since the scope began (by this thread or another).
  [[nodiscard]] bool default_generator_moved() const;

 private:
  at::Generator previous_;
  std::uint64_t mark_;
};

/// Seeds a CPU generator from all 64 bits; at::Generator::set_current_seed() uses the low 32 only. Forgets any number
/// that was left over.
void seed_generator(at::Generator& generator, std::uint64_t seed);

/// A CPU generator seeded for (run seed, shard); equal arguments give equal streams, different ones independent
/// streams.
[[nodiscard]] at::Generator make_shard_generator(std::uint64_t run_seed, int shard);

}  // namespace tandem::model
