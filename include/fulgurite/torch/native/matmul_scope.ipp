#pragma once
// The bodies of torch/native/matmul_scope.hpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <dlfcn.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_ops.h>
#include <ATen/ops/baddbmm_ops.h>
#include <ATen/ops/bmm_ops.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_ops.h>
#include <ATen/ops/native_layer_norm_backward_ops.h>
#include <ATen/ops/native_layer_norm_ops.h>
#include <ATen/ops/sum_ops.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <fulgurite/torch/native/fastest.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/native/products.hpp>

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
  int (*current)(void** context) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*use)(void* context) = nullptr;
  int (*recording)(void* stream, int* status) = nullptr;

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
    take(current, "cuCtxGetCurrent");
    take(retain, "cuDevicePrimaryCtxRetain");
    take(use, "cuCtxSetCurrent");
    take(recording, "cuStreamIsCapturing");
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

/// While it lives, this device and its context are the current ones of the thread, as CUDA's driver needs. LibTorch's
/// own guards lie below the key at which operators are intercepted, and a new thread has no context.
class DriverScope {
 public:
  DriverScope(GpuCompiler const& with, c10::Device device) : guard_(device) {
    void* context = nullptr;
    if (with.current(&context) == 0 && context == nullptr && with.retain(&context, device.index()) == 0)
      with.use(context);
  }

 private:
  c10::DeviceGuard guard_;
};

FULGURITE_BULK_BODY void* current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device).native_handle();
}

FULGURITE_BULK_BODY bool is_recording_graph(c10::Device device) {
  auto const& with = GpuCompiler::of_process();
  if (!with) return false;
  DriverScope const scope(with, device);
  int status = 0;
  return with.recording(current_stream(device), &status) == 0 && status != 0;
}

/// The loaded module; null if something fails.
FULGURITE_BODY void* compiled(GpuCompiler const& with, std::string const& source, c10::Device device) {
  constexpr int major_version = 75, minor_version = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
  int major = 0, minor = 0;
  if (with.attribute(&major, major_version, device.index()) != 0) return nullptr;
  if (with.attribute(&minor, minor_version, device.index()) != 0) return nullptr;
  auto const architecture = "--gpu-architecture=sm_" + std::to_string(major) + std::to_string(minor);
  char const* const options[] = {architecture.c_str(), "--fmad=false", "--std=c++17"};
  void *program = nullptr, *module = nullptr;
  if (with.create(&program, source.c_str(), "fulgurite.cu", 0, nullptr, nullptr) != 0) return nullptr;
  std::size_t size = 0;
  std::vector<char> code;
  bool const good = with.compile(program, 3, options) == 0 && with.size(program, &size) == 0;
  code.resize(size);
  bool const taken = good && with.code(program, code.data()) == 0;
  with.destroy(&program);
  return taken && with.load(&module, code.data()) == 0 ? module : nullptr;
}

FULGURITE_BODY GpuKernel const* GpuKernel::of(std::string const& source, std::string const& name, c10::Device device) {
  struct Loaded {
    void* module = nullptr;
    std::map<std::string, GpuKernel> kernels = {};
  };
  static std::mutex mutex;
  static auto& kept = *new std::map<std::pair<int, std::string>, Loaded>;  // threads may use it until the very end
  auto const& with = GpuCompiler::of_process();
  if (!with) return nullptr;
  std::lock_guard const lock(mutex);
  auto found = kept.find({device.index(), source});
  if (found == kept.end()) {
    if (is_recording_graph(device)) return nullptr;
    DriverScope const scope(with, device);
    found = kept.emplace(std::pair(int{device.index()}, source), Loaded{compiled(with, source, device)}).first;
  }
  auto& [module, kernels] = found->second;
  if (module == nullptr) return nullptr;
  auto const known = kernels.find(name);
  if (known != kernels.end()) return &known->second;
  DriverScope const scope(with, device);
  void* function = nullptr;
  if (with.function(&function, module, name.c_str()) != 0) return nullptr;
  return &kernels.emplace(name, GpuKernel(function, device)).first->second;
}

