#include "tandem/rl/policy/encoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <numbers>

#include "tandem/base/check.h"
#include "tandem/model/init.h"
#include "tandem/rl/policy/names.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kSmallestOfNatureCnn = 36;  // the last convolution then has one place to be
constexpr std::int64_t kMostChannels = 4096, kMostBlocks = 64;
constexpr std::size_t kMostSections = 16;

std::int64_t shorter_side(const Leaf& leaf) { return std::min(leaf.shape[1], leaf.shape[2]); }

std::int64_t smallest_side(Torso kind, const TorsoOptions& options) {
  return kind == Torso::kNatureCnn ? kSmallestOfNatureCnn : std::int64_t{1} << options.channels.size();
}

// The limits keep a mistyped option from asking for gigabytes.
std::vector<std::string> option_faults(const TorsoOptions& options) {
  std::vector<std::string> faults;
  if (options.channels.empty() || options.channels.size() > kMostSections)
    faults.push_back(
        concat("policy: a residual torso of ", options.channels.size(), " sections; it must be 1 .. ", kMostSections));
  for (const std::int64_t channels : options.channels) {
    if (channels < 1 || channels > kMostChannels)
      faults.push_back(concat("policy: a section of ", channels, " channels; it must be 1 .. ", kMostChannels));
  }
  if (options.blocks < 0 || options.blocks > kMostBlocks)
    faults.push_back(concat("policy: ", options.blocks, " residual blocks; it must be 0 .. ", kMostBlocks));
  return faults;
}

// The fault of an image that is too small, with what to do about it.
std::string too_small(const Spec& spec, const Leaf& leaf, Torso kind, const TorsoOptions& options) {
  const std::string remedy = kind == Torso::kNatureCnn ? "use the torso residual"
                                                       : concat("each of its ", options.channels.size(),
                                                                " sections halves them: give it fewer");
  return concat(spec.id, ": the image '", describe(leaf), "' is too small for the torso ", name_of(kind),
                ", which needs sides of at least ", smallest_side(kind, options), " pixels; ", remedy,
                ", or none, which flattens images. Images are [channels, height, width]");
}

// The value that becomes 1: 255, or the largest of the leaf's upper bounds.
double largest_pixel(const Leaf& leaf) {
  if (leaf.high.empty()) return 255;
  const double largest = *std::ranges::max_element(leaf.high);
  return largest > 0 ? largest : 1;
}

bool takes(Torso kind, const Leaf& leaf) { return kind != Torso::kNone && is_image(leaf); }

// `spec` without the leaves that go through a torso.
Spec without_images(Spec spec, Torso kind) {
  std::erase_if(spec.observation, [kind](const Leaf& leaf) { return takes(kind, leaf); });
  return spec;
}

}  // namespace

const char* name_of(Torso torso) {
  constexpr Names<4> kNames{"auto", "none", "nature_cnn", "residual"};
  return name_in(kNames, torso);
}

bool is_image(const Leaf& leaf) { return leaf.type == ElementType::kUInt8 && leaf.shape.size() == 3; }

