// CLI11 parses and formats the help. Words that it does not know are collected instead of thrown (allow_extras), so
// that one message tells of all unknown flags and of all faulty settings. Values stay texts until the option table
// reads them.
// The plan: the constructor builds all commands, each with its flags and with a function that makes its value; read()
// lets CLI11 parse and calls that of the chosen command, collecting faults. CLI11 fills the members, so a CommandLine
// is used once.
#include "tandem/app/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <tuple>

#include "tandem/app/cli/flags.h"
#include "tandem/app/cli/unknown_flags.h"
#include "tandem/app/config/nearest_name.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kProgramFooter = R"(First steps:
  tandem train --env CartPole-v1 --seed 1 --run-dir runs/pole
  tandem eval runs/pole --episodes 100
  tandem envs

Exit codes: 0 done; 2 you can fix it; 3 it failed for a reason outside; 70 a defect of tandem; 130 stopped by a signal,
with a checkpoint.
)";

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
  CommandLine() : app_("Trains policies data-parallel, with the same numbers on any number of replicas.", "tandem") {
    app_.formatter(std::make_shared<HelpFormatter>());
    app_.footer(kProgramFooter);
    app_.require_subcommand(0, 1);
    // Words that no command takes are left in remaining(), for command_of() to report.
    app_.allow_extras();
    app_.set_help_flag("-h,--help", "This text; behind a command, the command's.");
    app_.set_version_flag("--version", "", "As the command of this name.");
    add_train();
    add_resume();
    add_eval();
    add_looks();
    add_export();
    add_launch();
    add_scale();
    add_tune();
    add_listings();
  }

  Command read(std::span<const std::string> arguments) {
    // The command behind "--" belongs to the ranks of a launch. CLI11 must not see its flags, which it would take for
    // positionals of `launch`; in all other commands "--" is an argument like others.
    const bool is_launch = !arguments.empty() && arguments.front() == "launch";
    const auto end = is_launch ? std::ranges::find(arguments, "--") : arguments.end();
    if (end != arguments.end()) launch_.command.assign(end + 1, arguments.end());
    arguments_.assign(arguments.begin(), end);
    try {
      app_.parse(std::vector<std::string>(arguments_.rbegin(), arguments_.rend()));  // reversed, as CLI11 takes them
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
      throw ConfigError(concat(error.what(), example(), "; see --help"));
    }
    // At most one, as require_subcommand() asks.
    const std::vector<CLI::App*> chosen = app_.get_subcommands();
    if (chosen.empty()) refuse_without_command();
    return command_of(*chosen.front());
  }

 private:
  using Faults = std::vector<std::string>;

  // Returns a new command that collects unknown words; app_ owns it.
  CLI::App& add(const std::string& name, const char* what, const std::string& example = "") {
    CLI::App& command = *app_.add_subcommand(name, what);
    if (!example.empty()) command.footer(concat("Example:\n  ", example, "\n"));
    command.allow_extras();
    return command;
  }
  // "; e.g. tandem plot runs/a -o curve.png" of the command that was asked for; empty where it shows none.
  [[nodiscard]] std::string example() const {
    if (arguments_.empty()) return "";
    const auto commands =
        app_.get_subcommands([this](const CLI::App* command) { return command->get_name() == arguments_.front(); });
    const std::string footer = commands.empty() ? "" : commands.front()->get_footer();
    const std::size_t begin = std::string_view("Example:\n  ").size();
    return footer.starts_with("Example:") ? concat("; e.g. ", footer.substr(begin, footer.find('\n', begin) - begin))
                                          : "";
  }
  // Says how the value of a command is made once its flags were read; it may add faults.
  void reads(const CLI::App& command, std::function<Command(Faults&)> read) { reads_[&command] = std::move(read); }

  void add_train() {
    CLI::App& train = add("train", "Trains a policy; everything lands in a run folder.");
    train.add_option("CONFIG", config_, "YAML file with keys of the list below.")->type_name("FILE");
    const OptionFlags& flags = option_flags_.emplace_back(train, FlagSet::kTrain);
    add_ranks(train);
    field_flags_
        .add(train, "--seeds", "N", seeds_,
             "Runs that differ in their seed, from --seed on, one after the other, with one report. [1]")
        .within(1, 1000);
    reads(train, [this, &flags](Faults& faults) {
      return TrainCommand{.sources = sources_of(flags, faults), .ranks = ranks_asked(), .seeds = seeds_};
    });
  }

  void add_resume() {
    CLI::App& resume = add("resume", "Goes on with a run from its newest checkpoint.",
                           "tandem resume runs/pole --total-steps 1000000");
    add_run(resume);
    const OptionFlags& flags = option_flags_.emplace_back(resume, FlagSet::kResume);
    add_ranks(resume);
    reads(resume, [this, &flags](Faults& faults) {
      return ResumeCommand{.run = source_, .flags = flags.settings(faults), .ranks = ranks_asked()};
    });
  }

  void add_ranks(CLI::App& command) {
    add_ranks_flag(command, ranks_, "Processes to train on, started on this machine as by tandem launch. [1]",
                   field_flags_);
    // These three have no effect on a single process.
    command.add_option("--backend", world_.backend, comm::kBackendHelp)->type_name("auto|host|tcp|nccl");
    command.add_option("--hosts-by", world_.hosts_by, comm::kHostsByHelp)->type_name("key|RANKS");
    command.add_option("--network", world_.network, comm::kNetworkHelp)->type_name("NAME");
    command.add_option("--encrypt", world_.encrypt, comm::kEncryptHelp)->type_name("control|all");
    command.add_flag("--insecure", world_.is_insecure, comm::kInsecureHelp);
  }

  void add_eval() {
    CLI::App& command = add("eval", "Plays episodes with a trained policy.", "tandem eval runs/pole --episodes 100");
    add_source(command);
    field_flags_.add(command, "--episodes", "N", eval_.episodes, "Episodes to play. [100]").at_least(1);
    field_flags_
        .add(command, "--max-steps", "N", eval_.most_steps, "Steps after which an episode is cut short. [100000]")
        .at_least(1);
    field_flags_.add(command, "--seed", "N", eval_.seed, "Decides the episodes' starts. [0]").at_least(0);
    field_flags_.add(command, "--acting", "mode|sample", eval_.acting,
                     "mode: the most probable actions; sample: drawn ones, as in training, which strategies for games "
                     "need. [mode]");
    add_env_options(command, eval_.env_options);
    add_code(command);
    add_video_flags(command, eval_.video, field_flags_);
    add_json(command);
    reads(command, [this](Faults& faults) {
      check_video(eval_, field_flags_, faults);
      eval_.source = source_;
      eval_.code = code();
      eval_.output = output();
      return eval_;
    });
  }

  // Commands that look at a run.
  void add_looks() {
    CLI::App& inspect = add("inspect", "Shows what a run or a checkpoint holds.", "tandem inspect runs/pole --json");
    add_source(inspect);
    add_json(inspect);
    reads(inspect, [this](Faults&) { return InspectCommand{source_, output()}; });

    CLI::App& top = add("top", "Shows what each rank of a run is at, again and again until it ends.",
                        "tandem top runs/pole\n  tandem top runs/pole --once");
    add_run(top);
    top.add_flag("--once", once_, "Shows it once, as plain text; so it does where no terminal is.");
    reads(top, [this](Faults&) { return TopCommand{source_, once_ ? Frames::kOne : Frames::kMany}; });

    CLI::App& plot =
        add("plot", "Draws the learning curves of one or several runs.", "tandem plot runs/a runs/b -o both.svg");
    plot.add_option("RUN_DIR", runs_,
                    "Folders of the runs. Runs that differ in their seed alone are one curve; the folder of a training "
                    "with --seeds stands for all of its runs.")
        ->required()
        ->type_name("");
    plot.add_option("-o,--output", output_file_, "The picture: .png or .svg.")->required()->type_name("FILE");
    plot.add_option("--metric", plot_.metric, "A number of metrics.jsonl. [episode_return_mean]")->type_name("NAME");
    field_flags_.add(plot, "--x", "steps|time|episodes", plot_.x,
                     "What lies across: environment steps, seconds of training, or episodes. [steps]");
    field_flags_
        .add(plot, "--smooth", "N", plot_.half_window,
             "Lines of metrics before and after each over which the bold line is a mean; 0: none. [a sixtieth]")
        .within(0, kLargestCount);
    reads(plot, [this](Faults&) { return PlotCommand{{runs_.begin(), runs_.end()}, output_file_, plot_}; });
  }

  void add_export() {
    CLI::App& command = add("export", "Writes a policy for elsewhere.", "tandem export runs/pole -o policy.onnx");
    add_source(command);
    command.add_option("-o,--output", output_file_, ".onnx, .h, .pt or .safetensors.")->required()->type_name("FILE");
    command.add_option("--policy", name_, "Which, of a run with several agents.")->type_name("NAME");
    command.add_flag("--check", check_export_, "Runs the file and compares its actions with the policy's.");
    add_code(command);
    reads(command, [this](Faults&) {
      const auto after = check_export_ ? AfterExport::kCheck : AfterExport::kNothing;
      return ExportCommand{source_, output_file_, code(), name_, after};
    });
  }

  void add_launch() {
    CLI::App& launch = add("launch", "Starts a program as several ranks on this machine.");
    add_launch_flags(launch, launch_, field_flags_);
    reads(launch, [this](Faults& faults) {
      check_launch(launch_, field_flags_, faults);
      return LaunchCommand{launch_};
    });
  }

  void add_scale() {
    CLI::App& scale = add("simulate-scale", "Measures how DD-PPO would scale, with ranks that sleep.");
    add_scale_flags(scale, scale_, field_flags_);
    // The empty group hides the flag from the help: only this program gives it, to the ranks that it starts.
    scale.add_option("--result", output_file_, "")->group("");
    add_json(scale);
    reads(scale, [this](Faults& faults) {
      check_scale(scale_, field_flags_, faults);
      return SimulateScaleCommand{
          .options = scale_, .arguments = arguments_, .result = output_file_, .output = output()};
    });
  }

  void add_tune() {
    CLI::App& tune = add("tune", "Measures layouts of a run on this machine and writes the fastest as a CONFIG.");
    tune.add_option("CONFIG", config_, "YAML file as for tandem train.")->type_name("FILE");
    const OptionFlags& flags = option_flags_.emplace_back(tune, FlagSet::kTune);
    add_tune_flags(tune, tune_, field_flags_);
    add_json(tune);
    reads(tune, [this, &flags](Faults& faults) {
      for (const std::string& word : std::exchange(tune_.vary, {}))
        if (std::ranges::count(tune_.vary, word) == 0) tune_.vary.push_back(word);  // once each
      return TuneCommand{.sources = sources_of(flags, faults), .options = tune_, .output = output()};
    });
  }

  void add_listings() {
    CLI::App& envs = add("envs", "Lists the environments, or describes one.", "tandem envs Pendulum-v1");
    envs.add_option(
            "NAME", name_,
            "The one to describe. Of gymnasium:, gymnasium:MODULE:, pettingzoo: and ALE/, those that the Python "
            "has are listed.")
        ->type_name("");
    add_env_options(envs, envs_.env_options);
    add_code(envs);
    add_json(envs);
    reads(envs, [this](Faults& faults) {
      if (name_.empty() && !envs_.env_options.empty())
        faults.emplace_back("--env-option: options belong to an environment; name it");
      envs_.name = name_.empty() ? std::nullopt : std::optional(name_);
      envs_.plugins = code().plugins;
      envs_.python = code().python;
      envs_.output = output();
      return envs_;
    });
    CLI::App& check = add("check", "Plays an environment with random actions, and tells what is wrong with it.",
                          "tandem check --plugin ./libmine.so Mine-v0");
    check.add_option("NAME", name_, "The environment.")->required()->type_name("");
    field_flags_.add(check, "--steps", "N", check_.steps, "Steps of each of four environments. [2000]").at_least(100);
    field_flags_.add(check, "--seed", "N", check_.seed, "Decides episodes and actions. [1]").at_least(0);
    add_env_options(check, check_.env_options);
    check
        .add_option("--env-wrapper", check_.env_wrappers,
                    "Wrapper around the environment, the first one nearest to it; `tandem envs NAME` lists them.")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
    add_code(check);
    add_json(check);
    reads(check, [this](Faults&) {
      std::tie(check_.env, check_.plugins, check_.python, check_.output) =
          std::tuple(name_, code().plugins, code().python, output());
      return check_;
    });
    // The empty group hides the command from the help: only this program gives it.
    CLI::App& worker = *add("env-worker", "").group("");
    reads(worker, [](Faults&) { return EnvWorkerCommand{}; });
    CLI::App& version = add("version", "Says what this program is made of.", "tandem version");
    add_json(version);
    reads(version, [this](Faults&) { return VersionCommand{output()}; });
  }

  // These add the flags that several commands share; one member takes the value, since one command is chosen.
  void add_run(CLI::App& command) {
    command.add_option("RUN_DIR", source_, "Folder of the run.")->required()->type_name("");
  }
  void add_source(CLI::App& command) {
    command
        .add_option("RUN_DIR|CHECKPOINT", source_, "A run folder (its newest checkpoint), or one of its checkpoints.")
        ->required()
        ->type_name("");
  }
  void add_code(CLI::App& command) {
    command.add_option("--plugin", plugins_, "Shared library that brings environments.")
        ->type_name("FILE")
        ->allow_extra_args(false);
    command.add_option("--python", python_, "The Python that steps environments of gymnasium:ID.")->type_name("PATH");
  }
  static void add_env_options(CLI::App& command, std::vector<std::string>& items) {
    command.add_option("--env-option", items, "Option of the environment; `tandem envs NAME` lists them.")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false);
  }
  void add_json(CLI::App& command) { command.add_flag("--json", json_, "JSON instead of text."); }

  // No word was a command's name; the first one was probably meant to be.
  [[noreturn]] void refuse_without_command() const {
    if (arguments_.empty()) throw ConfigError(concat("name a command\n\n", app_.help()));
    std::vector<std::string> names;
    for (const CLI::App* command : app_.get_subcommands({})) names.push_back(command->get_name());
    const std::optional<std::string> nearest = nearest_name(arguments_.front(), names);
    throw ConfigError(concat("there is no command '", arguments_.front(), "'; ",
                             nearest ? "the nearest one is " + *nearest : "`tandem --help` lists them"));
  }

  Command command_of(const CLI::App& chosen) {
    Faults faults = unknown_faults(chosen, *app_.get_subcommand("train"));
    // Words before the command's name.
    const std::vector<std::string> extras = app_.remaining();
    for (const std::string& text : extras)
      faults.push_back(concat("'", text, "' belongs to no command; put it behind one"));
    // A value behind an unknown flag looks like CONFIG; the flag is the fault then.
    if (!faults.empty() && !std::filesystem::exists(config_)) config_.clear();
    field_flags_.assign(faults);
    Command command = reads_.at(&chosen)(faults);
    if (!faults.empty()) throw ConfigError(faults);
    return command;
  }

  // With all faults, which are reported together with those of the file.
  [[nodiscard]] ConfigSources sources_of(const OptionFlags& flags, Faults& faults) const {
    ConfigSources sources{.flags = flags.settings(faults)};
    if (!config_.empty()) sources.file = config_;
    sources.flag_faults = std::exchange(faults, {});
    return sources;
  }

  // The ranks get the same command line but for --ranks, which would have each of them start ranks again.
  [[nodiscard]] RanksAsked ranks_asked() const {
    RanksAsked asked{.world = world_};
    if (field_flags_.text("--ranks").empty()) return asked;
    asked.count = ranks_;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const std::string& argument = arguments_[i];
      if (argument == "--ranks")
        ++i;  // and its value
      else if (!argument.starts_with("--ranks="))
        asked.arguments.push_back(argument);
    }
    return asked;
  }

  [[nodiscard]] Output output() const { return json_ ? Output::kJson : Output::kText; }
  [[nodiscard]] NamedCode code() const {
    NamedCode code{.plugins = {plugins_.begin(), plugins_.end()}};
    if (!python_.empty()) code.python = python_;
    return code;
  }

  CheckCommand check_;
  EnvsCommand envs_;
  EvalCommand eval_;
  PlotOptions plot_;
  LaunchOptions launch_;
  ScaleOptions scale_;
  TuneOptions tune_;
  comm::WorldFlags world_;
  int ranks_ = 1;
  std::int64_t seeds_ = 1;
  std::string config_, source_, output_file_, name_, python_;
  std::vector<std::string> runs_, plugins_;
  bool json_ = false, once_ = false, check_export_ = false;
  std::vector<std::string> arguments_;  // of the program, without those of a command to launch
  FieldFlags field_flags_;
  std::deque<OptionFlags> option_flags_;
  CLI::App app_;  // holds addresses of the members before it
  std::map<const CLI::App*, std::function<Command(Faults&)>> reads_;
};

}  // namespace

Command read_command_line(std::span<const std::string> arguments) { return CommandLine().read(arguments); }

}  // namespace tandem::app
