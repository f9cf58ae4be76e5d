#pragma once
// The bodies of torch/native/gpu_kernel.hpp.

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include <dlfcn.h>

#include <ATen/Context.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <fulgurite/torch/native/gpu_kernel.hpp>

namespace fulgurite::libtorch::native {

/// The functions of NVRTC and of the CUDA driver that are needed, from the library through which LibTorch reaches them.
/// Their types are part of both libraries' binary interface.
struct GpuCompiler {
  int (*create)(void** program, char const* source, char const* name, int headers, char const* const*,
                char const* const*) = nullptr;
  int (*compile)(void* program, int options, char const* const*) = nullptr;
  int (*size)(void* program, std::size_t*) = nullptr;
  int (*code)(void* program, char*) = nullptr;
  int (*destroy)(void** program) = nullptr;
  int (*attribute)(int* value, int which, int device) = nullptr;
  int (*load)(void** module, void const* code) = nullptr;
  int (*function)(void** function, void* module, char const* name) = nullptr;
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                void* stream, void** arguments, void** extra) = nullptr;

  static GpuCompiler const& of_process() {
    static GpuCompiler const found;
    return found;
  }
  explicit operator bool() const { return launch != nullptr; }

 private:
  GpuCompiler() {
    if (!at::globalContext().hasCUDA()) return;
    void* const library = opened();
    if (library == nullptr) return;
    bool all = true;
    auto const take = [&](auto& pointer, char const* name) {
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(dlsym(library, name));
      all = all && pointer != nullptr;
    };
    take(create, "nvrtcCreateProgram");
    take(compile, "nvrtcCompileProgram");
    take(size, "nvrtcGetCUBINSize");
    take(code, "nvrtcGetCUBIN");
    take(destroy, "nvrtcDestroyProgram");
    take(attribute, "cuDeviceGetAttribute");
    take(load, "cuModuleLoadData");
    take(function, "cuModuleGetFunction");
    take(launch, "cuLaunchKernel");
    if (!all) launch = nullptr;
  }

  /// LibTorch's library that needs both others. It lies beside LibTorch's own, where a program may not look.
  static void* opened() {
    if (auto* const library = dlopen("libcaffe2_nvrtc.so", RTLD_LAZY)) return library;
    Dl_info torch{};
    auto* const known = dlsym(RTLD_DEFAULT, "_ZN2at13globalContextEv");
    if (known == nullptr || dladdr(known, &torch) == 0) return nullptr;
    std::string path = torch.dli_fname;
    path.resize(path.rfind('/') + 1);
    return dlopen((path + "libcaffe2_nvrtc.so").c_str(), RTLD_LAZY);
  }
};

/// The loaded function; null if something fails.
FULGURITE_BODY void* compiled(GpuCompiler const& with, std::string const& source, std::string const& name,
                              c10::Device device) {
  constexpr int major_version = 75, minor_version = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  int major = 0, minor = 0;
  if (with.attribute(&major, major_version, device.index()) != 0) return nullptr;
  if (with.attribute(&minor, minor_version, device.index()) != 0) return nullptr;
  auto const architecture = "--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor);
  char const* const options[] = {architecture.c_str(), "--fmad=false", "--std=c++17"};
  void *program = nullptr, *module = nullptr, *function = nullptr;
  if (with.create(&program, source.c_str(), "fulgurite.cu", 0, nullptr, nullptr) != 0) return nullptr;
  std::size_t size = 0;
  std::vector<char> code;
  bool const good = with.compile(program, 3, options) == 0 && with.size(program, &size) == 0;
  code.resize(size);
  bool const taken = good && with.code(program, code.data()) == 0;
  with.destroy(&program);
  if (!taken || with.load(&module, code.data()) != 0) return nullptr;
  return with.function(&function, module, name.c_str()) == 0 ? function : nullptr;
}

FULGURITE_BODY GpuKernel const* GpuKernel::of(std::string const& source, std::string const& name, c10::Device device) {
  static std::mutex mutex;
  static std::map<std::tuple<int, std::string, std::string>, std::unique_ptr<GpuKernel const>> kept;
  auto const& with = GpuCompiler::of_process();
  if (!with) return nullptr;
  std::lock_guard const lock(mutex);
  auto const [at, fresh] = kept.try_emplace({device.index(), name, source});
  if (fresh)
    if (auto* const function = compiled(with, source, name, device)) at->second.reset(new GpuKernel(function, device));
  return at->second.get();
}

FULGURITE_BULK_BODY void GpuKernel::launch(std::int64_t blocks, int threads, void** arguments) const {
  auto const stream = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  auto const failed =
      GpuCompiler::of_process().launch(function_, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads),
                                       1, 1, 0, stream.native_handle(), arguments, nullptr);
  TORCH_CHECK(failed == 0, "a kernel of this library could not be launched: CUDA's error ", failed);
}

}  // namespace fulgurite::libtorch::native
