// device/one_core.h: keeps the computations of a thread on its own core.
#pragma once

namespace tandem::device {

/// From now on LibTorch's operations of the calling thread run on this thread alone. So the order of their sums is
/// fixed, and the other cores are free for other threads. A repeated call is cheap. Threads: all.
void use_one_core();

}  // namespace tandem::device