FULGURITE_BULK_BODY void GpuKernel::launch(std::int64_t blocks, int threads, void** arguments) const {
  auto const& with = GpuCompiler::of_process();
  DriverScope const scope(with, device_);
  auto const failed = with.launch(function_, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1,
                                  0, current_stream(device_), arguments, nullptr);
  TORCH_CHECK(failed == 0, "a kernel of this library could not be launched: CUDA's error ", failed);
}

/// A block has 32 threads beside each other, with WIDTH columns each, and 8 threads below each other, with every eighth
/// row. `partial` sums some rows per block; `finish` adds these sums.
inline constexpr char row_sums_source[] = R"(
#ifdef HALF_WIDTH
typedef unsigned short Number;
__device__ float value(Number x) { return __uint_as_float((unsigned)x << 16); }
__device__ Number number(float x) {
  if (x != x) return 0x7fff;
  unsigned const bits = __float_as_uint(x);
  return (Number)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
#else
typedef float Number;
__device__ float value(Number x) { return x; }
__device__ Number number(float x) { return x; }
#endif
constexpr int tile = 32 * WIDTH;
struct alignas(WIDTH * sizeof(Number)) Some { Number at[WIDTH]; };

__device__ void below(float (&sums)[8][tile], float const (&own)[WIDTH], float* to, int columns, int column, int tx,
                      int ty) {
  for (int k = 0; k != WIDTH; ++k) sums[ty][WIDTH * tx + k] = own[k];
  __syncthreads();
  if (ty < WIDTH) {
    int const at = 32 * ty + tx;
    float sum = 0;
    for (int i = 0; i != 8; ++i) sum += sums[i][at];
    if (column + at < columns) to[column + at] = sum;
  }
  __syncthreads();
}

extern "C" __global__ void partial(long long rows, int columns, int tiles, int each, Number const* x, float* sums) {
  __shared__ float shared[8][tile];
  int const tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
  int const column = tile * (blockIdx.x % tiles), own = column + WIDTH * tx;
  long long const part = blockIdx.x / tiles, first = part * each;
  long long const last = first + each < rows ? first + each : rows;
  float sum[WIDTH] = {};
  if (own < columns) {
    #pragma unroll 4
    for (long long row = first + ty; row < last; row += 8) {
      Some const from = *(Some const*)(x + row * columns + own);
      for (int k = 0; k != WIDTH; ++k) sum[k] += value(from.at[k]);
    }
  }
  below(shared, sum, sums + part * columns, columns, column, tx, ty);
}

extern "C" __global__ void partial_of_norm(long long rows, int columns, int tiles, int each, Number const* gradient,
                                           Number const* x, float const* mean, float const* rstd, float* sums,
                                           float* scaled) {
  __shared__ float shared[8][tile];
  int const tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
  int const column = tile * (blockIdx.x % tiles), own = column + WIDTH * tx;
  long long const part = blockIdx.x / tiles, first = part * each;
  long long const last = first + each < rows ? first + each : rows;
  float sum[WIDTH] = {}, product[WIDTH] = {};
  if (own < columns) {
    #pragma unroll 4
    for (long long row = first + ty; row < last; row += 8) {
      Some const from = *(Some const*)(gradient + row * columns + own), by = *(Some const*)(x + row * columns + own);
      float const m = mean[row], s = rstd[row];
      for (int k = 0; k != WIDTH; ++k) {
        sum[k] += value(from.at[k]);
        product[k] += value(from.at[k]) * ((value(by.at[k]) - m) * s);
      }
    }
  }
  below(shared, sum, sums + part * columns, columns, column, tx, ty);
  below(shared, product, scaled + part * columns, columns, column, tx, ty);
}

extern "C" __global__ void finish(int parts, int columns, float const* sums, Number* to) {
  __shared__ float shared[8][32];
  int const tx = threadIdx.x & 31, ty = threadIdx.x >> 5, column = 32 * blockIdx.x + tx;
  float sum = 0;
  if (column < columns) {
    #pragma unroll 4
    for (int part = ty; part < parts; part += 8) sum += sums[(long long)part * columns + column];
  }
  shared[ty][tx] = sum;
  __syncthreads();
  if (ty != 0 || column >= columns) return;
  for (int i = 1; i != 8; ++i) sum += shared[i][tx];
  to[column] = number(sum);
}
)";

