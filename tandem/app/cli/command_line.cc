// CLI11 parses and formats the help. Words that it does not know are collected instead of thrown (allow_extras), so
// that one message tells of all unknown flags and of all faulty settings. Values stay texts until the option table
// reads them.
// The plan: the constructor builds all commands with their flags; read() lets CLI11 parse, finds the chosen command,
// and turns its texts into a Command, collecting faults. CLI11 fills the members below, so a CommandLine is used once.
#include "tandem/app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tandem/app/cli/help_text.h"
#include "tandem/app/cli/launch_flags.h"
#include "tandem/app/cli/option_flags.h"
#include "tandem/app/cli/scale_flags.h"
#include "tandem/app/cli/tune_flags.h"
#include "tandem/app/config/nearest_name.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// "-" alone is an argument, as many programs use it for standard input.
bool is_flag(const std::string& text) { return text.size() > 1 && text.starts_with('-'); }

// The flags of a command: "--seed", "-o".
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// `train`: the command with most flags, which users try behind others.
// Answers from the most telling to the least: no flag at all, a flag of train, the nearest flag.
std::string unknown(const std::string& text, const CLI::App& command, const CLI::App& train) {
  const std::string name = text.substr(0, text.find('='));
  if (!is_flag(text)) return concat("tandem ", command.get_name(), " does not take '", text, "'; see its --help");
  const std::vector<std::string> of_train = flags_of(train);
  if (std::find(of_train.begin(), of_train.end(), name) != of_train.end()) {
    return concat(name, ": a flag of tandem train, for a new run; tandem ", command.get_name(),
                  " does not take it, see its --help");
  }
  const std::optional<std::string> nearest = nearest_name(name, flags_of(command));
  if (nearest) return concat(name, ": there is no such flag; the nearest one is ", *nearest);
  return concat(name, ": there is no such flag; see tandem ", command.get_name(), " --help, or --set for other keys");
}

// Faults of arguments that no flag or positional took. Values behind unknown flags are left out: the flag is the fault.
// `behind_flag` holds when the text before was a flag without "=", whose value this text probably is.
std::vector<std::string> unknown_faults(const CLI::App& command, const CLI::App& train) {
  std::vector<std::string> faults;
  bool behind_flag = false;
  for (const std::string& text : command.remaining()) {
    if (is_flag(text) || !behind_flag) faults.push_back(unknown(text, command, train));
    behind_flag = is_flag(text) && text.find('=') == std::string::npos;
  }
  return faults;
}

// Shows the type's name of a flag as the value that it takes; CLI11 would add "..." to those that may come again.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(32); }
  [[nodiscard]] std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
};

// The commands with their flags and the values that parsing fills in.
class CommandLine {
 public:
  CommandLine() : app_("", "tandem") {
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.description(program_description());
    app_.footer(program_footer());
    app_.require_subcommand(0, 1);
    // Words that no command takes are left in remaining(), for command_of() to report.
    app_.allow_extras();
    app_.set_help_flag("-h,--help", "This text; behind a command, the command's.");
    app_.set_version_flag("--version", "", "As the command of this name.");
    add_train();
    add_resume();
    add_results();
    add_launch();
    add_tune();
    add_listings();
  }

  Command read(std::span<const std::string> arguments) {
    // The command behind "--" belongs to the ranks; CLI11 must not see its flags.
    const std::size_t own = launch_arguments(arguments);
    words_ = arguments.subspan(std::min(own + 1, arguments.size()));
    arguments = arguments.first(own);
    arguments_ = arguments;
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
    try {
      app_.parse(std::move(reversed));
    } catch (const CLI::CallForHelp&) {
      return HelpCommand{app_.help()};
    } catch (const CLI::CallForVersion&) {
      return VersionCommand{Output::kText};
    } catch (const CLI::ArgumentMismatch& error) {
      const std::string text = error.what();  // "--seed: 1 required ..."
      throw ConfigError(
          concat(text.substr(0, text.find(':')), ": one value must follow, and it may be given once; see --help"));
    } catch (const CLI::ParseError& error) {
      // CLI11's own sentence, as for a positional that is missing.
      throw ConfigError(concat(error.what(), "; see --help"));
    }
    // At most one, as require_subcommand() asks.
    const std::vector<CLI::App*> chosen = app_.get_subcommands();
    if (chosen.empty()) refuse_without_command(arguments);
    return command_of(*chosen.front());
  }

