#include "tandem/rl/policy/encoder.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>

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

// A convolution's channels in and out, the side of its kernel, stride and padding.
struct Shape {
  std::int64_t in, out, kernel, stride, padding;
};

struct Convolution {
  std::string name;
  Shape shape;
  torch::nn::Conv2d module;

  [[nodiscard]] at::Tensor operator()(const at::Tensor& x) const {
    return at::conv2d(x, module->weight, module->bias, {shape.stride, shape.stride}, {shape.padding, shape.padding});
  }
  [[nodiscard]] std::string script(const std::string& self, const std::string& x) const {
    const std::string own = concat(self, ".", name);
    return concat("torch.conv2d(", x, ", ", own, ".weight, ", own, ".bias, [", shape.stride, ", ", shape.stride, "], [",
                  shape.padding, ", ", shape.padding, "])");
  }
};

// Registers a convolution with its owner. The gain suits the ReLU that follows or precedes it.
Convolution make_convolution(torch::nn::Module& owner, const std::string& name, const Shape& shape,
                             at::Generator& generator) {
  const auto options = torch::nn::Conv2dOptions(shape.in, shape.out, shape.kernel);
  Convolution made{name, shape, owner.register_module(name, torch::nn::Conv2d(options))};
  model::init_orthogonal(made.module->weight, std::numbers::sqrt2, generator);
  torch::nn::init::zeros_(made.module->bias);
  return made;
}

// Three convolutions, each followed by ReLU. Sides shrink without padding, as in the paper.
class NatureCnn final : public ImageTorso {
 public:
  NatureCnn(const Leaf& leaf, at::Generator& generator) : ImageTorso(leaf) {
    std::int64_t height = leaf.shape[1], width = leaf.shape[2];
    for (const Shape& shape : {Shape{leaf.shape[0], 32, 8, 4, 0}, Shape{32, 64, 4, 2, 0}, Shape{64, 64, 3, 1, 0}}) {
      layers_.push_back(make_convolution(*this, concat("conv_", layers_.size()), shape, generator));
      height = (height - shape.kernel) / shape.stride + 1;
      width = (width - shape.kernel) / shape.stride + 1;
    }
    features_ = 64 * height * width;
  }

 private:
  at::Tensor convolve(at::Tensor x) override {
    for (const Convolution& layer : layers_) x = at::relu(layer(x));
    return x;
  }
  [[nodiscard]] std::string convolve_script(const std::string& self, const std::string& x) const override {
    std::string text;
    for (const Convolution& layer : layers_) text += concat("    ", x, " = torch.relu(", layer.script(self, x), ")\n");
    return text;
  }

  std::vector<Convolution> layers_;
};

// Sections that each halve the image, with residual blocks; the sizes after pooling are rounded up.
class ResidualTorso final : public ImageTorso {
 public:
  ResidualTorso(const Leaf& leaf, const TorsoOptions& options, at::Generator& generator) : ImageTorso(leaf) {
    std::int64_t channels = leaf.shape[0], height = leaf.shape[1], width = leaf.shape[2];
    for (const std::int64_t out : options.channels) {
      const std::string name = concat("section_", sections_.size());
      const auto add = [&](const std::string& part, std::int64_t in) {
        return make_convolution(*this, concat(name, "_", part), {in, out, 3, 1, 1}, generator);
      };
      Section& section = sections_.emplace_back(Section{.first = add("first", channels), .blocks = {}});
      for (std::int64_t block = 0; block < options.blocks; ++block) {
        section.blocks.push_back(
            {.one = add(concat("block_", block, "_0"), out), .two = add(concat("block_", block, "_1"), out)});
      }
      channels = out;
      height = (height + 1) / 2;
      width = (width + 1) / 2;
    }
    features_ = channels * height * width;
  }

 private:
  struct Block {
    Convolution one, two;
  };
  struct Section {
    Convolution first;
    std::vector<Block> blocks;
  };

  at::Tensor convolve(at::Tensor x) override {
    for (const Section& section : sections_) {
      x = at::max_pool2d(section.first(x), {3, 3}, {2, 2}, {1, 1});
      for (const Block& block : section.blocks) x = x + block.two(at::relu(block.one(at::relu(x))));
    }
    return at::relu(x);
  }
  [[nodiscard]] std::string convolve_script(const std::string& self, const std::string& x) const override {
    std::string text;
    for (const Section& section : sections_) {
      text += concat("    ", x, " = torch.max_pool2d(", section.first.script(self, x), ", [3, 3], [2, 2], [1, 1])\n");
      for (const Block& block : section.blocks) {
        const std::string inner = concat("torch.relu(", block.one.script(self, concat("torch.relu(", x, ")")), ")");
        text += concat("    ", x, " = ", x, " + ", block.two.script(self, inner), "\n");
      }
    }
    return text + concat("    ", x, " = torch.relu(", x, ")\n");
  }

  std::vector<Section> sections_;
};

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

ImageTorso::ImageTorso(const Leaf& leaf) : largest_(largest_pixel(leaf)) {}

at::Tensor ImageTorso::forward(const at::Tensor& image) {
  return convolve(image.to(at::kFloat).div_(largest_)).flatten(1);
}

// forward() once more, as text.
std::string ImageTorso::script(const std::string& self, const std::string& image, const std::string& result) const {
  return concat("    ", result, " = ", image, " / ", largest_, "\n", convolve_script(self, result), "    ", result,
                " = ", result, ".flatten(1)\n");
}

std::shared_ptr<ImageTorso> make_torso(Torso kind, const TorsoOptions& options, const Leaf& leaf,
                                       at::Generator& generator) {
  TANDEM_CHECK(kind == Torso::kNatureCnn || kind == Torso::kResidual, "a torso of kind ", name_of(kind));
  if (kind == Torso::kNatureCnn) return std::make_shared<NatureCnn>(leaf, generator);
  return std::make_shared<ResidualTorso>(leaf, options, generator);
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