// First which torso is meant, then whether it can be: sizes are looked at only when the options are fine.
Torso chosen_torso(const TorsoOptions& options, const Spec& spec) {
  std::vector<const Leaf*> images;
  for (const Leaf& leaf : spec.observation) {
    if (is_image(leaf)) images.push_back(&leaf);
  }
  Torso chosen = options.kind;
  if (chosen == Torso::kAuto) {
    const auto is_large = [](const Leaf* leaf) { return shorter_side(*leaf) >= kSmallestOfNatureCnn; };
    chosen = images.empty()                          ? Torso::kNone
             : std::ranges::all_of(images, is_large) ? Torso::kNatureCnn
                                                     : Torso::kResidual;
  }
  if (chosen == Torso::kNone) return chosen;
  std::vector<std::string> faults;
  if (chosen == Torso::kResidual) faults = option_faults(options);
  if (images.empty())
    faults.push_back(concat(spec.id, ": the torso ", name_of(chosen),
                            " is for images, and none of its observations is ",
                            "one, which is uint8 [channels, height, width]; leave the torso auto"));
  for (const Leaf* leaf : images) {
    if (faults.empty() && shorter_side(*leaf) < smallest_side(chosen, options))
      faults.push_back(too_small(spec, *leaf, chosen, options));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  return chosen;
}

ImageTorso::ImageTorso(Torso kind, const TorsoOptions& options, const Leaf& leaf, at::Generator& generator)
    : largest_(largest_pixel(leaf)),
      shapes_{{.channels = leaf.shape[0], .height = leaf.shape[1], .width = leaf.shape[2]}} {
  if (kind == Torso::kNatureCnn) {
    build_nature_cnn(generator);
  } else {
    build_residual(options, generator);
  }
}

// Sizes without padding are rounded down, those after pooling up.
std::size_t ImageTorso::add_step(const TorsoStep& step) {
  ImageShape shape = shapes_[step.in];
  if (step.kind == TorsoStep::Kind::kConvolve) {
    const std::int64_t kernel = step.convolution->weight.size(2);
    const auto size = [&](std::int64_t side) { return (side + 2 * step.padding - kernel) / step.stride + 1; };
    shape = {.channels = step.convolution->weight.size(0), .height = size(shape.height), .width = size(shape.width)};
  } else if (step.kind == TorsoStep::Kind::kPool) {
    shape = {.channels = shape.channels, .height = (shape.height + 1) / 2, .width = (shape.width + 1) / 2};
  }
  steps_.push_back(step);
  shapes_.push_back(shape);
  return steps_.size();
}

// The gain suits the ReLU that follows or precedes it.
std::size_t ImageTorso::add_convolution(const std::string& name, std::size_t in, const TorsoStep& like,
                                        std::int64_t channels, std::int64_t kernel, at::Generator& generator) {
  TorsoStep step = like;
  step.in = in;
  step.name = name;
  const auto options = torch::nn::Conv2dOptions(shapes_[in].channels, channels, kernel);
  step.convolution = register_module(name, torch::nn::Conv2d(options));
  model::init_orthogonal(step.convolution->weight, std::numbers::sqrt2, generator);
  torch::nn::init::zeros_(step.convolution->bias);
  return add_step(step);
}

// Three convolutions, each followed by ReLU. Sides shrink without padding, as in the paper.
void ImageTorso::build_nature_cnn(at::Generator& generator) {
  struct Layer {
    std::int64_t channels, kernel, stride;
  };
  std::size_t x = 0, count = 0;
  for (const Layer& layer : {Layer{32, 8, 4}, Layer{64, 4, 2}, Layer{64, 3, 1}}) {
    x = add_convolution(concat("conv_", count++), x,
                        {.kind = TorsoStep::Kind::kConvolve, .in = x, .stride = layer.stride}, layer.channels,
                        layer.kernel, generator);
    x = add_step({.kind = TorsoStep::Kind::kRectify, .in = x});
  }
}

// Sections that each halve the image, with residual blocks.
void ImageTorso::build_residual(const TorsoOptions& options, at::Generator& generator) {
  using Kind = TorsoStep::Kind;
  std::size_t x = 0;
  for (std::size_t section = 0; section < options.channels.size(); ++section) {
    const auto convolve = [&](const std::string& part, std::size_t in) {
      return add_convolution(concat("section_", section, "_", part), in,
                             {.kind = Kind::kConvolve, .in = in, .padding = 1}, options.channels[section], 3,
                             generator);
    };
    x = add_step({.kind = Kind::kPool, .in = convolve("first", x)});
    for (std::int64_t block = 0; block < options.blocks; ++block) {
      const std::size_t one = convolve(concat("block_", block, "_0"), add_step({.kind = Kind::kRectify, .in = x}));
      const std::size_t two = convolve(concat("block_", block, "_1"), add_step({.kind = Kind::kRectify, .in = one}));
      x = add_step({.kind = Kind::kAdd, .in = x, .also = two});
    }
  }
  add_step({.kind = Kind::kRectify, .in = x});
}

std::int64_t ImageTorso::features() const {
  return shapes_.back().channels * shapes_.back().height * shapes_.back().width;
}

// On the CPU channels come last, where LibTorch's convolutions are faster: most of all the gradient of the first layer.
at::Tensor ImageTorso::forward(const at::Tensor& image) {
  const auto format = image.is_cpu() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return convolve(image.to(at::kFloat, false, false, format).div_(largest_)).flatten(1);
}

at::Tensor ImageTorso::convolve(const at::Tensor& x) const {
  std::vector<at::Tensor> values{x};
  for (const TorsoStep& step : steps_) {
    const at::Tensor& in = values[step.in];
    switch (step.kind) {
      case TorsoStep::Kind::kConvolve:
        values.push_back(at::conv2d(in, step.convolution->weight, step.convolution->bias, {step.stride, step.stride},
                                    {step.padding, step.padding}));
        break;
      case TorsoStep::Kind::kRectify:
        values.push_back(at::relu(in));
        break;
      case TorsoStep::Kind::kPool:
        values.push_back(at::max_pool2d(in, {3, 3}, {2, 2}, {1, 1}));
        break;
      case TorsoStep::Kind::kAdd:
        values.push_back(in + values[step.also]);
        break;
    }
  }
  return values.back();
}

// forward() once more, as text: value i is the variable RESULT_i.
std::string ImageTorso::script(const std::string& self, const std::string& image, const std::string& result) const {
  const auto value = [&result](std::size_t i) { return concat(result, "_", i); };
  const auto operation = [&](const TorsoStep& step) -> std::string {
    const std::string in = value(step.in), own = concat(self, ".", step.name);
    switch (step.kind) {
      case TorsoStep::Kind::kConvolve:
        return concat("torch.conv2d(", in, ", ", own, ".weight, ", own, ".bias, [", step.stride, ", ", step.stride,
                      "], [", step.padding, ", ", step.padding, "])");
      case TorsoStep::Kind::kRectify:
        return concat("torch.relu(", in, ")");
      case TorsoStep::Kind::kPool:
        return concat("torch.max_pool2d(", in, ", [3, 3], [2, 2], [1, 1])");
      case TorsoStep::Kind::kAdd:
        break;
    }
    return concat(in, " + ", value(step.also));
  };
  std::string text = concat("    ", value(0), " = ", image, " / ", largest_, "\n");
  for (std::size_t i = 0; i < steps_.size(); ++i)
    text += concat("    ", value(i + 1), " = ", operation(steps_[i]), "\n");
  return concat(text, "    ", result, " = ", value(steps_.size()), ".flatten(1)\n");
}

std::shared_ptr<ImageTorso> make_torso(Torso kind, const TorsoOptions& options, const Leaf& leaf,
                                       at::Generator& generator) {
  TANDEM_CHECK(kind == Torso::kNatureCnn || kind == Torso::kResidual, "a torso of kind ", name_of(kind));
  return std::make_shared<ImageTorso>(kind, options, leaf, generator);
}

// Torsos are registered under the number of their leaf, in the order of the spec, which is also the order of their
// draws.
Encoder::Encoder(const Spec& spec, const TorsoOptions& options, at::Generator& generator)
    : spec_(as_policies_see(spec)),
      kind_(chosen_torso(options, spec)),
      flat_(without_images(spec, kind_)),
      size_(flat_.size()) {
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    if (!takes(kind_, spec.observation[l])) {
      flat_leaves_.push_back(l);
      continue;
    }
    auto torso = register_module(concat(l), make_torso(kind_, options, spec.observation[l], generator));
    size_ += torso->features();
    torsos_.push_back({l, std::move(torso)});
  }
}

