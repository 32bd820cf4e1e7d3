// Steps a Python environment through the bridge and writes all that it shows, for comparison with the same environment
// stepped by Python itself (python_parity.py):
//
//   python_trace PYTHON ID COUNT[/WORKERS] STEPS [NAME=VALUE...]
//
// The output is binary: for the reset and for each step the observation of all leaves and the mask, and behind each
// step reward, terminated, truncated, and of rows whose episode ended the final observation. Actions follow from the
// numbers of the step, the environment and the element.
#include <cmath>
#include <cstdlib>
#include <iostream>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::rl {
namespace {

template <typename Value>
void put(const Value* values, std::size_t count) {
  std::cout.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(count * sizeof(Value)));
}

std::uint64_t mixed(std::size_t step, std::size_t env, std::size_t element) {
  std::uint64_t x = (step * 1'000'003 + env * 8191 + element * 127 + 12345) & 0xffffffff;
  for (int round = 0; round < 3; ++round) x = (x * 2'654'435'761 + 40503) & 0xffffffff;
  return x >> 7;
}

// The option of this rank among those that are allowed.
std::int64_t choose(std::uint64_t number, std::int64_t options, const std::uint8_t* mask) {
  if (mask == nullptr) return static_cast<std::int64_t>(number % static_cast<std::uint64_t>(options));
  std::vector<std::int64_t> allowed;
  for (std::int64_t i = 0; i < options; ++i) {
    if (mask[i] != 0) allowed.push_back(i);
  }
  return allowed[number % allowed.size()];
}

class Trace {
 public:
  explicit Trace(std::unique_ptr<EnvGroup> group) : group_(std::move(group)), buffers_(*group_) {}

  void run(std::size_t steps) {
    std::vector<std::uint64_t> seeds;
    for (std::size_t e = 0; e < buffers_.rows(); ++e) seeds.push_back(100 + e);
    group_->reset(seeds, buffers_.arrays());
    put_shown();
    for (std::size_t step = 0; step < steps; ++step) {
      make_step(step);
      put_shown();
      put_ends();
    }
  }

 private:
  void make_step(std::size_t step) {
    const ActionSpace& space = group_->spec().action;
    const std::vector<std::int64_t> options = choices_of(space);
    std::vector<std::int64_t> discrete;
    std::vector<float> box;
    for (std::size_t e = 0; e < buffers_.rows(); ++e) {
      const std::uint8_t* mask = group_->spec().has_action_mask ? buffers_.action_mask().data() +
                                                                      e * static_cast<std::size_t>(mask_elements(space))
                                                                : nullptr;
      for (std::size_t i = 0; i < static_cast<std::size_t>(action_elements(space)); ++i) {
        if (!options.empty()) {
          discrete.push_back(choose(mixed(step, e, i), options[i], mask));
          mask = mask == nullptr ? nullptr : mask + options[i];
          continue;
        }
        const auto& its = std::get<Box>(space);
        const double low = std::isfinite(its.low[i]) ? its.low[i] : -1,
                     high = std::isfinite(its.high[i]) ? its.high[i] : 1;
        box.push_back(static_cast<float>(low + (high - low) * (static_cast<double>(mixed(step, e, i) % 1001) / 1000)));
      }
    }
    group_->step(options.empty() ? EnvActions{.box = box.data()} : EnvActions{.discrete = discrete.data()},
                 buffers_.arrays());
  }
  void put_shown() const {
    const EnvArrays& arrays = buffers_.arrays();
    for (std::size_t l = 0; l < arrays.observation.size(); ++l)
      put(arrays.observation[l], buffers_.rows() * group_->spec().observation[l].bytes());
    if (arrays.action_mask != nullptr) put(arrays.action_mask, buffers_.action_mask().size());
  }
  void put_ends() const {
    const EnvArrays& arrays = buffers_.arrays();
    put(arrays.reward, buffers_.rows());
    put(arrays.terminated, buffers_.rows());
    put(arrays.truncated, buffers_.rows());
    for (std::size_t e = 0; e < buffers_.rows(); ++e) {
      if (arrays.terminated[e] == 0 && arrays.truncated[e] == 0) continue;
      for (std::size_t l = 0; l < arrays.final_observation.size(); ++l) {
        const std::size_t bytes = group_->spec().observation[l].bytes();
        put(arrays.final_observation[l] + e * bytes, bytes);
      }
    }
  }

  std::unique_ptr<EnvGroup> group_;
  EnvBuffers buffers_;
};

int trace(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "usage: python_trace PYTHON ID COUNT[/WORKERS] STEPS [NAME=VALUE...]\n";
    return 2;
  }
  EnvOptionTexts options{{kInterpreterOption, argv[1]}};
  for (int i = 5; i < argc; ++i) {
    const std::string text = argv[i];
    options.emplace_back(text.substr(0, text.find('=')), text.substr(text.find('=') + 1));
  }
  EnvRegistry known;
  const IsolationOptions isolation{.tell = [](pid_t, const std::string& line) { std::cerr << line << "\n"; }};
  for (EnvKind& kind : python_kinds(isolation)) known.add_kind(std::move(kind));
  known.set_options(argv[2], options);
  const std::string count = argv[3];
  const std::size_t slash = count.find('/');
  const int workers = slash == std::string::npos ? 1 : std::atoi(count.c_str() + slash + 1);
  const IsolationOptions of_id = python_isolation(isolation, argv[2], options);
  Trace(in_workers(known.spec(argv[2]), std::atoi(argv[3]), workers, of_id, nullptr))
      .run(static_cast<std::size_t>(std::atoi(argv[4])));
  std::cout.flush();
  return 0;
}

}  // namespace
}  // namespace tandem::rl

int main(int argc, char** argv) {
  try {
    return tandem::rl::trace(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "python_trace: " << error.what() << "\n";
    return 3;
  }
}
