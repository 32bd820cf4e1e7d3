// sync/strategy_kind.h: the strategies as a user names them. Includes nothing of LibTorch, so that a program's options
// can hold them.
#pragma once

namespace tandem::sync {

/// The alternatives of StrategyOptions, in their order.
enum class StrategyKind { kReplicated, kDivided, kParameterServer };

/// Which replicas of the run serve variables under kParameterServer.
enum class Servers { kAll, kFirst };

}  // namespace tandem::sync
