// app/algo/native.h: Tandem's own algorithms, whose classes are private to their files.
//
// One object serves all runs of the process, from any thread.
#pragma once
#include <memory>

#include "tandem/app/config/algorithm.h"

namespace tandem::app {

[[nodiscard]] std::unique_ptr<const Algorithm> make_ppo();
[[nodiscard]] std::unique_ptr<const Algorithm> make_dd_ppo();
[[nodiscard]] std::unique_ptr<const Algorithm> make_impala();
[[nodiscard]] std::unique_ptr<const Algorithm> make_appo();
[[nodiscard]] std::unique_ptr<const Algorithm> make_sac();
[[nodiscard]] std::unique_ptr<const Algorithm> make_td3();
[[nodiscard]] std::unique_ptr<const Algorithm> make_ddpg();
[[nodiscard]] std::unique_ptr<const Algorithm> make_dqn();

}  // namespace tandem::app
