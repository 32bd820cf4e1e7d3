// device/vector_math.h: makes LibTorch's tanh, sin, sqrt and their like equally exact in all threads.
//
// LibTorch hands these functions to the vector functions of Intel's MKL. Where two threads of a process make its first
// such calls at the same time, one may be computed with fewer digits: a tanh was off by 5e-5, in about 3 of 1,000
// processes with three threads (LibTorch 2.15). After one call that nobody disturbed, all are exact.
#pragma once

namespace tandem::device {

/// Makes that first call, once a process. A repeated call is cheap. Call it before threads compute with tensors side by
/// side; a Replica and use_one_core() do. Threads: all; the others wait while one makes the call.
void begin_vector_math();

}  // namespace tandem::device
