#pragma once
// What a recorded step may touch besides its batch: the parameters, gradients and buffers of one model, and whether
// they are unchanged since the recording.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/nn/modules.h>

#include <fulgurite/core/body.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::libtorch::capture {

// Tensors as they were when an operator was called, and operators' arguments that hold tensors.

using c10::IValue;
using Storage = c10::StorageImpl*;

Storage storage_of(at::Tensor const& tensor);

/// True for a dense real tensor on the device, the only kind that can be recorded.
bool is_plain(at::Tensor const& tensor, at::Device device = at::kCPU);

/// The name of a device in warnings.
std::string name_of(at::Device device);

/// Returns a tensor on the same memory, without autograd history.
at::Tensor detached(at::Tensor const& tensor);

/// The same as detached(), but keeps requires_grad, since kernels may read it.
at::Tensor frozen(at::Tensor const& tensor);

/// Calls `f(tensor)` for each defined tensor of an argument or a result.
void each_tensor_in(IValue const& value, auto&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isList()) {
    for (IValue const& element : value.toListRef()) each_tensor_in(element, f);
  }
}
void each_tensor_of(auto const& values, auto&& f) {
  for (IValue const& value : values) each_tensor_in(value, f);
}

/// Returns the argument with `change(tensor)` in place of each of its tensors. Lists are copied.
IValue with_tensors(IValue const& value, auto&& change) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(change(value.toTensor())) : value;
  if (!value.isList()) return value;
  bool any = false;
  each_tensor_in(value, [&](at::Tensor const&) { any = true; });
  if (!any) return value;
  auto list = value.toList().copy();
  for (std::size_t i = 0; i != list.size(); ++i) list.set(i, with_tensors(list.get(i), change));
  return list;
}

/// True if the two are equal in everything but their values and their memory.
bool same_layout(at::Tensor const& a, at::Tensor const& b);

/// The bytes of its storage that a tensor covers, from its first element to the end of its last.
struct Span {
  std::int64_t begin, end;
  constexpr bool overlaps(Span const& other) const { return begin < other.end && other.begin < end; }
  friend bool operator==(Span const&, Span const&) = default;
};
Span span_of(at::Tensor const& tensor);

// The sizes of LibTorch's own layers as objects, so that a changed option in one is noticed.

template <class... Layers>
std::unordered_map<std::type_index, std::size_t> sizes_of() {
  return {{typeid(Layers), sizeof(Layers)}...};
}

// Guesses what a word in memory is from its value: an address, or part of a vector that has grown.

inline constexpr std::size_t bytes_of_word = sizeof(std::uintptr_t);

// What a model keeps besides its tensors, as bytes: its own members, the options of LibTorch's layers, and for all
// other modules the lists of their parameters and children.

/// The model as an object of its own type.
struct Object {
  void const* at;
  std::size_t size;
};

/// Watches the model's bytes outside of its tensors. If a number, a handle or a pointer differs from when a step was
/// recorded, some of these bytes differ, whatever its type is. The bytes are only read.
class HostBytes {
  struct Part {
    char const* at;
    std::size_t size;
    std::string name;
    torch::nn::Module const* layer;
    std::string text = {};

    std::string described() const;
    std::string change() const;
  };

 public:
  HostBytes(Object model, torch::nn::Module const& module);

  std::vector<char> now() const;

  /// Called before each replay. True if the bytes are as before, except for those that are known to change without
  /// changing the step.
  bool same(std::vector<char> const& before) const;

  /// Called when the step was the same although these bytes differ, as those of a counter do. A byte is ignored once
  /// this has happened `patience` times.
  void learn(std::vector<char> const& before, std::vector<char> const& after, std::uint8_t patience);

  /// Names what has changed since `before`, in the user's words; empty if nothing can be named. A std::vector that has
  /// grown is skipped: hooks append to one in each step, and its new address explains nothing.
  std::string changed(std::vector<char> const& before) const;

  /// While this object lives, the numbers that differ from `before` have their earlier values. A word that may be an
  /// address is left alone, since what it pointed to may have been freed.
  class Earlier : Pinned {
   public:
    Earlier(HostBytes const& host, std::vector<char> const& before);
    ~Earlier();
    /// True if nothing but numbers has changed.
    bool whole() const { return whole_; }

   private:
    struct Byte {
      char* at;
      char before, now;
    };
    void add(HostBytes const& host, Part const& part, char const* before, std::size_t offset, std::size_t first);
    std::vector<Byte> bytes_;
    bool whole_ = true;
  };

  /// The names of modules of which only the lists of parameters and children can be watched.
  std::vector<std::string> const& unseen() const { return unseen_; }

 private:
  struct Quiet {
    char const* at;
    std::size_t offset, size;
  };
  static constexpr std::uint8_t enough = 255;

  void add(Part part);
  /// Collects the ranges of bytes that are compared before each replay.
  void lay_out();

  std::vector<Part> parts_;
  std::vector<std::uint8_t> passes_;  ///< for each byte: how often it changed although the step did not
  std::vector<Quiet> quiet_;
  std::vector<std::string> unseen_;
};

