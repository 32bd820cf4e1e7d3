// The plan: refuse a second training, keep what signals do, call the program's own command without the interpreter's
// lock, put the signals back, and give what ended the run to Python: what a callback raised, the program's error, or a
// signal, which Python then handles as it always does.
#include "python/src/training.h"

#include <ATen/Parallel.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/src/callbacks.h"
#include "python/src/environments.h"
#include "tandem/app/commands/commands.h"
#include "tandem/app/exit_code.h"
#include "tandem/app/run/run_folder.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/base/error.h"
#include "tandem/base/process.h"
#include "tandem/comm/store/launcher_environment.h"

namespace nb = nanobind;

namespace tandem::python {
namespace {

// What signals do now, and again when the object is gone.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) ::sigaction(kNumbers[i], nullptr, &kept_[i]);
  }
  ~KeptSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) ::sigaction(kNumbers[i], &kept_[i], nullptr);
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

  // Null where Ctrl-C ends the process, or is ignored: a run ends in order then, also during a callback.
  [[nodiscard]] const struct sigaction* interrupts() const {
    const bool is_handled = kept_[0].sa_handler != SIG_DFL && kept_[0].sa_handler != SIG_IGN;
    return is_handled ? &kept_[0] : nullptr;
  }

 private:
  static constexpr std::array<int, 5> kNumbers{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kNumbers.size()> kept_{};
};

// A run of one replica computes on the calling thread, with one core; torch's own number holds again afterwards.
class KeptThreads {
 public:
  KeptThreads() = default;
  ~KeptThreads() { at::set_num_threads(count_); }
  KeptThreads(const KeptThreads&) = delete;
  KeptThreads& operator=(const KeptThreads&) = delete;

 private:
  const int count_ = at::get_num_threads();
};

// A setting as the Python side gives it: key, place for messages, and None, a text or a list of texts.
app::Setting setting_of(nb::handle given) {
  app::Setting setting{nb::cast<std::string>(given[0]), {}, {app::Layer::kFlag, nb::cast<std::string>(given[1])}};
  const nb::object value = given[2];
  if (value.is_none())
    setting.value.kind = app::RawValue::Kind::kNull;
  else if (nb::isinstance<nb::str>(value))
    setting.value = app::RawValue::of_text(nb::cast<std::string>(value));
  else
    setting.value = app::RawValue::of_list(nb::cast<std::vector<std::string>>(value));
  return setting;
}

std::vector<app::Setting> settings_of(const nb::list& given) {
  std::vector<app::Setting> settings;
  for (const nb::handle each : given) settings.push_back(setting_of(each));
  return settings;
}

// The first signal, when Python handles signals again: KeyboardInterrupt of Ctrl-C, or the end of the process.
void pass_on(int number, bool is_main_thread) {
  ::raise(number);
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (is_main_thread || number != SIGINT) return;  // a handler of the user's own has returned, or it is ignored
  PyErr_SetNone(PyExc_KeyboardInterrupt);          // in another thread no handler runs
  throw nb::python_error();
}

using Run = std::function<app::ExitCode(const app::RunObserver&)>;

void run_with(const CallbackFunctions& functions, RunWishes& wishes, bool is_main_thread, const Run& run) {
  std::exception_ptr failure;
  {
    const KeptThreads threads;
    const KeptSignals kept;
    Callbacks callbacks(functions, wishes, is_main_thread ? kept.interrupts() : nullptr);
    {
      const app::RunObserver observer = callbacks.observer();
      const nb::gil_scoped_release released;
      try {
        (void)run(observer);  // the signal is looked at below, and faults are thrown
      } catch (...) {
        failure = std::current_exception();
      }
      std::cout << std::flush;  // before Python prints
    }
    callbacks.rethrow();
  }
  if (failure) std::rethrow_exception(failure);
  // Also where the run had made its last update when the signal came: it has finished, and the signal is Python's.
  if (app::last_stop_signal() == 0) return;
  wishes.stop = true;  // whatever a handler of Python's makes of the signal, the run does not go on
  pass_on(app::last_stop_signal(), is_main_thread);
}

