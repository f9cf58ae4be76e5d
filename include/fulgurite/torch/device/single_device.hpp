#pragma once
// The strategy of one process and one device: SingleDevice{cpu}, SingleDevice{cuda}, SingleDevice{cuda(1)},
// SingleDevice{Accelerator{"xpu"}}, SingleDevice{automatic}, SingleDevice{NamedDevice{"cuda:1"}}.

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/core/types.hpp>
#include <fulgurite/loop/parts.hpp>
#include <fulgurite/metric/metric.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/backend.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/matmul_scope.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

/// Throws an Error if LibTorch does not see this GPU or other accelerator.
void require_device(at::Device device);

/// The device that each word of policy/policies.hpp means. A name that means none is an Error.
at::Device device_of(Cpu);
at::Device device_of(Cuda device);
at::Device device_of(Accelerator const& device);
at::Device device_of(AutomaticDevice);
at::Device device_of(NamedDevice const& device);

}  // namespace fulgurite::libtorch

namespace fulgurite {

/// Lets the process keep the memory that CPU tensors have freed, for the tensors of the next step. By itself glibc
/// gives the memory of large tensors back to the system when they are freed, and each step gets it again page by page,
/// which the loop by hand pays for, too. Call it once, first in `main`, where gradients and activations have megabytes.
/// Memory is then given back only when more than `bytes`, at most 2 GB, are free at the end of the heap; tensors of 32
/// MB and more are given back as before. Returns false, and does nothing, where the C library is not glibc; nothing
/// changes either where the program has another allocator in its place.
bool keep_freed_memory(std::size_t bytes = std::size_t{1} << 30);

/// Model and batches are on one device: `make_trainer<Net>(TrainerOptions{.max_epochs = 5}, SingleDevice{cuda})`.
/// `automatic` decides when the strategy is constructed: it takes the first GPU or other accelerator if LibTorch sees
/// one, otherwise the CPU. `Accelerator{"xpu"}` is another device of LibTorch's. NamedDevice takes a name, such as from
/// the command line. On the CPU a second argument chooses the matrix products of steps: `SingleDevice{cpu,
/// Matmul::libtorch}`.
template <class Device>
class SingleDevice {
 public:
  using Backend = LibTorch;
  using Stateless = ByChoice;
  static constexpr Known on_gpu = Device::on_gpu;
  static constexpr bool is_distributed = false;
  static constexpr bool captures = false;

  explicit SingleDevice(Device device, Matmul products = Matmul::faster)
      : matmul(products), device_(libtorch::device_of(device)) {}

  /// Throws an Error if the device does not exist.
  void require_device() const { libtorch::require_device(device_); }

  /// Moves the model to the device, and converts it to the type of the precision. A GPU becomes the thread's current
  /// one, so tensors that a step creates on torch::kCUDA are on it. Throws an Error before any change if the device
  /// does not exist.
  template <class Model, class Precision>
  void setup(Model& model, Precision const&) {
    require_device();
    libtorch::make_current(device_);
    libtorch::relocate(libtorch::module_if_any(model), device_, libtorch::scalar_type(Precision::parameters));
  }

  /// Moves the model back to the CPU, in the type it was trained in.
  void teardown(auto& model) { libtorch::relocate(libtorch::module_if_any(model), at::Device(at::kCPU), std::nullopt); }

  at::Device device() const { return device_; }
  /// For rules about GPUs, if the type of the device does not determine this.
  bool is_on_gpu() const { return !device_.is_cpu(); }

  /// True if `move` reaches all tensors of a B. The tensors of a class with hidden parts stay on their device, which is
  /// only correct if they do not have to move.
  template <class B>
  static constexpr bool moves = on_gpu != Known::yes || !libtorch::is_opaque<B>;

  /// On the CPU this is the batch itself: nothing is copied. For a GPU it is a copy of the batch's handles, with the
  /// tensors moved.
  template <class B>
  decltype(auto) move(B&& batch) {
    if constexpr (on_gpu == Known::no) return static_cast<Same<B>>(std::forward<B>(batch));
    else return libtorch::moved(std::forward<B>(batch), device_);
  }

  /// Runs one step: body(batch) consists of training_step, clearing and backward. A strategy that records steps
  /// replaces this function.
  auto gradients(StepKey, auto& batch, auto&, auto&& body) {
    auto const products = matmul_scope();
    return body(batch);
  }

  /// While this scope is open, kernels are those chosen in the constructor.
  std::optional<MatmulScope> matmul_scope() const {
    bool const any = device_.is_cpu() || (device_.is_cuda() && matmul == Matmul::fastest);
    return any ? std::optional<MatmulScope>(std::in_place, matmul, device_.type()) : std::nullopt;
  }
  /// The lines that describe(trainer) prints about a strategy's work.
  std::vector<std::string> account() const {
    return device_.is_cpu() ? libtorch::native::products_account(matmul) : std::vector<std::string>();
  }

  void backward(at::Tensor const& loss, at::Tensor const& seed) { loss.backward(seed); }

  /// Called if an accumulation window ends early: scales its gradients to the mean over the batches that it had.
  void flush(auto& optimizer, double scale) { Backend::scale_gradients(optimizer.parameters(), scale); }

  bool agree(bool any_rank_says) const { return any_rank_says; }
  template <class V>
  V reduce(V value, Reduce) const {
    return value;
  }
  int rank() const { return 0; }
  int world() const { return 1; }
  /// Nothing; the choice in a file of Fastest, which has the same bits, is left out.
  void state(auto& archive) { leave_out_others(archive); }

 protected:
  Matmul matmul;

 private:
  /// A temporary is returned by value, since a reference to it would dangle.
  template <class B>
  using Same = std::conditional_t<std::is_lvalue_reference_v<B>, B, std::remove_reference_t<B>>;

  at::Device device_;
};

/// Refuses an argument that is not a device, with one sentence. The base class has the interface of a real device, so
/// that compilers report nothing else.
template <class Given>
class SingleDevice<NoDevice<Given>> : public SingleDevice<Cpu> {
 public:
  template <bool is_device = false, class... Args>
  explicit SingleDevice(Args const&...) : SingleDevice<Cpu>(cpu) {
    static_assert(is_device, "[fulgurite.policy.device] SingleDevice takes cpu, cuda, cuda(1), Accelerator{\"xpu\"} or "
                             "automatic, which are types that rules can see; a device that is named at run time is "
                             "SingleDevice{NamedDevice{\"cuda:1\"}}");
  }
};

template <DeviceTag Device>
SingleDevice(Device, Matmul = Matmul::faster) -> SingleDevice<Device>;
template <class Given>
SingleDevice(Given, Matmul = Matmul::faster) -> SingleDevice<NoDevice<Given>>;
template <class Given>
SingleDevice(Given, int) -> SingleDevice<NoDevice<Given>>;  // the number of a device
SingleDevice() -> SingleDevice<NoDevice<void>>;

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/device/single_device.ipp>
#endif
