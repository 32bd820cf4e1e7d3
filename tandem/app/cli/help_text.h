// app/cli/help_text.h: the longer texts of --help.
//
// Threads: free functions, but after all algorithms are registered: train_footer() lists their options.
#pragma once
#include <string>

namespace tandem::app {

/// The one sentence at the head of `tandem --help`.
[[nodiscard]] std::string program_description();
/// First steps.
[[nodiscard]] std::string program_footer();
/// An example, and all keys.
[[nodiscard]] std::string train_footer();

}  // namespace tandem::app
