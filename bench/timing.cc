#include "bench/timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>

#include "tandem/base/check.h"
#include "tandem/base/json_writer.h"

namespace tandem::bench {

int bench_main(int argc, char** argv, int (*run)(Size size)) {
  const bool smoke = argc == 2 && std::string_view(argv[1]) == "--smoke";
  if (argc > 1 && !smoke) {
    std::fprintf(stderr, "usage: %s [--smoke]\n", argv[0]);
    return 2;
  }
  try {
    return run(smoke ? Size::kSmoke : Size::kFull);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

Samples::Samples(std::vector<double> seconds) : seconds_(std::move(seconds)) {
  TANDEM_CHECK(!seconds_.empty(), "nothing was measured");
  std::sort(seconds_.begin(), seconds_.end());
}

double Samples::quantile(double share) const {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(seconds_.size())));
  return seconds_[std::clamp<std::size_t>(rank, 1, seconds_.size()) - 1];
}

double Samples::mean() const {
  return std::accumulate(seconds_.begin(), seconds_.end(), 0.0) / static_cast<double>(seconds_.size());
}

int repetitions(double seconds, double budget) {
  return static_cast<int>(std::clamp(budget / std::max(seconds, 1e-9), 5.0, 200'000.0));
}

void print(const Line& line) {
  JsonWriter json;
  json.begin_object();
  json.key("case").value(line.case_name).key("contender").value(line.contender);
  json.key("value").value(line.value).key("unit").value(line.unit);
  json.key("p99").value(line.p99).key("samples").value(line.samples);
  if (line.bus_gb_s > 0) json.key("bus_gb_s").value(line.bus_gb_s);
  std::puts(json.end_object().text().c_str());
}

}  // namespace tandem::bench
