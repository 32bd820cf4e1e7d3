#include "tandem/model/shard_random.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <bit>
#include <mutex>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/philox.h"

namespace tandem::model {
namespace {

// The generator that the thread's innermost scope made current; undefined while the thread is in no scope.
at::Generator& generator_of_thread() {
  thread_local at::Generator generator;
  return generator;
}

// A digest of the state that decides the default generator's next numbers. A draw moves `next_`, a refill changes every
// word of the state, and a normal number leaves or takes a spare one.
std::uint64_t default_generator_mark() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::lock_guard lock(generator.mutex());
  const auto state = cpu->engine().data();
  std::uint64_t mark = 0xcbf29ce484222325;
  const auto mix = [&mark](std::uint64_t word) { mark = (mark ^ word) * 0x100000001b3; };
  for (const std::uint64_t word :
       {std::uint64_t{state.next_}, static_cast<std::uint64_t>(state.left_), std::uint64_t{state.state_[0]},
        std::uint64_t{state.state_[1]}, std::uint64_t{state.state_[397]}, std::uint64_t{state.state_[623]}}) {
    mix(word);
  }
  const auto spare = cpu->next_float_normal_sample();
  const auto spare_double = cpu->next_double_normal_sample();
  mix(spare ? std::uint64_t{std::bit_cast<std::uint32_t>(*spare)} + 1 : 0);
  mix(spare_double ? std::bit_cast<std::uint64_t>(*spare_double) + 1 : 0);
  return mark;
}

}  // namespace

at::Generator current_generator() {
  const at::Generator& own = generator_of_thread();
  return own.defined() ? own : at::detail::getDefaultCPUGenerator();
}

ShardRandomScope::ShardRandomScope(at::Generator generator)
    : previous_(std::move(generator_of_thread())), mark_(default_generator_mark()) {
  TANDEM_CHECK(generator.defined(), "a scope needs a generator");
  generator_of_thread() = std::move(generator);
}

ShardRandomScope::~ShardRandomScope() { generator_of_thread() = std::move(previous_); }

bool ShardRandomScope::default_generator_moved() const { return default_generator_mark() != mark_; }

// Writes the whole state of the Mersenne Twister from Philox, which is seeded with all 64 bits.
void seed_generator(at::Generator& generator, std::uint64_t seed) {
  auto* cpu = at::check_generator<at::CPUGeneratorImpl>(generator);
  // As after at::mt19937(seed): used up, so that the first number drawn refills it.
  at::mt19937_data_pod state{seed, /*left_=*/1, /*seeded_=*/true, /*next_=*/0, {}};
  Philox words(seed);
  for (auto& word : state.state_) word = words.next_u32();
  at::mt19937 engine;
  engine.set_data(state);
  const std::lock_guard lock(generator.mutex());
  cpu->set_engine(engine);
  cpu->set_next_float_normal_sample(std::nullopt);
  cpu->set_next_double_normal_sample(std::nullopt);
}

// Streams are independent because derive_seed() hashes run seed, purpose and shard into one seed.
at::Generator make_shard_generator(std::uint64_t run_seed, int shard) {
  at::Generator generator = at::detail::createCPUGenerator();
  seed_generator(generator, derive_seed(run_seed, SeedPurpose::kShard, static_cast<std::uint64_t>(shard)));
  return generator;
}

}  // namespace tandem::model
