// sync/strategy_kind.h: the strategies as a user names them. Includes nothing of LibTorch, so that a program's options
// can hold them.
#pragma once

namespace tandem::sync {

/// The alternatives of StrategyOptions, in their order.
enum class StrategyKind { kReplicated, kDivided, kParameterServer, kAsynchronous };

/// Which replicas of the run serve variables under kParameterServer.
enum class Servers { kAll, kFirst };

/// What an asynchronous replica's mean gradient is multiplied by.
enum class Scaling {
  kByReplicas,  // 1/N for N replicas: N steps together move as far as one synchronous step
  kNone,        // each step moves as far as a synchronous one
};

}  // namespace tandem::sync