/// A warp normalizes one row, of which each thread keeps PIECES times four numbers in registers.
inline constexpr char layer_norm_source[] = R"(
struct alignas(16) Four { float at[4]; };
__device__ float of_warp(float x) {
  for (int apart = 16; apart != 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
  return x;
}
extern "C" __global__ void normalize(long long rows, float eps, Four const* x, Four const* weight, Four const* bias,
                                     Four* to, float* means, float* deviations) {
  int const lane = threadIdx.x & 31, wide = 32 * PIECES;
  long long const row = blockIdx.x * 8LL + (threadIdx.x >> 5);
  if (row >= rows) return;
  Four own[PIECES];
  float sum = 0, squares = 0;
  for (int i = 0; i != PIECES; ++i) {
    own[i] = x[row * wide + 32 * i + lane];
    for (int k = 0; k != 4; ++k) sum += own[i].at[k];
  }
  float const mean = of_warp(sum) / (4 * wide);
  for (int i = 0; i != PIECES; ++i)
    for (int k = 0; k != 4; ++k) squares += (own[i].at[k] - mean) * (own[i].at[k] - mean);
  float const rstd = 1 / sqrtf(of_warp(squares) / (4 * wide) + eps);
  for (int i = 0; i != PIECES; ++i) {
    Four const w = weight[32 * i + lane], b = bias[32 * i + lane];
    for (int k = 0; k != 4; ++k) own[i].at[k] = (own[i].at[k] - mean) * rstd * w.at[k] + b.at[k];
    to[row * wide + 32 * i + lane] = own[i];
  }
  if (lane != 0) return;
  means[row] = mean;
  deviations[row] = rstd;
}
)";

/// The kernels for one type on one GPU.
struct RowSums {
  GpuKernel const *partial = nullptr, *partial_of_norm = nullptr, *finish = nullptr;

  static RowSums of(at::ScalarType type, int width, at::Device device) {
    static std::mutex mutex;
    static auto& kept = *new std::map<std::tuple<at::ScalarType, int, int>, RowSums>;
    std::lock_guard const lock(mutex);
    auto& known = kept[{type, width, device.index()}];
    if (known) return known;
    auto const source = std::string(type == at::kBFloat16 ? "#define HALF_WIDTH\n" : "") + "#define WIDTH " +
                        std::to_string(width) + "\n" + row_sums_source;
    return known = {GpuKernel::of(source, "partial", device), GpuKernel::of(source, "partial_of_norm", device),
                    GpuKernel::of(source, "finish", device)};
  }
  explicit operator bool() const { return partial != nullptr && partial_of_norm != nullptr && finish != nullptr; }
};

/// How a matrix is cut: tiles of 32 threads with `width` columns each, and parts of `each` rows.
struct RowParts {
  long long rows;
  int columns, width, tiles, each, parts;

