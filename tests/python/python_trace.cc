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

// The actions of environments of this spec, whose masks lie in `buffers`. `salt`: another number for each agent.
struct Actions {
  Actions(const Spec& spec, const EnvBuffers& buffers, std::size_t step, std::size_t salt) {
    const std::vector<std::int64_t> options = choices_of(spec.action);
    for (std::size_t e = 0; e < buffers.rows(); ++e) {
      const std::uint8_t* mask =
          spec.has_action_mask ? buffers.action_mask().data() + e * static_cast<std::size_t>(mask_elements(spec.action))
                               : nullptr;
      for (std::size_t i = 0; i < static_cast<std::size_t>(action_elements(spec.action)); ++i) {
        const std::uint64_t number = mixed(step, e, i + salt);
        if (options.empty()) {
          const auto& its = std::get<Box>(spec.action);
          const double low = std::isfinite(its.low[i]) ? its.low[i] : -1,
                       high = std::isfinite(its.high[i]) ? its.high[i] : 1;
          box.push_back(static_cast<float>(low + (high - low) * (static_cast<double>(number % 1001) / 1000)));
        } else {
          discrete.push_back(choose(number, options[i], mask));
          mask = mask == nullptr ? nullptr : mask + options[i];
        }
      }
    }
  }
  [[nodiscard]] EnvActions view() const {
    return box.empty() ? EnvActions{.discrete = discrete.data()} : EnvActions{.box = box.data()};
  }

  std::vector<std::int64_t> discrete;
  std::vector<float> box;
};

void put_shown(const Spec& spec, const EnvBuffers& buffers) {
  const EnvArrays& arrays = buffers.arrays();
  for (std::size_t l = 0; l < arrays.observation.size(); ++l)
    put(arrays.observation[l], buffers.rows() * spec.observation[l].bytes());
  if (arrays.action_mask != nullptr) put(arrays.action_mask, buffers.action_mask().size());
}

void put_ends(const Spec& spec, const EnvBuffers& buffers) {
  const EnvArrays& arrays = buffers.arrays();
  put(arrays.reward, buffers.rows());
  put(arrays.terminated, buffers.rows());
  put(arrays.truncated, buffers.rows());
  for (std::size_t e = 0; e < buffers.rows(); ++e) {
    if (arrays.terminated[e] == 0 && arrays.truncated[e] == 0) continue;
    for (std::size_t l = 0; l < arrays.final_observation.size(); ++l) {
      const std::size_t bytes = spec.observation[l].bytes();
      put(arrays.final_observation[l] + e * bytes, bytes);
    }
  }
}

std::vector<std::uint64_t> seeds(int count) {
  std::vector<std::uint64_t> all;
  for (int e = 0; e < count; ++e) all.push_back(100 + static_cast<std::uint64_t>(e));
  return all;
}

void run(EnvGroup& group, std::size_t steps) {
  EnvBuffers buffers(group);
  group.reset(seeds(group.size()), buffers.arrays());
  put_shown(group.spec(), buffers);
  for (std::size_t step = 0; step < steps; ++step) {
    group.step(Actions(group.spec(), buffers, step, 0).view(), buffers.arrays());
    put_shown(group.spec(), buffers);
    put_ends(group.spec(), buffers);
  }
}

// The same, for one agent after the other, with what they show also whether they act.
void run(MultiAgentGroup& group, std::size_t steps) {
  const std::size_t count = static_cast<std::size_t>(group.size()), agents = group.spec().agents.size();
  std::vector<Spec> specs;
  std::vector<std::unique_ptr<EnvBuffers>> buffers;
  std::vector<std::vector<std::uint8_t>> acts(agents, std::vector<std::uint8_t>(count));
  std::vector<AgentArrays> out;
  for (std::size_t a = 0; a < agents; ++a) {
    specs.push_back(agent_spec(group.spec(), a));
    buffers.push_back(std::make_unique<EnvBuffers>(specs[a], count));
    out.push_back({.env = buffers[a]->arrays(), .acts = acts[a].data()});
  }
  const auto show = [&] {
    for (std::size_t a = 0; a < agents; ++a) {
      put_shown(specs[a], *buffers[a]);
      put(acts[a].data(), count);
    }
  };
  group.reset(seeds(group.size()), out);
  show();
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<Actions> all;
    std::vector<EnvActions> views;
    for (std::size_t a = 0; a < agents; ++a) all.emplace_back(specs[a], *buffers[a], step, 1000 * a);
    for (const Actions& its : all) views.push_back(its.view());
    group.step(views, out);
    show();
    for (std::size_t a = 0; a < agents; ++a) put_ends(specs[a], *buffers[a]);
  }
}

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
  const auto steps = static_cast<std::size_t>(std::atoi(argv[4]));
  if (const MultiAgentEntry* several = known.find_multi_agent(argv[2]))
    run(*python_agents(several->spec, std::atoi(argv[3]), workers, of_id, nullptr), steps);
  else
    run(*in_workers(known.spec(argv[2]), std::atoi(argv[3]), workers, of_id, nullptr), steps);
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
