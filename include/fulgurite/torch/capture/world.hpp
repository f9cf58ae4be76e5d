#pragma once
// What a recorded step may touch beside its batch: the parameters, gradients and buffers of one model; and whether they
// are still what they were.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <sstream>
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

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/weights/averaging.hpp>

namespace fulgurite::libtorch::capture {

// Tensors as they were when an operator was called, and arguments of operators that hold tensors.

using c10::IValue;
using Storage = c10::StorageImpl*;

inline Storage storage_of(at::Tensor const& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

/// Whether this is a dense real tensor of the device: the only kind that a recording knows.
FULGURITE_BULK bool is_plain(at::Tensor const& tensor, at::Device device = at::kCPU) {
  return tensor.layout() == at::kStrided && tensor.device() == device && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.is_quantized() && !tensor.is_nested() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor() && !tensor.is_complex();
}

/// A device as warnings name it.
inline std::string name_of(at::Device device) { return device.is_cpu() ? "the CPU" : device.str(); }

/// A handle on the same memory, without a graph.
inline at::Tensor detached(at::Tensor const& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}

/// The same, but it still says whether it needs a gradient, since kernels may ask.
FULGURITE_BULK at::Tensor frozen(at::Tensor const& tensor) {
  auto copy = detached(tensor);
  if (tensor.requires_grad()) copy.unsafeGetTensorImpl()->set_requires_grad(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

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
FULGURITE_BULK bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

/// The bytes of its storage that a tensor reaches, from its first element to behind its last.
struct Span {
  std::int64_t begin, end;
  friend bool operator==(Span const&, Span const&) = default;
};
FULGURITE_BULK Span span_of(at::Tensor const& tensor) {
  auto const item = static_cast<std::int64_t>(tensor.itemsize());
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset() * item, tensor.numel() == 0 ? tensor.storage_offset() * item : (last + 1) * item};
}

// How large the objects of LibTorch's own layers are, so that a changed option of one is noticed.

template <class... Layers>
std::unordered_map<std::type_index, std::size_t> sizes_of() {
  return {{typeid(Layers), sizeof(Layers)}...};
}

/// The size of the whole object if its class is exactly one of LibTorch's layers. 0 for every other class, which may
/// have members that nobody knows.
inline std::size_t size_of_known(torch::nn::Module const& module) {
  using namespace torch::nn;
  static auto const sizes =
      sizes_of<LinearImpl, BilinearImpl, IdentityImpl, FlattenImpl, UnflattenImpl, Conv1dImpl, Conv2dImpl, Conv3dImpl,
               ConvTranspose1dImpl, ConvTranspose2dImpl, ConvTranspose3dImpl, DropoutImpl, Dropout2dImpl, Dropout3dImpl,
               AlphaDropoutImpl, FeatureAlphaDropoutImpl, BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl,
               InstanceNorm1dImpl, InstanceNorm2dImpl, InstanceNorm3dImpl, LayerNormImpl, GroupNormImpl,
               LocalResponseNormImpl, CrossMapLRN2dImpl, EmbeddingImpl, EmbeddingBagImpl, RNNImpl, LSTMImpl, GRUImpl,
               RNNCellImpl, LSTMCellImpl, GRUCellImpl, ELUImpl, SELUImpl, HardshrinkImpl, HardtanhImpl, LeakyReLUImpl,
               LogSigmoidImpl, SoftmaxImpl, SoftminImpl, LogSoftmaxImpl, PReLUImpl, ReLUImpl, ReLU6Impl, RReLUImpl,
               CELUImpl, GLUImpl, GELUImpl, SiLUImpl, MishImpl, SigmoidImpl, SoftplusImpl, SoftshrinkImpl, SoftsignImpl,
               TanhImpl, TanhshrinkImpl, ThresholdImpl, MultiheadAttentionImpl, TransformerEncoderLayerImpl,
               TransformerDecoderLayerImpl, TransformerEncoderImpl, TransformerDecoderImpl, TransformerImpl,
               AvgPool1dImpl, AvgPool2dImpl, AvgPool3dImpl, MaxPool1dImpl, MaxPool2dImpl, MaxPool3dImpl,
               AdaptiveAvgPool1dImpl, AdaptiveAvgPool2dImpl, AdaptiveMaxPool1dImpl, AdaptiveMaxPool2dImpl, UpsampleImpl,
               PixelShuffleImpl, ZeroPad2dImpl, ReflectionPad2dImpl, ReplicationPad2dImpl, SequentialImpl,
               ModuleListImpl, ModuleDictImpl, ParameterListImpl, ParameterDictImpl, CrossEntropyLossImpl, NLLLossImpl,
               MSELossImpl, L1LossImpl, SmoothL1LossImpl, HuberLossImpl, BCELossImpl, BCEWithLogitsLossImpl,
               KLDivLossImpl, CosineEmbeddingLossImpl, TripletMarginLossImpl>();
  auto const found = sizes.find(typeid(module));
  return found == sizes.end() ? 0 : found->second;
}

// What words in memory may be, as far as their values tell: an address, or a vector that has grown.

inline constexpr std::size_t bytes_of_word = sizeof(std::uintptr_t);

/// Whether these bytes, a word or less, are a number in the range in which Linux puts a program's memory.
FULGURITE_COLD bool may_be_address(char const* from, std::size_t size) {
  std::uintptr_t value = 0;
  std::memcpy(&value, from, size);
  constexpr std::uintptr_t one = 1;
  return (value >= 4096 && value < one << 32U) || (value >= one << 44U && value < one << 48U);
}

/// Whether byte `i` of these `size` bytes lies in a std::vector that has as many elements as before or more, and has
/// moved to more memory. A vector is three pointers: begin, end, and the end of its memory, as in all common libraries.
FULGURITE_COLD bool is_of_grown_vector(char const* now, char const* before, std::size_t size, std::size_t i) {
  auto const at = [](char const* from) {
    std::uintptr_t value = 0;
    std::memcpy(&value, from, bytes_of_word);
    return value;
  };
  for (std::size_t back = 0; back != 3 && i / bytes_of_word >= back; ++back) {
    std::size_t const first = (i / bytes_of_word - back) * bytes_of_word;
    if (first + 3 * bytes_of_word > size) continue;
    std::uintptr_t const was[] = {at(before + first), at(before + first + bytes_of_word),
                                  at(before + first + 2 * bytes_of_word)};
    std::uintptr_t const is[] = {at(now + first), at(now + first + bytes_of_word), at(now + first + 2 * bytes_of_word)};
    if (was[0] <= was[1] && was[1] <= was[2] && is[0] != 0 && is[0] < is[1] && is[1] <= is[2] &&
        is[1] - is[0] >= was[1] - was[0] && is[2] - is[0] > was[2] - was[0] && is[2] - is[0] < std::uintptr_t{1} << 40U)
      return true;
  }
  return false;
}

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

    std::string described() const {
      std::ostringstream out;
      layer->pretty_print(out);
      auto const text_of_it = out.str();
      return text_of_it.starts_with("torch::nn::") ? text_of_it.substr(11) : text_of_it;
    }
    std::string change() const {
      if (!layer) return "a member of the model has changed";
      auto const is = described();
      return is == text ? name + " (" + is + ") has another parameter, buffer, layer or option"
                        : name + " was " + text + ", is " + is;
    }
  };

 public:
  HostBytes(Object model, torch::nn::Module const& module) {
    add({static_cast<char const*>(model.at), model.size, {}, nullptr});
    for (auto const& layer : module.named_modules(std::string(), false)) {
      auto const size = size_of_known(*layer.value());
      auto const* at = size != 0 ? dynamic_cast<void const*>(layer.value().get()) : layer.value().get();
      if (size == 0) unseen_.push_back(layer.key());
      Part part{static_cast<char const*>(at), size != 0 ? size : sizeof(torch::nn::Module), layer.key(),
                layer.value().get()};
      part.text = part.described();
      add(std::move(part));
    }
    lay_out();
  }

  FULGURITE_BULK std::vector<char> now() const {
    std::vector<char> all(passes_.size());
    auto* to = all.data();
    for (auto const& part : parts_) to = static_cast<char*>(std::memcpy(to, part.at, part.size)) + part.size;
    return all;
  }

  /// Asked before each replay: whether the bytes are as before, but for those that are known to change although the
  /// step stays the same.
  bool same(std::vector<char> const& before) const {
    for (auto const& quiet : quiet_)
      if (std::memcmp(quiet.at, before.data() + quiet.offset, quiet.size) != 0) return false;
    return true;
  }

  /// The step was the same although these bytes differ, as those of a counter do. After `patience` such steps a byte is
  /// not looked at any more.
  FULGURITE_BULK void learn(std::vector<char> const& before, std::vector<char> const& after, std::uint8_t patience) {
    bool any = false;
    for (std::size_t i = 0; i != passes_.size(); ++i) {
      if (before[i] == after[i] || passes_[i] == enough) continue;
      if (++passes_[i] >= patience) {
        passes_[i] = enough;
        any = true;
      }
    }
    if (any) lay_out();
  }

  /// What has changed since `before`, in the user's words; empty if nothing can be seen. A std::vector that has grown
  /// is passed over: hooks put something into one in each step, and that its memory is elsewhere now explains nothing.
  FULGURITE_BULK std::string changed(std::vector<char> const& before) const {
    std::size_t offset = 0;
    for (auto const& part : parts_) {
      for (std::size_t i = 0; i != part.size; ++i)
        if (passes_[offset + i] != enough && part.at[i] != before[offset + i] &&
            (part.layer || !is_of_grown_vector(part.at, before.data() + offset, part.size, i)))
          return part.change();
      offset += part.size;
    }
    return {};
  }

  /// While this lives, the numbers that differ from `before` are what they were. A word that may be an address
  /// is left alone, since what it pointed to may be gone.
  class Earlier {
   public:
    Earlier(HostBytes const& host, std::vector<char> const& before) {
      std::size_t offset = 0;
      for (auto const& part : host.parts_) {
        for (std::size_t i = 0; i < part.size; i += bytes_of_word) add(host, part, before.data() + offset, offset, i);
        offset += part.size;
      }
      if (!whole_) return;
      for (auto const& byte : bytes_) *byte.at = byte.before;
    }
    ~Earlier() {
      if (!whole_) return;
      for (auto const& byte : bytes_) *byte.at = byte.now;
    }
    Earlier(Earlier const&) = delete;
    Earlier& operator=(Earlier const&) = delete;
    /// Whether nothing but numbers has changed.
    bool whole() const { return whole_; }

   private:
    struct Byte {
      char* at;
      char before, now;
    };
    FULGURITE_BULK void add(HostBytes const& host, Part const& part, char const* before, std::size_t offset,
                            std::size_t first) {
      std::size_t const end = std::min(first + bytes_of_word, part.size);
      auto const* passes = host.passes_.data() + offset;
      if (std::find(passes + first, passes + end, enough) != passes + end) return;  // it changes all the time
      std::size_t const known = bytes_.size();
      for (std::size_t i = first; i != end; ++i)
        if (part.at[i] != before[i] &&
            (part.layer || !is_of_grown_vector(part.at, before, part.size, i)))  // handles in a layer look alike
          bytes_.push_back({const_cast<char*>(part.at + i), before[i], part.at[i]});
      if (bytes_.size() != known &&
          (may_be_address(before + first, end - first) || may_be_address(part.at + first, end - first)))
        whole_ = false;
    }
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

  void add(Part part) {
    passes_.resize(passes_.size() + part.size);
    parts_.push_back(std::move(part));
  }
  /// Collects the stretches of bytes that are looked at before each replay.
  FULGURITE_BULK void lay_out() {
    quiet_.clear();
    std::size_t offset = 0;
    for (auto const& part : parts_) {
      for (std::size_t i = 0; i != part.size;) {
        std::size_t end = i;
        while (end != part.size && passes_[offset + end] != enough) ++end;
        if (end != i) quiet_.push_back({part.at + i, offset + i, end - i});
        i = end == part.size ? end : end + 1;
      }
      offset += part.size;
    }
  }

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
  explicit Watched(at::Tensor tensor)
      : tensor_(std::move(tensor)),
        storage_(tensor_.storage()),
        data_(storage_.data()),
        offset_(tensor_.storage_offset()),
        type_(tensor_.dtype()),
        sizes_(tensor_.sizes()),
        strides_(tensor_.strides()) {
    if (auto const* const meta = meta_of(*tensor_.unsafeGetTensorImpl())) {
      has_meta_ = true;
      grad_ = meta->grad_;
      needs_gradient_ = needs_gradient(*meta);
      hooks_ = meta->hooks_.size();
      after_ = meta->post_acc_grad_hooks_.get();
      if (meta->cpp_hooks_list_) listed_ = Listed(*meta->cpp_hooks_list_);
    }
  }

  bool unchanged() const {
    auto const& now = *tensor_.unsafeGetTensorImpl();
    auto const* const storage = now.unsafe_storage().unsafeGetStorageImpl();
    return storage == storage_.unsafeGetStorageImpl() && storage->data() == data_ && now.storage_offset() == offset_ &&
           now.dtype() == type_ && equal(now.sizes(), sizes_) && equal(now.strides(), strides_) &&
           same_meta(meta_of(now));
  }
  at::Tensor const& tensor() const { return tensor_; }

 private:
  using Meta = torch::autograd::AutogradMeta;
  /// All hooks that were registered from C++ stand in one list behind a single hook of LibTorch. One that was removed
  /// leaves an empty place in that list.
  struct Listed {
    Listed() = default;
    explicit Listed(torch::autograd::hooks_list const& list)
        : count(list.size()), removed(std::count(list.begin(), list.end(), nullptr)) {}
    std::size_t count = 0;
    std::ptrdiff_t removed = 0;
    friend bool operator==(Listed const&, Listed const&) = default;
  };

  static Meta const* meta_of(at::TensorImpl const& tensor) { return static_cast<Meta const*>(tensor.autograd_meta()); }
  static bool needs_gradient(Meta const& meta) { return meta.requires_grad_ || meta.grad_fn_ != nullptr; }
  /// Asking a tensor whether it needs a gradient may give it such fields, all of them empty.
  bool same_meta(Meta const* meta) const {
    if (!meta) return !has_meta_;
    if (meta->grad_.unsafeGetTensorImpl() != grad_.unsafeGetTensorImpl() || needs_gradient(*meta) != needs_gradient_ ||
        meta->hooks_.size() != hooks_ || meta->post_acc_grad_hooks_.get() != after_)
      return false;
    return !meta->cpp_hooks_list_ ? listed_ == Listed() : listed_ == Listed(*meta->cpp_hooks_list_);
  }
  static bool equal(at::IntArrayRef now, at::DimVector const& was) {
    if (now.size() != was.size()) return false;
    auto const *a = now.data(), *b = was.data();
    for (std::size_t i = 0; i != now.size(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

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
  explicit Modes(at::DeviceType type)
      : autocast(at::autocast::is_autocast_enabled(type)), cast(at::autocast::get_autocast_dtype(type)) {
    auto const& context = at::globalContext();
    deterministic = context.deterministicAlgorithms();
    onednn = context.userEnabledMkldnn();
    flash = context.userEnabledFlashSDP();
    efficient = context.userEnabledMemEfficientSDP();
  }
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
  explicit World(torch::nn::Module& model, at::Device device = at::kCPU)
      : World(model, {&model, sizeof(torch::nn::Module)}, device) {}
  /// `object`: the model as an object of its own type, with all its members.
  World(torch::nn::Module& model, Object object, at::Device device)
      : device_(device), modes_(device.type()), host_(object, model) {
    for (auto const& parameter : distinct(model.parameters())) {
      add(parameter);
      parameters_.emplace_back(parameter, parameter.grad());
      if (parameter.grad().defined()) add(parameter.grad());
    }
    buffers_ = distinct(model.buffers());
    for (auto const& buffer : buffers_) add(buffer);
    modules_.emplace_back(&model, model.is_training());
    for (auto const& module : model.modules(false)) {
      owned_.push_back(module);
      modules_.emplace_back(module.get(), module->is_training());
    }
    recorded_ = switches();
  }

  /// Why no step of this model can be recorded: it has a tensor of a kind that cannot be watched. Empty: it has none.
  std::string const& refusal() const { return refusal_; }

  at::Device device() const { return device_; }

  /// Asked before each replay: whether all tensors are where they were, and nothing was switched.
  bool unchanged() const {
    if (!(Modes(device_.type()) == modes_)) return false;
    for (auto const& watched : watched_)
      if (!watched.unchanged()) return false;
    for (auto const& [module, training] : modules_)
      if (module->is_training() != training) return false;
    return true;
  }

  /// Whether the model still has the same parameters, buffers and modules. This takes too long to be asked before each
  /// replay.
  FULGURITE_BULK bool is_of(torch::nn::Module const& model) const {
    auto const parameters = distinct(model.parameters()), buffers = distinct(model.buffers());
    auto const modules = model.modules(false);
    auto const same = [](at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); };
    return std::equal(parameters.begin(), parameters.end(), parameters_.begin(), parameters_.end(),
                      [&](auto const& a, auto const& b) { return same(a, b.first); }) &&
           std::equal(buffers.begin(), buffers.end(), buffers_.begin(), buffers_.end(), same) && modules == owned_;
  }

  /// What a hook may switch on and off: which parameters need a gradient and where it is, and which modules are in
  /// train().
  struct Switches {
    std::vector<bool> needs_gradient = {}, trains = {};
    std::vector<at::Tensor> gradients = {};
  };
  FULGURITE_BULK Switches switches() const {
    Switches all;
    for (auto const& [parameter, gradient] : parameters_) {
      all.needs_gradient.push_back(parameter.requires_grad());
      all.gradients.push_back(parameter.grad());
    }
    for (auto const& [module, training] : modules_) all.trains.push_back(module->is_training());
    return all;
  }
  FULGURITE_BULK void set(Switches const& to) const {
    for (std::size_t i = 0; i != parameters_.size(); ++i) {
      auto const& parameter = parameters_[i].first;
      if (parameter.is_leaf()) parameter.set_requires_grad(to.needs_gradient[i]);
      if (!parameter.grad().is_same(to.gradients[i])) parameter.mutable_grad() = to.gradients[i];
    }
    for (std::size_t i = 0; i != modules_.size(); ++i)  // train() also sets a module's children, which come after it
      if (modules_[i].first->is_training() != to.trains[i]) modules_[i].first->train(to.trains[i]);
  }
  Switches const& recorded() const { return recorded_; }

  /// The numbers and handles that the model keeps beside its tensors.
  HostBytes& host() { return host_; }
  HostBytes const& host() const { return host_; }

  /// The number of this piece of memory; nullopt if it is none of the model's.
  std::optional<std::size_t> number(Storage storage) const {
    auto const found = numbers_.find(storage);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  /// f(tensor) for each parameter, gradient and buffer.
  template <class F>
  void each_tensor(F&& f) const {
    for (auto const& watched : watched_) f(watched.tensor());
  }

  /// All bytes of the model's tensors, one piece of memory after another. Pieces are taken whole, since a step may
  /// write to a part of one that belongs to no tensor, as when an arena is cleared.
  FULGURITE_BULK std::vector<char> bytes() const {
    std::size_t size = 0;
    for (auto const& storage : storages_) size += storage.nbytes();
    std::vector<char> all(size);
    auto* to = all.data();
    for (auto const& storage : storages_) {
      if (auto const n = storage.nbytes()) std::memcpy(to, storage.data(), n);
      to += storage.nbytes();
    }
    return all;
  }
  FULGURITE_BULK void restore(std::vector<char> const& all) const {
    auto const* from = all.data();
    for (auto const& storage : storages_) {
      if (auto const n = storage.nbytes()) std::memcpy(storage.mutable_data(), from, n);
      from += storage.nbytes();
    }
  }

 private:
  FULGURITE_BULK void add(at::Tensor const& tensor) {
    if (!is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense()) {
      refusal_ = "the model has a tensor that is not a dense real one of " + name_of(device_);
      return;
    }
    watched_.emplace_back(tensor);
    if (numbers_.emplace(storage_of(tensor), numbers_.size()).second) storages_.push_back(tensor.storage());
  }

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
FULGURITE_BULK std::string who_changed(World const& world, std::vector<char> const& host) {
  if (auto what = world.host().changed(host); !what.empty()) return what;
  std::string what = "training_step went by something that is no tensor, and that has changed: a member of the model "
                     "that changes all the time, a global";
  for (std::size_t i = 0; i != world.host().unseen().size(); ++i)
    what += (i == 0 ? ", or a member of '" : "', '") + world.host().unseen()[i];
  return what + (world.host().unseen().empty() ? "" : "', which cannot be looked into");
}

}  // namespace fulgurite::libtorch::capture
