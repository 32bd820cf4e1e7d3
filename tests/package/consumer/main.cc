// A program of another project, with LibTorch: it names devices and asks what is wrong with an empty environment.
#include <tandem/device/device_set.h>
#include <tandem/rl/env/env_concepts.h>

#include <cstdio>

int main() {
  const std::size_t replicas = tandem::device::parse_device_set("cpu:2").size();
  const bool faulty = !tandem::rl::spec_faults(tandem::rl::Spec{}).empty();
  std::printf("%zu replicas, an empty spec is %s\n", replicas, faulty ? "faulty" : "accepted");
  return replicas == 2 && faulty ? 0 : 1;
}