// A tensor of a model whose steps are recorded, and whether it is unchanged since.

/// One tensor of the model: its handle, its memory, its gradient, and its autograd settings. All of them are compared
/// before each replay, which takes only microseconds for a small net, so this reads LibTorch's fields directly, without
/// its checks.
class Watched {
 public:
  explicit Watched(at::Tensor tensor);

  bool unchanged() const;
  at::Tensor const& tensor() const { return tensor_; }

 private:
  using Meta = torch::autograd::AutogradMeta;
  /// All hooks that were registered from C++ are in one list behind a single hook of LibTorch. A removed hook leaves an
  /// empty place in that list.
  struct Listed {
    Listed() = default;
    explicit Listed(torch::autograd::hooks_list const& list);
    std::size_t count = 0;
    std::ptrdiff_t removed = 0;
    friend bool operator==(Listed const&, Listed const&) = default;
  };

  static Meta const* meta_of(at::TensorImpl const& tensor);
  static bool needs_gradient(Meta const& meta);
  /// Reading requires_grad may allocate these fields, all of them empty.
  bool same_meta(Meta const* meta) const;
  static bool equal(at::IntArrayRef now, at::DimVector const& was);

  at::Tensor tensor_;
  at::Storage storage_;  ///< held, so that no other memory comes to have its address
  void const* data_;
  std::int64_t offset_;
  caffe2::TypeMeta type_;
  at::DimVector sizes_, strides_;
  at::Tensor grad_{};
  bool has_meta_ = false, needs_gradient_ = false;
  std::size_t hooks_ = 0;
  void const* after_ = nullptr;
  Listed listed_{};
};

/// LibTorch's global switches by which a step may call other operators.
struct Modes {
  explicit Modes(at::DeviceType type);
  bool graph = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast;
  at::ScalarType cast;
  bool deterministic, onednn, flash, efficient, math;
  /// Those of cuDNN and the precisions of float32, a byte each. Not read for the CPU, where LibTorch's table of
  /// precisions would cost a seventh of the guard of a step.
  std::uint64_t gpu = 0;
  c10::ScalarType floating = c10::get_default_dtype_as_scalartype();
  friend bool operator==(Modes const&, Modes const&) = default;
};

/// The model as it was when its first step was recorded.
class World {
 public:
  explicit World(torch::nn::Module& model, at::Device device = at::kCPU);
  /// `object`: the model as an object of its own type, with all its members.
  World(torch::nn::Module& model, Object object, at::Device device);

  /// Why no step of this model can be recorded: it has a tensor of a kind that cannot be watched. Empty if it has none.
  std::string const& refusal() const { return refusal_; }

  at::Device device() const { return device_; }

  /// Called before each replay. True if all tensors are where they were and no switch has changed.
  bool unchanged() const;

  /// True if the model still has the same parameters, buffers and modules. This is too slow to be called before each
  /// replay.
  bool is_of(torch::nn::Module const& model) const;

  /// What a hook may switch on and off: requires_grad of each parameter, where its gradient is, and which modules are
  /// in train mode.
  struct Switches {
    std::vector<bool> needs_gradient = {}, trains = {};
    std::vector<at::Tensor> gradients = {};
  };
  Switches switches() const;
  void set(Switches const& to) const;
  Switches const& recorded() const { return recorded_; }

  /// The numbers and handles that the model keeps beside its tensors.
  HostBytes& host() { return host_; }
  HostBytes const& host() const { return host_; }

  /// The index of this piece of memory; nullopt if it is not the model's.
  std::optional<std::size_t> number(Storage storage) const;

  /// Calls `f(tensor)` for each parameter, gradient and buffer.
  void each_tensor(auto&& f) const {
    for (auto const& watched : watched_) f(watched.tensor());
  }

  /// Calls `f(parameter)` for each parameter, once.
  void each_parameter(auto&& f) const {
    for (auto const& [parameter, gradient] : parameters_) f(parameter);
  }

  /// All bytes of the model's tensors, one piece of memory after another. Pieces are copied whole, since a step may
  /// write to a part that belongs to no tensor, as when an arena is cleared.
  std::vector<char> bytes() const;
  void restore(std::vector<char> const& all) const;

 private:
  void add(at::Tensor const& tensor);

  at::Device device_;
  Modes modes_;
  HostBytes host_;
  std::vector<Watched> watched_;
  std::vector<std::pair<at::Tensor, at::Tensor>> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::shared_ptr<torch::nn::Module>> owned_;
  std::vector<std::pair<torch::nn::Module*, bool>> modules_;
  Switches recorded_;
  std::unordered_map<Storage, std::size_t> numbers_;
  std::vector<at::Storage> storages_;
  std::string refusal_;
};

/// What the user's code has changed since `host` was taken, as far as that can be seen.
std::string who_changed(World const& world, std::vector<char> const& host);

}  // namespace fulgurite::libtorch::capture

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/capture/world.ipp>
#endif