  RowParts(std::int64_t of_rows, std::int64_t of_columns)
      : rows(of_rows),
        columns(static_cast<int>(of_columns)),
        width(columns % 4 == 0   ? 4
              : columns % 2 == 0 ? 2
                                 : 1),
        tiles((columns + 32 * width - 1) / (32 * width)) {
    auto const most = std::clamp<std::int64_t>(512 / tiles, 16, 256);
    each = static_cast<int>(rows <= few ? rows : std::max<std::int64_t>(16, (rows + most - 1) / most));
    parts = static_cast<int>((rows + each - 1) / each);
  }
  /// True where LibTorch's kernels take longer.
  static bool pays(std::int64_t rows, std::int64_t columns) {
    return rows >= 16 && (rows <= few || rows >= 512) && columns >= 8 && columns <= 16384;
  }
  static constexpr std::int64_t few = 128;  ///< so many rows are summed by one block
};

/// The kernel for rows of `pieces` times 128 numbers.
FULGURITE_BULK_BODY GpuKernel const* layer_norm_kernel(int pieces, at::Device device) {
  return GpuKernel::of("#define PIECES " + std::to_string(pieces) + "\n" + layer_norm_source, "normalize", device);
}

/// True for a plain tensor on a GPU that the kernels can read in pieces of 16 bytes.
FULGURITE_BULK_BODY bool is_plain_on_gpu(at::Tensor const& x) {
  return x.is_cuda() && !x.is_nested() && !x.has_names() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.is_contiguous() &&
         reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

FULGURITE_BULK_BODY void finish_row_sums(RowSums const& kernels, RowParts cut, at::Tensor const& sums,
                                         at::Tensor const& to) {
  auto const* from = static_cast<float const*>(sums.const_data_ptr());
  auto* result = to.mutable_data_ptr();
  void* arguments[] = {&cut.parts, &cut.columns, &from, &result};
  kernels.finish->launch((cut.columns + 31) / 32, 256, arguments);
}

/// In front of aten::sum over dimensions: while a scope of Matmul::fastest is open, our kernels for float32 and
/// bfloat16 on a GPU where the leading dimensions are summed. They add in float32, rows in parts of a fixed length, so
/// that a result has the same bits in each run.
FULGURITE_BULK_BODY at::Tensor sum_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x,
                                               at::OptionalIntArrayRef dimensions, bool keeps,
                                               std::optional<at::ScalarType> type) {
  auto const libtorch = [&] {
    return at::_ops::sum_dim_IntList::redispatch(keys & below_products, x, dimensions, keeps, type);
  };
  if (on_this_thread() != Matmul::fastest || !x.is_cuda()) return libtorch();
  // The first dimensions, in order, and no others.
  if (!dimensions || dimensions->empty() || static_cast<std::int64_t>(dimensions->size()) >= x.dim()) return libtorch();
  for (std::size_t i = 0; i != dimensions->size(); ++i)
    if ((*dimensions)[i] != static_cast<std::int64_t>(i)) return libtorch();
  auto const rest = x.sizes().slice(dimensions->size());
  std::int64_t columns = 1;
  for (auto const size : rest) columns *= size;
  if (columns == 0 || !RowParts::pays(x.numel() / columns, columns) || !is_plain_on_gpu(x) ||
      (type && *type != x.scalar_type()))
    return libtorch();
  RowParts cut(x.numel() / columns, columns);
  auto const kernels = RowSums::of(x.scalar_type(), cut.width, x.device());
  if (!kernels) return libtorch();
  std::vector<std::int64_t> sizes(keeps ? dimensions->size() : 0, 1);
  sizes.insert(sizes.end(), rest.begin(), rest.end());
  auto const result = at::empty(sizes, x.options());
  bool const at_once = cut.parts == 1 && x.scalar_type() == at::kFloat;
  auto const sums = at_once ? result : at::empty({cut.parts, columns}, x.options().dtype(at::kFloat));
  auto const* from = x.const_data_ptr();
  auto* to = sums.mutable_data_ptr();
  void* arguments[] = {&cut.rows, &cut.columns, &cut.tiles, &cut.each, &from, &to};
  kernels.partial->launch(std::int64_t{cut.parts} * cut.tiles, 256, arguments);
  if (!at_once) finish_row_sums(kernels, cut, sums, result);
  return result;
}