// The folder of the run, which is chosen here where nobody names one, so that it is known afterwards.
std::string name_folder(app::ConfigSources& sources) {
  const app::TrainOptions asked = app::asked_for(sources);
  if (asked.run_dir) return asked.run_dir->string();
  // None and "auto" leave it open and give way to the name; what else is no path is a fault, which the core reports.
  std::erase_if(sources.flags, [](const app::Setting& its) {
    const bool is_open = its.value.kind == app::RawValue::Kind::kNull || its.value.text == "auto";
    return its.key == "run_dir" && is_open;
  });
  const std::string folder =
      app::new_run_path("runs", asked.env, asked.algo, std::chrono::system_clock::now()).string();
  sources.flags.push_back({"run_dir", app::RawValue::of_text(folder), {app::Layer::kFlag, "run_dir"}});
  return folder;
}

// A path as the configuration will understand it: one in a file begins at the folder of the file.
std::string whole(const app::ConfigSources& sources, std::string_view key, const std::filesystem::path& path) {
  const bool is_of_call = std::ranges::any_of(sources.flags, [key](const auto& its) { return its.key == key; });
  return is_of_call || !sources.file ? std::filesystem::absolute(path).string()
                                     : (std::filesystem::absolute(*sources.file).parent_path() / path).string();
}

// What the sources ask for in words that the Python side looks at itself.
nb::dict asked_for(const nb::list& settings, const std::optional<std::string>& config) {
  app::ConfigSources sources{.flags = settings_of(settings)};
  if (config) sources.file = *config;
  const app::TrainOptions asked = app::asked_for(sources);
  nb::dict its;
  its["env"] = asked.env;
  its["quiet"] = asked.quiet;
  its["python"] = nb::none();
  if (asked.python) {  // a name without a slash is looked up in PATH
    const bool is_name = asked.python->native().find('/') == std::string::npos;
    its["python"] = nb::cast(is_name ? asked.python->string() : whole(sources, "python", *asked.python));
  }
  nb::list plugins;
  for (const std::filesystem::path& plugin : asked.plugins) plugins.append(whole(sources, "plugins", plugin));
  its["plugins"] = plugins;
  return its;
}

// The run's folder, as a whole path: a callback may go to another one.
std::string train(const std::optional<std::string>& config, const nb::list& settings, nb::object on_update,
                  nb::object on_episode, nb::object on_checkpoint, RunWishes& wishes, bool is_main_thread) {
  app::TrainCommand command{.sources = {.flags = settings_of(settings)}, .clock_from = seconds_since_process_start()};
  if (config) command.sources.file = *config;
  std::string folder = std::filesystem::absolute(name_folder(command.sources)).string();
  run_with({std::move(on_update), std::move(on_episode), std::move(on_checkpoint)}, wishes, is_main_thread,
           [&](const app::RunObserver& observer) { return run_command(command, environments(), observer); });
  return folder;
}

std::string resume(const std::string& folder, const nb::list& settings, nb::object on_update, nb::object on_episode,
                   nb::object on_checkpoint, RunWishes& wishes, bool is_main_thread) {
  const app::ResumeCommand command{
      .run = folder, .flags = settings_of(settings), .clock_from = seconds_since_process_start()};
  run_with({std::move(on_update), std::move(on_episode), std::move(on_checkpoint)}, wishes, is_main_thread,
           [&](const app::RunObserver& observer) { return run_command(command, environments(), observer); });
  return folder;
}

}  // namespace

void bind_training(nb::module_& module) {
  bind_wishes(module);
  module.def("world_size", [] { return comm::launcher_environment().world_size; });
  module.def("asked_for", asked_for, nb::arg("settings"), nb::arg("config").none());
  module.def("train", train, nb::arg("config").none(), nb::arg("settings"), nb::arg("on_update").none(),
             nb::arg("on_episode").none(), nb::arg("on_checkpoint").none(), nb::arg("wishes"),
             nb::arg("is_main_thread"));
  module.def("resume", resume, nb::arg("folder"), nb::arg("settings"), nb::arg("on_update").none(),
             nb::arg("on_episode").none(), nb::arg("on_checkpoint").none(), nb::arg("wishes"),
             nb::arg("is_main_thread"));
}

}  // namespace tandem::python