 private:
  // Returns a new command that collects unknown words; app_ owns it.
  CLI::App& add(const std::string& name, std::string_view what, std::string_view example) {
    CLI::App& command = *app_.add_subcommand(name, std::string(what));
    if (!example.empty()) command.footer(concat("Example:\n  ", example, "\n"));
    command.allow_extras();
    return command;
  }

  // Keeps `train_`: flags that another command does not know are looked up among those of train.
  void add_train() {
    train_ = &add("train", "Trains a policy; everything lands in a run folder.", "");
    train_->add_option("CONFIG", config_, "YAML file with keys of the list below.")->type_name("FILE");
    train_flags_.emplace(*train_, FlagSet::kTrain);
    add_ranks(*train_);
    train_->footer(train_footer());
  }

  void add_resume() {
    resume_ = &add("resume", "Goes on with a run from its newest checkpoint.",
                   "tandem resume runs/pole --total-steps 1000000");
    resume_->add_option("RUN_DIR", source_, "Folder of the run.")->required()->type_name("");
    resume_flags_.emplace(*resume_, FlagSet::kResume);
    add_ranks(*resume_);
  }

  void add_ranks(CLI::App& command) {
    command.add_option("--ranks", ranks_, "Processes to train on, started on this machine as by tandem launch. [1]")
        ->type_name("N");
    // These three have no effect on a single process.
    command.add_option("--backend", world_.backend, comm::kBackendHelp)->type_name("auto|host|gloo|nccl");
    command.add_option("--hosts-by", world_.hosts_by, comm::kHostsByHelp)->type_name("key|RANKS");
    command.add_option("--network", world_.network, comm::kNetworkHelp)->type_name("NAME");
  }

  // Commands that look at a run without going on with it.
  void add_results() {
    eval_ = &add("eval", "Plays episodes with a trained policy.", "tandem eval runs/pole --episodes 100");
    add_source(*eval_);
    add_number(*eval_, "--episodes", episodes_, "Episodes to play. [100]");
    add_number(*eval_, "--seed", seed_, "Decides the episodes' starts. [0]");
    eval_
        ->add_option("--acting", acting_,
                     "mode: the most probable actions; sample: drawn ones, as in training, which strategies for games "
                     "need. [mode]")
        ->type_name("mode|sample");
    add_plugins(*eval_);
    add_json(*eval_);

    inspect_ = &add("inspect", "Shows what a run or a checkpoint holds.", "tandem inspect runs/pole --json");
    add_source(*inspect_);
    add_json(*inspect_);

    top_ = &add("top", "Shows what each rank of a run is at, again and again until it ends.",
                "tandem top runs/pole\n  tandem top runs/pole --once");
    top_->add_option("RUN_DIR", source_, "Folder of the run.")->required()->type_name("");
    top_->add_flag("--once", once_, "Shows it once, as plain text; so it does where no terminal is.");

    plot_ = &add("plot", "Draws the learning curves of one or several runs.", "tandem plot runs/a runs/b -o both.svg");
    plot_->add_option("RUN_DIR", runs_, "Folders of the runs.")->required()->type_name("");
    plot_->add_option("-o,--output", output_file_, "The picture: .png or .svg.")->required()->type_name("FILE");

    export_ = &add("export", "Writes the trained policy for use elsewhere.", "tandem export runs/pole -o policy.pt");
    add_source(*export_);
    export_->add_option("-o,--output", output_file_, "policy.pt (TorchScript, for torch.jit.load) or .safetensors.")
        ->required()
        ->type_name("FILE");
    export_->add_option("--policy", policy_, "Which, of a run with several agents.")->type_name("NAME");
    add_plugins(*export_);
  }