/// In front of aten::native_layer_norm_backward: likewise the gradients of weight and bias.
FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor, at::Tensor>
layer_norm_backward_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& gradient, at::Tensor const& x,
                                c10::SymIntArrayRef shape, at::Tensor const& mean, at::Tensor const& rstd,
                                std::optional<at::Tensor> const& weight, std::optional<at::Tensor> const& bias,
                                std::array<bool, 3> wanted) {
  auto const libtorch = [&](std::array<bool, 3> parts) {
    return at::_ops::native_layer_norm_backward::redispatch(keys & below_products, gradient, x, shape, mean, rstd,
                                                            weight, bias, parts);
  };
  if (on_this_thread() != Matmul::fastest || !x.is_cuda() || !wanted[1] || !wanted[2]) return libtorch(wanted);
  auto const rows = mean.numel(), columns = rows == 0 ? 0 : x.numel() / rows;
  auto const fits = [&](at::Tensor const& numbers) {
    return numbers.scalar_type() == at::kFloat && numbers.is_contiguous() && numbers.device() == x.device() &&
           numbers.numel() == rows;
  };
  if (!RowParts::pays(rows, columns) || !is_plain_on_gpu(x) || !is_plain_on_gpu(gradient) ||
      gradient.scalar_type() != x.scalar_type() || gradient.device() != x.device() || gradient.sizes() != x.sizes() ||
      shape.size() != 1 || !weight || weight->scalar_type() != x.scalar_type() || weight->numel() != columns ||
      x.size(-1) != columns || !fits(mean) || !fits(rstd))
    return libtorch(wanted);
  RowParts cut(rows, columns);
  auto const kernels = RowSums::of(x.scalar_type(), cut.width, x.device());
  if (!kernels) return libtorch(wanted);
  auto const sums = at::empty({2, cut.parts, columns}, x.options().dtype(at::kFloat));
  auto const of_weight = at::empty(weight->sizes(), x.options()), of_bias = at::empty(weight->sizes(), x.options());
  auto const plain = sums.select(0, 0), scaled = sums.select(0, 1);
  auto const *from = gradient.const_data_ptr(), *by = x.const_data_ptr(), *means = mean.const_data_ptr(),
             *deviations = rstd.const_data_ptr();
  auto *to = plain.mutable_data_ptr(), *to_scaled = scaled.mutable_data_ptr();
  void* arguments[] = {&cut.rows, &cut.columns, &cut.tiles,  &cut.each, &from,
                       &by,       &means,       &deviations, &to,       &to_scaled};
  kernels.partial_of_norm->launch(std::int64_t{cut.parts} * cut.tiles, 256, arguments);
  finish_row_sums(kernels, cut, plain, of_bias);
  finish_row_sums(kernels, cut, scaled, of_weight);
  auto const of_x = wanted[0] ? std::get<0>(libtorch({true, false, false})) : at::Tensor();
  return {of_x, of_weight, of_bias};
}

