#pragma once
// What a recorded step may touch beside its batch: the parameters, gradients and buffers of one model; and whether they
// are still what they were.

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

// Tensors as they were when an operator was called, and arguments of operators that hold tensors.

using c10::IValue;
using Storage = c10::StorageImpl*;

Storage storage_of(at::Tensor const& tensor);

/// Whether this is a dense real tensor of the device: the only kind that a recording knows.
bool is_plain(at::Tensor const& tensor, at::Device device = at::kCPU);

/// A device as warnings name it.
std::string name_of(at::Device device);

/// A handle on the same memory, without a graph.
at::Tensor detached(at::Tensor const& tensor);

/// The same, but it still says whether it needs a gradient, since kernels may ask.
at::Tensor frozen(at::Tensor const& tensor);

/// f(tensor) for each defined tensor of an argument or a result.
template <class F>
void each_tensor_in(IValue const& value, F&& f) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) f(value.toTensor());
  } else if (value.isList()) {
    for (IValue const& element : value.toListRef()) each_tensor_in(element, f);
  }
}
template <class Values, class F>
void each_tensor_of(Values const& values, F&& f) {
  for (IValue const& value : values) each_tensor_in(value, f);
}

/// The argument, with change(tensor) in place of every tensor in it. Lists are copied.
template <class F>
IValue with_tensors(IValue const& value, F&& change) {
  if (value.isTensor()) return value.toTensor().defined() ? IValue(change(value.toTensor())) : value;
  if (!value.isList()) return value;
  bool any = false;
  each_tensor_in(value, [&](at::Tensor const&) { any = true; });
  if (!any) return value;
  auto list = value.toList().copy();
  for (std::size_t i = 0; i != list.size(); ++i) list.set(i, with_tensors(list.get(i), change));
  return list;
}

/// Whether the two are equal in everything but their values and their memory.
bool same_layout(at::Tensor const& a, at::Tensor const& b);

/// The bytes of its storage that a tensor reaches, from its first element to behind its last.
struct Span {
  std::int64_t begin, end;
  friend bool operator==(Span const&, Span const&) = default;
};
Span span_of(at::Tensor const& tensor);

// How large the objects of LibTorch's own layers are, so that a changed option of one is noticed.

template <class... Layers>
std::unordered_map<std::type_index, std::size_t> sizes_of() {
  return {{typeid(Layers), sizeof(Layers)}...};
}

/// The size of the whole object if its class is exactly one of LibTorch's layers. 0 for every other class, which may
/// have members that nobody knows.
std::size_t size_of_known(torch::nn::Module const& module);

// What words in memory may be, as far as their values tell: an address, or a vector that has grown.

inline constexpr std::size_t bytes_of_word = sizeof(std::uintptr_t);

/// Whether these bytes, a word or less, are a number in the range in which Linux puts a program's memory.
bool may_be_address(char const* from, std::size_t size);

/// Whether byte `i` of these `size` bytes lies in a std::vector that has as many elements as before or more, and has
/// moved to more memory. A vector is three pointers: begin, end, and the end of its memory, as in all common libraries.
bool is_of_grown_vector(char const* now, char const* before, std::size_t size, std::size_t i);

// What a model keeps beside its tensors, as bytes: its own members, the options of LibTorch's layers, and of all other
// modules the lists of their parameters and children.

/// The model as an object of its own type.
struct Object {
  void const* at;
  std::size_t size;
};

