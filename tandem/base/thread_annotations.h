// base/thread_annotations.h: names for clang's thread safety analysis (-Wthread-safety). Other compilers see nothing.
//
// TANDEM_GUARDED_BY(mutex_) on a member, TANDEM_REQUIRES(mutex_) on a function or on a lambda that is called with the
// mutex held. Prefixed because these headers are installed beside those of other libraries.
#pragma once

#if defined(__clang__)
#define TANDEM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TANDEM_THREAD_ANNOTATION(x)
#endif

#define TANDEM_CAPABILITY(name) TANDEM_THREAD_ANNOTATION(capability(name))
#define TANDEM_SCOPED_CAPABILITY TANDEM_THREAD_ANNOTATION(scoped_lockable)
#define TANDEM_GUARDED_BY(mutex) TANDEM_THREAD_ANNOTATION(guarded_by(mutex))
#define TANDEM_PT_GUARDED_BY(mutex) TANDEM_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define TANDEM_ACQUIRED_BEFORE(...) TANDEM_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define TANDEM_REQUIRES(...) TANDEM_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TANDEM_EXCLUDES(...) TANDEM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TANDEM_ACQUIRE(...) TANDEM_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TANDEM_RELEASE(...) TANDEM_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TANDEM_TRY_ACQUIRE(...) TANDEM_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TANDEM_NO_THREAD_SAFETY_ANALYSIS TANDEM_THREAD_ANNOTATION(no_thread_safety_analysis)