  void add_launch() {
    launch_ = &add("launch", "Starts a program as several ranks on this machine.", "");
    launch_flags_.emplace(*launch_);
    scale_ = &add("simulate-scale", "Measures how DD-PPO would scale, with ranks that sleep.", "");
    scale_flags_.emplace(*scale_);
    add_json(*scale_);
  }

  void add_tune() {
    tune_ = &add("tune", "Measures layouts of a run on this machine and writes the fastest as a CONFIG.", "");
    tune_->add_option("CONFIG", config_, "YAML file as for tandem train.")->type_name("FILE");
    tune_options_.emplace(*tune_, FlagSet::kTune);
    tune_flags_.emplace(*tune_);
    add_json(*tune_);
  }

  void add_listings() {
    envs_ = &add("envs", "Lists the environments, or describes one.", "tandem envs Pendulum-v1");
    envs_->add_option("NAME", name_, "The one to describe.")->type_name("");
    add_plugins(*envs_);
    add_json(*envs_);
    version_ = &add("version", "Says what this program is made of.", "tandem version");
    add_json(*version_);
  }

  // These add the flags that several commands share; one member takes the value, since one command is chosen.
  void add_source(CLI::App& command) {
    command
        .add_option("RUN_DIR|CHECKPOINT", source_, "A run folder (its newest checkpoint), or one of its checkpoints.")
        ->required()
        ->type_name("");
  }
  void add_plugins(CLI::App& command) {
    command.add_option("--plugin", plugins_, "Shared library that brings environments.")
        ->type_name("FILE")
        ->allow_extra_args(false);
  }
  void add_json(CLI::App& command) { command.add_flag("--json", json_, "JSON instead of text."); }
  static void add_number(CLI::App& command, const char* flag, std::string& value, const char* help) {
    command.add_option(flag, value, help)->type_name("N");
  }

  // No word was a command's name; the first one was probably meant to be.
  [[noreturn]] void refuse_without_command(std::span<const std::string> arguments) const {
    if (arguments.empty()) throw ConfigError(concat("name a command\n\n", app_.help()));
    std::vector<std::string> names;
    for (const CLI::App* command : app_.get_subcommands({})) names.push_back(command->get_name());
    const std::optional<std::string> nearest = nearest_name(arguments.front(), names);
    throw ConfigError(concat("there is no command '", arguments.front(), "'; ",
                             nearest ? "the nearest one is " + *nearest : "`tandem --help` lists them"));
  }

  Command command_of(const CLI::App& chosen) {
    std::vector<std::string> faults = unknown_faults(chosen, *train_);
    // Words before the command's name.
    const std::vector<std::string> extras = app_.remaining();
    for (const std::string& text : extras)
      faults.push_back(concat("'", text, "' belongs to no command; put it behind one"));
    // These two report faults together with those of their files; all other commands end here when there are any.
    if (&chosen == train_) return train_command(std::move(faults));
    if (&chosen == tune_) return tune_command(std::move(faults));
    Command command = other_command(chosen, faults);
    if (!faults.empty()) throw ConfigError(faults);
    return command;
  }

  // A value behind an unknown flag looks like CONFIG; the flag is the fault then.
  [[nodiscard]] std::optional<std::filesystem::path> config_file(const std::vector<std::string>& faults) const {
    const bool is_stray = !faults.empty() && !std::filesystem::exists(config_);
    return config_.empty() || is_stray ? std::nullopt : std::optional<std::filesystem::path>(config_);
  }

  Command tune_command(std::vector<std::string> faults) const {
    TuneCommand command{.sources = {.file = config_file(faults)}, .output = json_ ? Output::kJson : Output::kText};
    command.sources.flags = tune_options_->settings(faults);
    command.options = tune_flags_->options(faults);
    command.sources.flag_faults = std::move(faults);
    return command;
  }

  Command train_command(std::vector<std::string> faults) {
    TrainCommand command{.sources = {.file = config_file(faults)}};
    command.sources.flags = train_flags_->settings(faults);
    command.ranks = ranks_asked(faults);
    command.sources.flag_faults = std::move(faults);
    return command;
  }

