// rl/env/mujoco/tasks/gl_context.h: OpenGL without a screen, for pictures: by EGL, which draws on a GPU where it finds
// one and on the processor elsewhere, or by OSMesa, which draws on the processor.
//
// Both are libraries of the system. They are loaded when the first picture is drawn, and nothing of them is needed to
// build.
//
// Threads: any, but one context is entered by one thread at a time, and what OpenGL does in between is done by that
// thread. Making a context blocks on the disk.
#pragma once
#include <memory>
#include <string>

namespace tandem::rl {

class GlContext {
 public:
  virtual ~GlContext() = default;
  GlContext(const GlContext&) = delete;
  GlContext& operator=(const GlContext&) = delete;

  /// Makes it the context of the calling thread, until leave(). Throws EnvError where OpenGL refuses.
  virtual void enter() = 0;
  virtual void leave() = 0;

 protected:
  GlContext() = default;
};

/// A new context. `kind` is "egl", "osmesa", or empty: whichever of them works, in this order. `egl_device` is the
/// number of EGL's device, or empty: the first one that works.
/// Throws NoDrawing, with what was tried and what to install, where there is none, and for words that are none of
/// these. MuJoCo finds OpenGL's functions once in a process, so all contexts of a process are of the kind of the first.
[[nodiscard]] std::unique_ptr<GlContext> new_gl_context(const std::string& kind, const std::string& egl_device);

/// The time between enter() and leave().
class GlEntered {
 public:
  explicit GlEntered(GlContext& context) : context_(context) { context_.enter(); }
  ~GlEntered() { context_.leave(); }
  GlEntered(const GlEntered&) = delete;
  GlEntered& operator=(const GlEntered&) = delete;

 private:
  GlContext& context_;
};

}  // namespace tandem::rl
