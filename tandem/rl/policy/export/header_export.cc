#include "tandem/rl/policy/export/header_export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <type_traits>

#include "tandem/base/atomic_file.h"
#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/distribution/normal.h"
#include "tandem/rl/policy/acting_net.h"
#include "tandem/rl/policy/export/header_kernels.h"
#include "tandem/rl/policy/export/header_text.h"
#include "tandem/rl/policy/recurrent_policy.h"

// The plan: the writer goes through observation, steps and action in the order of act(), and each adds its constants to
// one text and its statements to another. Constants are static members of a class template, which a header may define
// without giving each of its includers a copy.
namespace tandem::rl {
namespace {

// A compiler takes some seconds for a million numbers.
constexpr std::int64_t kMostWeights = std::int64_t{1} << 22;

std::string as_identifier(std::string name) {
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

class HeaderWriter {
 public:
  HeaderWriter(const ExportedPolicy& exported, std::string name)
      : exported_(exported),
        spec_(exported.policy.spec()),
        net_(exported.policy.acting_net()),
        names_(leaf_names(spec_)),
        name_(std::move(name)) {
    check();
  }

  std::string write();

 private:
  void check() const;
  void write_features();
  void write_step(std::size_t step);
  void write_cell(const ActingStep& step, const std::string& in, const std::string& out);
  void write_action();
  void write_choices();
  void write_box(const Box& box);
  [[nodiscard]] std::string head_comment() const;
  [[nodiscard]] std::string structs() const;

  // Appends a constant and returns what act() calls it. Weights are [inputs, outputs], which is how loops read them.
  template <typename Number>
  std::string constant(const std::string& name, const std::vector<Number>& numbers);
  std::string weights(const std::string& name, const at::Tensor& weight) {
    return constant(name, numbers_of<float>(weight.detach().t().contiguous()));
  }
  // Appends a statement of act().
  template <typename... Parts>
  void line(const Parts&... parts) {
    body_ += concat("  ", parts..., "\n");
  }
  // The array that holds a value.
  [[nodiscard]] std::string value(std::size_t number) const { return concat("v", number); }
  // Declares the array of a value, or takes over that of its argument.
  void declare(std::size_t number) { line("float ", value(number), "[", net_.size(number), "];"); }

  const ExportedPolicy& exported_;
  const Spec& spec_;
  const ActingNet net_;
  const std::vector<std::string> names_;
  const std::string name_;
  std::string declarations_, definitions_, body_;
};

// Everything that cannot be exported is found before anything is written.
void HeaderWriter::check() const {
  if (net_.encoder().has_torso()) {
    throw ConfigError(
        "the policy has convolutions, which are not exported as C++; export it as .onnx, which runs on every processor "
        "by onnxruntime");
  }
  std::int64_t weights = 0;
  for (const ActingStep& step : net_.steps()) {
    if (step.weight.defined()) weights += step.weight.numel();
    if (step.cell != nullptr) weights += step.cell->weight_ih().numel() + step.cell->weight_hh().numel();
  }
  if (weights > kMostWeights) {
    throw ConfigError(concat("the policy has ", weights, " weights, and a header at most ", kMostWeights,
                             ", since compilers take long for more; export it as .onnx"));
  }
}

// A static member of a class template is declared in the class and defined behind it.
template <typename Number>
std::string HeaderWriter::constant(const std::string& name, const std::vector<Number>& numbers) {
  const char* const type = std::is_same_v<Number, float>    ? "float"
                           : std::is_same_v<Number, double> ? "double"
                                                            : "std::int64_t";
  declarations_ += concat("  static const ", type, " ", name, "[", numbers.size(), "];\n");
  definitions_ += concat("template <typename Unused>\nconst ", type, " Constants<Unused>::", name, "[", numbers.size(),
                         "] = ", array_text(numbers), ";\n");
  return concat("K::", name);
}

// Leaf by leaf in the order of FlatFeatures. Floats are normalised where the run did so.
void HeaderWriter::write_features() {
  declare(0);
  const FlatFeatures& flat = net_.encoder().flat();
  for (std::size_t l = 0; l < flat.parts().size(); ++l) {
    const FlatFeatures::Part& part = flat.parts()[l];
    const std::string from = concat("observation.", names_[l]), to = concat(value(0), " + ", part.begin);
    const auto named = [l](const char* what) { return concat(what, "_of_", l); };
    if (part.leaf.type == ElementType::kUInt8) {
      line("scale(", from, ", ", constant(named("low"), part.low), ", ", constant(named("scale"), part.scale), ", ",
           part.count, ", ", to, ");");
    } else if (part.leaf.type == ElementType::kInt64) {
      line("if (!one_hot(", from, ", ", constant(named("first"), part.first), ", ",
           constant(named("options"), part.options), ", ", part.count, ", ", part.features, ", ", to,
           ")) return false;");
    } else if (!exported_.is_normalized()) {
      line("narrow(", from, ", ", part.count, ", ", to, ");");
    } else {
      const auto [mean, inverse] = exported_.normalizers->mean_and_inverse_std(l);
      const double clip = exported_.normalizers->options().clip_observation;
      const bool wide = exported_.is_wide(l);
      const std::string center = wide ? constant(named("mean"), numbers_of<double>(mean))
                                      : constant(named("mean"), numbers_of<float>(mean)),
                        factor = wide ? constant(named("inverse"), numbers_of<double>(inverse))
                                      : constant(named("inverse"), numbers_of<float>(inverse)),
                        limit = wide ? literal(clip) : literal(static_cast<float>(clip));
      line("normalize<", wide ? "double" : "float", ">(", from, ", ", center, ", ", factor, ", ", limit, ", ",
           part.count, ", ", to, ");");
    }
  }
}

// Sizes are arguments of templates, so that compilers know how long the loops are. What is changed in place shares the
// array of its argument, which nobody else reads.
void HeaderWriter::write_step(std::size_t index) {
  using Kind = ActingStep::Kind;
  const ActingStep& step = net_.steps()[index];
  const std::string in = value(step.in), out = value(index + 1);
  const std::int64_t size = net_.size(index + 1), numbers = step.count > 0 ? net_.size(step.in) / step.count : 0;
  if (step.kind == Kind::kActivate || step.kind == Kind::kSquash) {
    line("float* const ", out, " = ", in, ";");
    if (step.kind == Kind::kActivate) {
      line("activate_", name_of(step.activation), "(", out, ", ", size, ");");
    } else {
      line("for (int i = 0; i < ", size, "; ++i) ", out, "[i] = std::tanh(", out, "[i]);");
    }
    return;
  }
  if (step.kind == Kind::kTakeFirst) return line("const float* const ", out, " = ", in, ";");
  declare(index + 1);
  switch (step.kind) {
    case Kind::kLinear:
      return line("linear<", net_.size(step.in), ", ", size, ">(", weights(concat("weight_", index), step.weight), ", ",
                  constant(concat("bias_", index), numbers_of<float>(step.bias)), ", ", in, ", ", out, ");");
    case Kind::kRemember:
      return write_cell(step, in, out);
    case Kind::kDuel:
      return line("duel<", step.count, ", ", net_.size(step.in), ">(", in, ", ", value(step.also), ", ", out, ");");
    case Kind::kExpect:
      return line("expect<", step.count, ", ", numbers, ">(", in, ", ",
                  constant("support", numbers_of<float>(step.support)), ", ", out, ");");
    case Kind::kAverage:
      return line("average<", step.count, ", ", numbers, ">(", in, ", ", out, ");");
    default:
      TANDEM_CHECK(false, "a step of kind ", static_cast<int>(step.kind));
  }
}

// The caller's state changes at the end of act() alone, so that it stays where there is no action.
void HeaderWriter::write_cell(const ActingStep& step, const std::string& in, const std::string& out) {
  const RecurrentCell& cell = *step.cell;
  const std::int64_t gates = cell.gates() * cell.size();
  line("State next = state;");
  line("float of_input[", gates, "], of_output[", gates, "];");
  line("linear<", net_.size(step.in), ", ", gates, ">(", weights("weight_ih", cell.weight_ih()), ", ",
       constant("bias_ih", numbers_of<float>(cell.bias_ih())), ", ", in, ", of_input);");
  line("linear<", cell.size(), ", ", gates, ">(", weights("weight_hh", cell.weight_hh()), ", ",
       constant("bias_hh", numbers_of<float>(cell.bias_hh())), ", next.numbers, of_output);");
  line(cell.kind() == CellKind::kLstm ? "lstm<" : "gru<", cell.size(), ">(of_input, of_output, next.numbers);");
  line("for (int i = 0; i < ", cell.size(), "; ++i) ", out, "[i] = next.numbers[i];");
}

// All choices are made before the first is written, so that a refused one leaves the caller's action as it was.
void HeaderWriter::write_choices() {
  const std::string head = value(net_.last());
  const std::vector<std::int64_t> options = choices_of(spec_.action);
  line("std::int64_t chosen[", options.size(), "];");
  std::int64_t first = 0;
  for (std::size_t i = 0; i < options.size(); ++i) {
    line("if (!choose(", head, " + ", first, ", mask == nullptr ? mask : mask + ", first, ", ", options[i],
         ", chosen + ", i, ")) return false;");
    first += options[i];
  }
  if (std::holds_alternative<Discrete>(spec_.action)) return line("action.choice = chosen[0];");
  line("for (int i = 0; i < ", options.size(), "; ++i) action.choices[i] = chosen[i];");
}

// The mode of a normal distribution is its mean plus no noise, which makes -0 a 0; a squashed one stays off the bounds.
// An element without a range is taken as it is: with the middle 0 and the range 2.
void HeaderWriter::write_box(const Box& box) {
  const std::string head = value(net_.last());
  const std::size_t size = box.low.size();
  std::vector<double> middle, range;
  for (std::size_t i = 0; i < size; ++i) {
    const bool has_range = std::isfinite(box.low[i]) && std::isfinite(box.high[i]);
    middle.push_back(has_range ? 0.5 * (box.low[i] + box.high[i]) : 0.0);
    range.push_back(has_range ? box.high[i] - box.low[i] : 2.0);
  }
  line("if (!are_finite(", head, ", ", size, ")) return false;");
  line("for (int i = 0; i < ", size, "; ++i) {");
  if (exported_.policy.family() == ActionFamily::kSquashedNormal) {
    const std::string limit = literal(static_cast<float>(model::SquashedNormal::limit(at::kFloat)));
    line("  const float mode = std::tanh(", head, "[i] + 0.0F);");
    line("  const float given = mode < -", limit, " ? -", limit, " : ", limit, " < mode ? ", limit, " : mode;");
  } else {
    line("  const float given = ", head, "[i] + 0.0F;");
  }
  line("  action.values[i] = place(given, ", constant("middle", middle), "[i], ", constant("range", range), "[i], ",
       constant("low", box.low), "[i], ", constant("high", box.high), "[i]);");
  line("}");
}

// The family decides how the last value becomes an action.
void HeaderWriter::write_action() {
  if (const auto* box = std::get_if<Box>(&spec_.action)) {
    write_box(*box);
  } else {
    write_choices();
  }
  if (net_.cell() != nullptr) line("state = next;");
  line("return true;");
}

// The first lines say how the header is used and where the policy comes from.
std::string HeaderWriter::head_comment() const {
  std::string text = concat(
      "// A policy that Tandem trained, as C++11 without dependencies: it takes no memory and throws nothing.\n//\n");
  const bool remembers = net_.cell() != nullptr, chooses = !std::holds_alternative<Box>(spec_.action);
  text += concat("//   tandem_", name_, "::Observation observation = ...;   // as the environment shows it\n");
  if (remembers) text += concat("//   tandem_", name_, "::State state;                    // of an episode's begin\n");
  text += concat("//   tandem_", name_, "::Action action;\n//   if (tandem_", name_, "::act(observation, ",
                 remembers ? "state, " : "", "action)) ...\n//\n");
  for (const auto& [name, fact] : describe_policy(exported_))
    text += concat("// ", name, ": ", comment_text(fact), "\n");
  text += concat("//\n// act() writes the most probable action", chooses ? "" : ", within the bounds,",
                 " and returns true", chooses ? "; options that `mask` has a zero for are not taken" : "", ".\n",
                 "// It returns false and writes nothing where an integer is out of its bounds, a number is not finite "
                 "or a mask\n",
                 "// allows nothing.\n");
  return text;
}

// Members are in the types in which the environment shows its leaves, each with what the spec says of it.
std::string HeaderWriter::structs() const {
  std::string text = "/// What the environment shows, not normalised; arrays are row-major.\nstruct Observation {\n";
  for (std::size_t l = 0; l < spec_.observation.size(); ++l) {
    const Leaf& leaf = spec_.observation[l];
    const char* const type = exported_.is_wide(l)               ? "double"
                             : leaf.type == ElementType::kUInt8 ? "std::uint8_t"
                             : leaf.type == ElementType::kInt64 ? "std::int64_t"
                                                                : "float";
    text += concat("  ", type, " ", names_[l], "[", leaf.count(), "];  // ", comment_text(describe(leaf)), "\n");
  }
  text += "};\n\nstruct Action {\n";
  if (const auto* box = std::get_if<Box>(&spec_.action)) {
    text += concat("  float values[", box->low.size(), "];\n");
  } else if (const auto* several = std::get_if<MultiDiscrete>(&spec_.action)) {
    text += concat("  std::int64_t choices[", several->n.size(), "];\n");
  } else {
    text += "  std::int64_t choice;\n";
  }
  text += "};\n\n";
  if (const RecurrentCell* cell = net_.cell()) {
    text += concat(
        "/// What the policy remembers; an episode begins with a new one.\nstruct State {\n  State() : numbers() {}\n"
        "  float numbers[",
        cell->state_size(), "];\n};\n\n");
  }
  return text;
}

// The statements of act() come first, since they leave the constants behind; then all is put in its order. Loops that
// no step needs are left out.
std::string HeaderWriter::write() {
  write_features();
  for (std::size_t i = 0; i < net_.steps().size(); ++i) write_step(i);
  write_action();
  const bool chooses = !std::holds_alternative<Box>(spec_.action);
  const std::string guard = concat("TANDEM_POLICY_", name_, "_H_");
  std::string text = head_comment();
  text += concat("#ifndef ", guard, "\n#define ", guard, "\n", kHeaderBegin, "\nnamespace tandem_", name_, " {\n\n",
                 structs(), "namespace detail {\n", kHeaderFunctions);
  const auto has = [this](ActingStep::Kind kind) {
    return std::ranges::any_of(net_.steps(), [kind](const ActingStep& step) { return step.kind == kind; });
  };
  if (net_.cell() != nullptr) text += kHeaderCells;
  if (has(ActingStep::Kind::kDuel) || has(ActingStep::Kind::kExpect) || has(ActingStep::Kind::kAverage))
    text += kHeaderReturns;
  text += concat("\ntemplate <typename Unused>\nstruct Constants {\n", declarations_, "};\n", definitions_,
                 "\n}  // namespace detail\n\n");
  if (chooses)
    text +=
        concat("/// `mask`: null, or ", mask_elements(spec_.action), " numbers, of which a zero excludes an option.\n");
  text += concat("TANDEM_APART inline bool act(const Observation& observation, ",
                 net_.cell() != nullptr ? "State& state, " : "", "Action& action",
                 chooses ? ", const std::uint8_t* mask = nullptr" : "", ") {\n  TANDEM_ROUND_EACH\n",
                 "  using namespace detail;\n  typedef Constants<void> K;\n", body_, "}\n\n}  // namespace tandem_",
                 name_, "\n", kHeaderEnd, "#endif\n");
  return text;
}

}  // namespace

std::string header_of(const ExportedPolicy& exported, const std::string& name) {
  return HeaderWriter(exported, as_identifier(name)).write();
}

std::string header_namespace(const std::filesystem::path& path) {
  return "tandem_" + as_identifier(path.stem().string());
}

void export_header(const ExportedPolicy& exported, const std::filesystem::path& path) {
  write_file(path, header_of(exported, path.stem().string()));
}

}  // namespace tandem::rl
