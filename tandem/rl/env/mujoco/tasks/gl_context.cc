// The constants are those of the registries of EGL and OSMesa, whose headers are no part of a plain system.
#include "tandem/rl/env/mujoco/tasks/gl_context.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/library/shared_library.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_faults.h"

namespace tandem::rl {
namespace {

constexpr const char* kEglFile = "libEGL.so.1";
constexpr const char* kOsMesaFile = "libOSMesa.so.8";

template <typename Function>
void find_gl(SharedLibrary& library, const char* name, Function& function, std::string& why) {
  function = reinterpret_cast<Function>(library.find(name));
  if (function == nullptr && why.empty()) why = library.why_not();
}

// MuJoCo looks for OpenGL's functions among the symbols that all libraries of the process may use.
void show_to_mujoco(const char* file) { const SharedLibrary shown(file, SharedLibrary::Symbols::kGlobal); }

struct Egl {
  using Display = void*;
  using Context = void*;
  static constexpr int kOpenGlApi = 0x30A2;
  static constexpr int kDevicePlatform = 0x313F, kSurfacelessPlatform = 0x31DD;
  static constexpr int kMostDevices = 32;

  void* (*get_proc_address)(const char*) = nullptr;
  unsigned (*initialize)(Display, int*, int*) = nullptr;
  unsigned (*choose_config)(Display, const int*, void**, int, int*) = nullptr;
  unsigned (*bind_api)(unsigned) = nullptr;
  Context (*create_context)(Display, void*, Context, const int*) = nullptr;
  unsigned (*destroy_context)(Display, Context) = nullptr;
  unsigned (*make_current)(Display, void*, void*, Context) = nullptr;
  // Extensions; null where there are none.
  unsigned (*query_devices)(int, void**, int*) = nullptr;
  Display (*platform_display)(unsigned, void*, const int*) = nullptr;

  std::string load() {
    SharedLibrary library(kEglFile);
    std::string why = library.why_not();
    find_gl(library, "eglGetProcAddress", get_proc_address, why);
    find_gl(library, "eglInitialize", initialize, why);
    find_gl(library, "eglChooseConfig", choose_config, why);
    find_gl(library, "eglBindAPI", bind_api, why);
    find_gl(library, "eglCreateContext", create_context, why);
    find_gl(library, "eglDestroyContext", destroy_context, why);
    find_gl(library, "eglMakeCurrent", make_current, why);
    if (!why.empty()) return why;
    query_devices = reinterpret_cast<decltype(query_devices)>(get_proc_address("eglQueryDevicesEXT"));
    platform_display = reinterpret_cast<decltype(platform_display)>(get_proc_address("eglGetPlatformDisplayEXT"));
    return platform_display == nullptr ? concat(kEglFile, " has no eglGetPlatformDisplayEXT()") : "";
  }

  [[nodiscard]] std::vector<void*> devices() const {
    std::array<void*, kMostDevices> found{};
    int count = 0;
    if (query_devices == nullptr || query_devices(kMostDevices, found.data(), &count) == 0) return {};
    return {found.begin(), found.begin() + count};
  }

  // A context that can be entered; null where this display has none.
  [[nodiscard]] Context context_of(Display display) const {
    // Colours of 8 bits, depth of 24, a stencil, OpenGL; nothing that could be seen.
    static constexpr std::array<int, 19> kWanted{0x3024, 8, 0x3023, 8,      0x3022, 8,      0x3021, 8,      0x3025, 24,
                                                 0x3026, 8, 0x303F, 0x308E, 0x3033, 0x0001, 0x3040, 0x0008, 0x3038};
    if (display == nullptr || initialize(display, nullptr, nullptr) == 0) return nullptr;
    void* config = nullptr;
    int count = 0;
    if (choose_config(display, kWanted.data(), &config, 1, &count) == 0 || count < 1) return nullptr;
    if (bind_api(kOpenGlApi) == 0) return nullptr;
    Context context = create_context(display, config, nullptr, nullptr);
    if (context == nullptr || make_current(display, nullptr, nullptr, context) != 0) return context;
    (void)destroy_context(display, context);
    return nullptr;
  }
};

class EglContext final : public GlContext {
 public:
  // `why` says why there is none, where there is none.
  EglContext(const std::string& device, std::string& why) {
    why = egl_.load();
    if (!why.empty()) return;
    const std::vector<void*> devices = egl_.devices();
    std::span<void* const> tried = devices;
    if (!device.empty()) {
      const auto number = parse_number<std::size_t>(device);
      if (!number || *number >= devices.size())
        throw NoDrawing(concat("MUJOCO_EGL_DEVICE_ID=", device, ": EGL has ", devices.size(), " devices, from 0 on"));
      tried = tried.subspan(*number, 1);
    }
    for (void* const each : tried)
      if (take(egl_.platform_display(Egl::kDevicePlatform, each, nullptr))) return;
    if (device.empty() && take(egl_.platform_display(Egl::kSurfacelessPlatform, nullptr, nullptr))) return;
    why = concat(kEglFile, " has no OpenGL without a screen, on none of ", tried.size(), " devices");
  }
  ~EglContext() override {
    if (context_ != nullptr) (void)egl_.destroy_context(display_, context_);
  }