// Torsos in the order of their leaves, then the features of all other leaves: the order of size().
at::Tensor Encoder::encode(const Observation& observation) {
  if (torsos_.empty()) return flat_.encode(observation);
  check_observation(spec_, observation);
  std::vector<at::Tensor> parts;
  for (const OfLeaf& each : torsos_) parts.push_back(each.torso->forward(observation[each.leaf]));
  if (!flat_leaves_.empty()) {
    Observation rest;
    for (const std::size_t leaf : flat_leaves_) rest.push_back(observation[leaf]);
    parts.push_back(flat_.encode(rest));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

// The script gives each image's result a variable of its own, then has the flat leaves encoded from a shorter list of
// observations, and joins all in the order of encode().
FlatFeatures::Script Encoder::script(const std::string& name) const {
  if (torsos_.empty()) return flat_.script();
  std::string statements, encoded;
  for (const OfLeaf& each : torsos_) {
    const std::string result = concat("image_", each.leaf);
    statements +=
        each.torso->script(concat("self.", name, "._", each.leaf), concat("observation[", each.leaf, "]"), result);
    encoded += concat(encoded.empty() ? "" : ", ", result);
  }
  if (flat_leaves_.empty())
    return {.statements = concat(statements, "    features = torch.cat([", encoded, "], 1)\n"), .constants = {}};
  const auto rest = joined(flat_leaves_, [](std::size_t leaf) { return concat("observation[", leaf, "]"); });
  FlatFeatures::Script flat = flat_.script();
  flat.statements = concat(statements, "    observation = [", rest, "]\n", flat.statements,
                           "    features = torch.cat([", encoded, ", features], 1)\n");
  return flat;
}

}  // namespace tandem::rl
