// app/cli/help_text.h: the longer texts of --help.
#pragma once
#include <string>

namespace tandem::app {

[[nodiscard]] std::string program_description();
/// First steps.
[[nodiscard]] std::string program_footer();
/// An example, and all keys.
[[nodiscard]] std::string train_footer();

}  // namespace tandem::app