/// If a number, a handle or a pointer is another than when a step was recorded, some of these bytes differ, whatever
/// its type is. They are only read.
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

  /// Asked before each replay: whether the bytes are as before, but for those that are known to change although the
  /// step stays the same.
  bool same(std::vector<char> const& before) const;

  /// The step was the same although these bytes differ, as those of a counter do. After `patience` such steps a byte is
  /// not looked at any more.
  void learn(std::vector<char> const& before, std::vector<char> const& after, std::uint8_t patience);

  /// What has changed since `before`, in the user's words; empty if nothing can be seen. A std::vector that has grown
  /// is passed over: hooks put something into one in each step, and that its memory is elsewhere now explains nothing.
  std::string changed(std::vector<char> const& before) const;

  /// While this lives, the numbers that differ from `before` are what they were. A word that may be an address
  /// is left alone, since what it pointed to may be gone.
  class Earlier {
   public:
    Earlier(HostBytes const& host, std::vector<char> const& before);
    ~Earlier();
    Earlier(Earlier const&) = delete;
    Earlier& operator=(Earlier const&) = delete;
    /// Whether nothing but numbers has changed.
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

  /// The names of modules of which only the lists of parameters and children can be seen.
  std::vector<std::string> const& unseen() const { return unseen_; }

 private:
  struct Quiet {
    char const* at;
    std::size_t offset, size;
  };
  static constexpr std::uint8_t enough = 255;

  void add(Part part);
  /// Collects the stretches of bytes that are looked at before each replay.
  void lay_out();

  std::vector<Part> parts_;
  std::vector<std::uint8_t> passes_;  ///< of each byte: how often it had changed in a step that was the same
  std::vector<Quiet> quiet_;
  std::vector<std::string> unseen_;
};

// A tensor of a model whose steps are recorded, and whether it is still what it was.

/// One tensor of the model: its handle, where its memory is, its gradient, and how autograd treats it. A replay of a
/// small net takes some microseconds and asks all of them, so they look at LibTorch's own fields, without its checks.
class Watched {
 public:
  explicit Watched(at::Tensor tensor);

  bool unchanged() const;
  at::Tensor const& tensor() const { return tensor_; }

 private:
  using Meta = torch::autograd::AutogradMeta;
  /// All hooks that were registered from C++ stand in one list behind a single hook of LibTorch. One that was removed
  /// leaves an empty place in that list.
  struct Listed {
    Listed() = default;
    explicit Listed(torch::autograd::hooks_list const& list);
    std::size_t count = 0;
    std::ptrdiff_t removed = 0;
    friend bool operator==(Listed const&, Listed const&) = default;
  };

  static Meta const* meta_of(at::TensorImpl const& tensor);
  static bool needs_gradient(Meta const& meta);
  /// Asking a tensor whether it needs a gradient may give it such fields, all of them empty.
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

/// Switches of LibTorch by which a step may call other operators.
struct Modes {
  explicit Modes(at::DeviceType type);
  bool graph = c10::GradMode::is_enabled();
  bool inference = c10::InferenceMode::is_enabled();
  bool autocast;
  at::ScalarType cast;
  bool deterministic, onednn, flash, efficient;
  c10::ScalarType floating = c10::get_default_dtype_as_scalartype();
  friend bool operator==(Modes const&, Modes const&) = default;
};

/// The model as it was when its first step was recorded.
class World {
 public:
  explicit World(torch::nn::Module& model, at::Device device = at::kCPU);
  /// `object`: the model as an object of its own type, with all its members.
  World(torch::nn::Module& model, Object object, at::Device device);

  /// Why no step of this model can be recorded: it has a tensor of a kind that cannot be watched. Empty: it has none.
  std::string const& refusal() const { return refusal_; }

  at::Device device() const { return device_; }

  /// Asked before each replay: whether all tensors are where they were, and nothing was switched.
  bool unchanged() const;

  /// Whether the model still has the same parameters, buffers and modules. This takes too long to be asked before each
  /// replay.
  bool is_of(torch::nn::Module const& model) const;

  /// What a hook may switch on and off: which parameters need a gradient and where it is, and which modules are in
  /// train().
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

  /// The number of this piece of memory; nullopt if it is none of the model's.
  std::optional<std::size_t> number(Storage storage) const;

  /// f(tensor) for each parameter, gradient and buffer.
  template <class F>
  void each_tensor(F&& f) const {
    for (auto const& watched : watched_) f(watched.tensor());
  }

  /// All bytes of the model's tensors, one piece of memory after another. Pieces are taken whole, since a step may
  /// write to a part of one that belongs to no tensor, as when an arena is cleared.
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