  // Commands without configuration sources; eval is the last one that is left.
  Command other_command(const CLI::App& chosen, std::vector<std::string>& faults) {
    const Output output = json_ ? Output::kJson : Output::kText;
    const std::vector<std::filesystem::path> plugins(plugins_.begin(), plugins_.end());
    if (&chosen == resume_) {
      ResumeCommand resume{.run = source_, .flags = resume_flags_->settings(faults)};
      resume.ranks = ranks_asked(faults);
      return resume;
    }
    if (&chosen == inspect_) return InspectCommand{source_, output};
    if (&chosen == top_) return TopCommand{source_, once_ ? Frames::kOne : Frames::kMany};
    if (&chosen == plot_) return PlotCommand{{runs_.begin(), runs_.end()}, output_file_};
    if (&chosen == export_) return ExportCommand{source_, output_file_, plugins, policy_};
    if (&chosen == launch_) return LaunchCommand{launch_flags_->options(words_, faults)};
    if (&chosen == scale_) {
      return SimulateScaleCommand{.options = scale_flags_->options(faults),
                                  .arguments = {arguments_.begin(), arguments_.end()},
                                  .result = scale_flags_->result(),
                                  .output = output};
    }
    if (&chosen == version_) return VersionCommand{output};
    if (&chosen == envs_) {
      return EnvsCommand{name_.empty() ? std::nullopt : std::optional(name_), plugins, output};
    }
    EvalCommand eval{.source = source_, .plugins = plugins, .output = output};
    read_number("--episodes", episodes_, 1, eval.episodes, faults);
    read_number("--seed", seed_, 0, eval.seed, faults);
    if (acting_.empty()) return eval;
    const std::optional<rl::Acting> acting = value_of<rl::Acting>(acting_);
    if (!acting) faults.push_back(concat("--acting ", acting_, ": expected ", list_of_choices<rl::Acting>()));
    eval.acting = acting.value_or(eval.acting);
    return eval;
  }

  // The ranks get the same command line but for --ranks, which would have each of them start ranks again.
  RanksAsked ranks_asked(std::vector<std::string>& faults) const {
    RanksAsked asked{.world = world_};
    if (ranks_.empty()) return asked;
    asked.count = read_ranks(ranks_, faults);
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const std::string& argument = arguments_[i];
      if (argument == "--ranks")
        ++i;  // and its value
      else if (!argument.starts_with("--ranks="))
        asked.arguments.push_back(argument);
    }
    return asked;
  }

  // Leaves the default where the flag was not given or is at fault.
  static void read_number(const char* flag, const std::string& text, std::int64_t least, std::int64_t& value,
                          std::vector<std::string>& faults) {
    if (text.empty()) return;
    const std::optional<std::int64_t> number = read_integer(text);
    if (number && *number >= least) {
      value = *number;
    } else {
      faults.push_back(concat(flag, " ", describe(RawValue::of_text(text)), ": expected an integer at least ", least));
    }
  }

  comm::WorldFlags world_;
  std::string config_, source_, output_file_, name_, policy_, episodes_, seed_, acting_, ranks_;
  std::vector<std::string> runs_, plugins_;
  bool json_ = false, once_ = false;
  CLI::App app_;
  CLI::App *train_ = nullptr, *resume_ = nullptr, *eval_ = nullptr, *inspect_ = nullptr, *top_ = nullptr,
           *plot_ = nullptr, *export_ = nullptr, *envs_ = nullptr, *launch_ = nullptr, *scale_ = nullptr,
           *tune_ = nullptr, *version_ = nullptr;
  std::optional<OptionFlags> train_flags_, resume_flags_, tune_options_;
  std::optional<LaunchFlags> launch_flags_;
  std::optional<ScaleFlags> scale_flags_;
  std::optional<TuneFlags> tune_flags_;
  std::span<const std::string> arguments_;  // of the program, without those of a command to launch
  std::span<const std::string> words_;      // of the command to launch
};

}  // namespace

Command read_command_line(std::span<const std::string> arguments) { return CommandLine().read(arguments); }

}  // namespace tandem::app
