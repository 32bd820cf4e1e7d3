// Prints, for random parameters, what Tandem's distributions say about them, as one JSON document on stdout;
// distributions_parity.py compares it with torch.distributions.
#include <torch/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/model/distribution/categorical.h"
#include "tandem/model/distribution/normal.h"

namespace {

using tandem::concat;
using tandem::model::Distribution;
using Named = std::vector<std::pair<std::string, at::Tensor>>;

// Numbers as strings, so that inf and nan survive; Python's float() reads them.
std::string to_json(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kDouble).contiguous();
  std::string text = R"({"shape": [)";
  for (std::int64_t i = 0; i < tensor.dim(); ++i) text += concat(i > 0 ? "," : "", tensor.size(i));
  text += R"(], "values": [)";
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    char number[40];
    std::snprintf(number, sizeof number, "%s\"%.17g\"", i > 0 ? "," : "", values.data_ptr<double>()[i]);
    text += number;
  }
  return text + "]}";
}

std::string to_json(const Named& tensors) {
  std::string text = "{";
  for (const auto& [name, tensor] : tensors)
    text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + to_json(tensor);
  return text + "}";
}

class Report {
 public:
  explicit Report(at::ScalarType dtype) : dtype_(dtype), generator_(at::make_generator<at::CPUGeneratorImpl>(7)) {}

  at::Tensor random(const std::vector<std::int64_t>& shape, double scale) {
    return (scale * at::randn(shape, generator_, at::kDouble)).to(dtype_).requires_grad_();
  }
  at::Tensor random_mask(const std::vector<std::int64_t>& shape) {
    at::Tensor mask = (at::rand(shape, generator_, at::kDouble) < 0.6).to(at::kByte);
    mask.select(-1, 0).fill_(1);
    return mask;
  }

  // `inputs` are what d was made from; `other` is an equal family with constant parameters given in `inputs` too.
  void add(const std::string& name, const Named& inputs, const Distribution& d, const Distribution& other) {
    const at::Tensor actions = d.sample(generator_);
    Named outputs{{"actions", actions}, {"mode", d.mode()}, {"log_prob", d.log_prob(actions)}, {"kl", d.kl(other)}};
    at::Tensor total = outputs[2].second.sum() + 0.3 * outputs[3].second.sum();
    if (d.has_entropy()) {
      outputs.emplace_back("entropy", d.entropy());
      total = total + 0.7 * outputs.back().second.sum();
    }
    total.backward();
    for (const auto& [input, tensor] : inputs) {
      if (tensor.grad().defined()) outputs.emplace_back("grad_" + input, tensor.grad());
    }
    std::printf("%s\n{\"family\": \"%s\", \"dtype\": \"%s\", \"inputs\": %s, \"outputs\": %s}", first_ ? "" : ",",
                name.c_str(), dtype_ == at::kDouble ? "float64" : "float32", to_json(inputs).c_str(),
                to_json(outputs).c_str());
    first_ = false;
  }

  static bool first_;  // of the whole document

 private:
  at::ScalarType dtype_;
  at::Generator generator_;
};
bool Report::first_ = true;

void report_all(at::ScalarType dtype, double scale) {
  using namespace tandem::model;
  Report report(dtype);
  constexpr std::int64_t kRows = 32;
  {
    const at::Tensor logits = report.random({kRows, 6}, scale), q = report.random({kRows, 6}, scale).detach();
    report.add("Categorical", {{"logits", logits}, {"q_logits", q}}, Categorical(logits), Categorical(q));
  }
  {
    const at::Tensor logits = report.random({kRows, 6}, scale), q = report.random({kRows, 6}, scale).detach();
    const at::Tensor mask = report.random_mask({kRows, 6});
    report.add("Categorical", {{"logits", logits}, {"q_logits", q}, {"mask", mask}}, Categorical(logits, mask),
               Categorical(q, mask));
  }
  {
    const std::vector<std::int64_t> nvec{3, 2, 5};
    const at::Tensor logits = report.random({kRows, 10}, scale), q = report.random({kRows, 10}, scale).detach();
    report.add("MultiCategorical", {{"logits", logits}, {"q_logits", q}, {"nvec", torch::tensor(nvec)}},
               MultiCategorical(logits, nvec), MultiCategorical(q, nvec));
  }
  {
    const at::Tensor mean = report.random({kRows, 4}, scale), log_std = report.random({4}, 0.6);
    const at::Tensor q_mean = report.random({kRows, 4}, scale).detach(), q_log_std = report.random({4}, 0.6).detach();
    const Named inputs{{"mean", mean}, {"log_std", log_std}, {"q_mean", q_mean}, {"q_log_std", q_log_std}};
    report.add("Normal", inputs, Normal(mean, log_std), Normal(q_mean, q_log_std));
  }
  {
    const at::Tensor mean = report.random({kRows, 3}, 0.8), log_std = report.random({kRows, 3}, 0.4);
    const at::Tensor q_mean = report.random({kRows, 3}, 0.8).detach(),
                     q_log_std = report.random({kRows, 3}, 0.4).detach();
    const Named inputs{{"mean", mean}, {"log_std", log_std}, {"q_mean", q_mean}, {"q_log_std", q_log_std}};
    report.add("SquashedNormal", inputs, SquashedNormal(mean, log_std), SquashedNormal(q_mean, q_log_std));
  }
  {
    const at::Tensor mean = report.random({kRows, 2}, scale), latent = report.random({kRows, 5}, 1.0);
    const at::Tensor log_std = report.random({5, 2}, 0.5);
    const at::Tensor q_mean = report.random({kRows, 2}, scale).detach(),
                     q_log_std = report.random({5, 2}, 0.5).detach();
    const Named inputs{
        {"mean", mean}, {"latent", latent}, {"log_std", log_std}, {"q_mean", q_mean}, {"q_log_std", q_log_std}};
    report.add("StateDependentNoise", inputs, StateDependentNoise(mean, latent, log_std),
               StateDependentNoise(q_mean, latent.detach(), q_log_std));
  }
}

}  // namespace

int main() {
  std::printf("[");
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    report_all(dtype, 1.0);
    report_all(dtype, 6.0);
  }
  std::printf("\n]\n");
  return 0;
}