/// In front of aten::native_layer_norm: likewise for float32 and rows of 128, 256, ... 1024 numbers, with a weight and
/// a bias.
FULGURITE_BULK_BODY std::tuple<at::Tensor, at::Tensor, at::Tensor>
layer_norm_or_libtorch(c10::DispatchKeySet keys, at::Tensor const& x, c10::SymIntArrayRef shape,
                       std::optional<at::Tensor> const& weight, std::optional<at::Tensor> const& bias, double eps) {
  auto const libtorch = [&] {
    return at::_ops::native_layer_norm::redispatch(keys & below_products, x, shape, weight, bias, eps);
  };
  if (on_this_thread() != Matmul::fastest || !x.is_cuda() || shape.size() != 1 || !weight || !bias) return libtorch();
  constexpr std::int64_t piece = 128, most = 8;  // numbers that a warp takes at once, and how often
  auto const columns = shape[0].guard_int(__FILE__, __LINE__);
  auto const fits = [&](at::Tensor const& numbers) {
    return is_plain_on_gpu(numbers) && numbers.scalar_type() == at::kFloat && numbers.device() == x.device();
  };
  auto const is_row = [&](at::Tensor const& numbers) {
    return fits(numbers) && numbers.dim() == 1 && numbers.numel() == columns;
  };
  if (columns < piece || columns % piece != 0 || columns > most * piece || !fits(x) || x.dim() == 0 ||
      x.size(-1) != columns || x.numel() == 0 || !is_row(*weight) || !is_row(*bias))
    return libtorch();
  auto const* const kernel = layer_norm_kernel(static_cast<int>(columns / piece), x.device());
  if (kernel == nullptr) return libtorch();
  long long rows = x.numel() / columns;
  auto sizes = x.sizes().vec();
  auto const result = at::empty(sizes, x.options());
  sizes.back() = 1;
  auto const mean = at::empty(sizes, x.options()), rstd = at::empty(sizes, x.options());
  auto const *from = x.const_data_ptr(), *by = weight->const_data_ptr(), *plus = bias->const_data_ptr();
  auto *to = result.mutable_data_ptr(), *means = mean.mutable_data_ptr(), *deviations = rstd.mutable_data_ptr();
  auto small = static_cast<float>(eps);
  void* arguments[] = {&rows, &small, &from, &by, &plus, &to, &means, &deviations};
  kernel->launch((rows + 7) / 8, 256, arguments);
  return {result, mean, rstd};
}

FULGURITE_BODY bool intercepts_on_gpu() {
  static bool const done = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (auto const& name :
         {c10::OperatorName("aten::sum", "dim_IntList"), c10::OperatorName("aten::native_layer_norm", ""),
          c10::OperatorName("aten::native_layer_norm_backward", "")})
      if (auto const op = dispatcher.findSchema(name); !op || op->hasKernelForDispatchKey(product_key)) return false;
    // Never deleted; through this static pointer a leak checker still reaches it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    library->impl("sum.dim_IntList", TORCH_FN(sum_or_libtorch));
    library->impl("native_layer_norm", TORCH_FN(layer_norm_or_libtorch));
    library->impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward_or_libtorch));
    return true;
  }();
  return done;
}

FULGURITE_BULK_BODY bool intercepts() {
  static bool const done = [] {
    if (!process_kernels()) return false;
    for (auto const name : intercepted) {
      auto const op = c10::Dispatcher::singleton().findSchema({std::string(name), ""});
      if (!op || op->hasKernelForDispatchKey(product_key)) return false;
    }
    // Never deleted; through this static pointer a leak checker still reaches it.
    static auto* const library = new torch::Library(torch::Library::IMPL, "aten", product_key, __FILE__, __LINE__);
    library->impl("mm", TORCH_FN(multiplied<at::_ops::mm>));
    library->impl("bmm", TORCH_FN(multiplied<at::_ops::bmm>));
    library->impl("addmm", TORCH_FN(multiplied_and_added<at::_ops::addmm>));
    library->impl("baddbmm", TORCH_FN(multiplied_and_added<at::_ops::baddbmm>));
    intercept_others(*library);
    return true;
  }();
  return done;
}

FULGURITE_BULK_BODY std::vector<std::string> products_account(Matmul how) {
  if (how == Matmul::libtorch) return {"matrix products: LibTorch's, as was asked for"};
  if (!process_kernels()) return {"matrix products: LibTorch's (this program is built without LIBXSMM)"};
  auto text = Verdicts::of_process(how).account();
  if (text.empty())
    text = "matrix products: LibTorch's; none was computed so far that LIBXSMM has faster on this processor";
  else if (how != Matmul::certified) text += "; not counted: those that the rule for this processor leaves to LibTorch";
  return {std::move(text)};
}

}  // namespace fulgurite::libtorch::native