  void enter() override {
    // What a thread binds to is its own.
    (void)egl_.bind_api(Egl::kOpenGlApi);
    if (egl_.make_current(display_, nullptr, nullptr, context_) == 0)
      throw EnvError("EGL refuses its context of OpenGL");
  }
  void leave() override { (void)egl_.make_current(display_, nullptr, nullptr, nullptr); }

 private:
  bool take(Egl::Display display) {
    display_ = display;
    context_ = egl_.context_of(display);
    if (context_ != nullptr) leave();
    return context_ != nullptr;
  }

  Egl egl_;
  Egl::Display display_ = nullptr;
  Egl::Context context_ = nullptr;
};

class OsMesaContext final : public GlContext {
 public:
  explicit OsMesaContext(std::string& why) {
    SharedLibrary library(kOsMesaFile);
    why = library.why_not();
    find_gl(library, "OSMesaCreateContextExt", create_, why);
    find_gl(library, "OSMesaDestroyContext", destroy_, why);
    find_gl(library, "OSMesaMakeCurrent", make_current_, why);
    if (!why.empty()) return;
    context_ = create_(kRgba, 24, 8, 0, nullptr);
    if (context_ == nullptr) why = concat(kOsMesaFile, " makes no context");
  }
  ~OsMesaContext() override {
    if (context_ != nullptr) destroy_(context_);
  }

  void enter() override {
    if (make_current_(context_, screen_.data(), kUnsignedByte, kSide, kSide) == 0)
      throw EnvError("OSMesa refuses its context of OpenGL");
  }
  void leave() override { (void)make_current_(nullptr, nullptr, 0, 0, 0); }

 private:
  static constexpr unsigned kRgba = 0x1908, kUnsignedByte = 0x1401;
  static constexpr int kSide = 16;

  void* (*create_)(unsigned, int, int, int, void*) = nullptr;
  void (*destroy_)(void*) = nullptr;
  unsigned char (*make_current_)(void*, void*, unsigned, int, int) = nullptr;
  void* context_ = nullptr;
  // OSMesa wants memory in the place of a screen; MuJoCo draws into a buffer of its own.
  std::array<std::uint32_t, std::size_t{kSide} * kSide> screen_{};
};

// The kind of this process's contexts; empty before the first.
struct KindInUse {
  Mutex mutex;
  std::string kind TANDEM_GUARDED_BY(mutex);
};
KindInUse& kind_in_use() {
  static KindInUse it;
  return it;
}

std::unique_ptr<GlContext> made(const std::string& kind, const std::string& egl_device, std::string& why) {
  if (kind == "egl") {
    auto context = std::make_unique<EglContext>(egl_device, why);
    if (!why.empty()) return nullptr;
    show_to_mujoco(kEglFile);
    return context;
  }
  auto context = std::make_unique<OsMesaContext>(why);
  if (!why.empty()) return nullptr;
  show_to_mujoco(kOsMesaFile);
  return context;
}

}  // namespace

std::unique_ptr<GlContext> new_gl_context(const std::string& kind, const std::string& egl_device) {
  if (!kind.empty() && kind != "egl" && kind != "osmesa")
    throw NoDrawing(concat("MUJOCO_GL=", kind, ": pictures are drawn without a screen, by egl or osmesa"));
  KindInUse& in_use = kind_in_use();
  const MutexLock lock(in_use.mutex);
  if (!in_use.kind.empty() && !kind.empty() && kind != in_use.kind)
    throw NoDrawing(concat("MUJOCO_GL=", kind, ": this process draws by ", in_use.kind, " already"));
  std::vector<std::string> reasons;
  for (const std::string each : {"egl", "osmesa"}) {
    const std::string& wanted = in_use.kind.empty() ? kind : in_use.kind;
    if (!wanted.empty() && wanted != each) continue;
    std::string why;
    if (auto context = made(each, egl_device, why)) {
      in_use.kind = each;
      return context;
    }
    reasons.push_back(concat(each, ": ", why));
  }
  throw NoDrawing(concat("there is no OpenGL to draw with (", joined(reasons, {}, "; "),
                         "); install one of them: on Debian and Ubuntu `apt-get install libegl1 libgl1-mesa-dri`, or ",
                         "`apt-get install libosmesa6`; all but pictures works without"));
}

}  // namespace tandem::rl
