#pragma once
// The bodies of torch/capture/world.hpp.

#include <algorithm>
#include <cstring>
#include <sstream>

#include <fulgurite/torch/capture/world.hpp>
#include <fulgurite/torch/device/modules.hpp>

namespace fulgurite::libtorch::capture {

FULGURITE_BULK_BODY Storage storage_of(at::Tensor const& tensor) { return tensor.storage().unsafeGetStorageImpl(); }

FULGURITE_BULK_BODY bool is_plain(at::Tensor const& tensor, at::Device device) {
  return tensor.layout() == at::kStrided && tensor.device() == device && tensor.unsafeGetTensorImpl()->has_storage() &&
         !tensor.is_quantized() && !tensor.is_nested() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor._is_zerotensor() && !tensor.is_complex();
}

FULGURITE_BULK_BODY std::string name_of(at::Device device) { return device.is_cpu() ? "the CPU" : device.str(); }

FULGURITE_BULK_BODY at::Tensor detached(at::Tensor const& tensor) {
  return at::Tensor(tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
}

FULGURITE_BULK_BODY at::Tensor frozen(at::Tensor const& tensor) {
  auto copy = detached(tensor);
  if (tensor.requires_grad()) copy.unsafeGetTensorImpl()->set_requires_grad(true);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

FULGURITE_BULK_BODY bool same_layout(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.storage_offset() == b.storage_offset();
}

FULGURITE_BULK_BODY Span span_of(at::Tensor const& tensor) {
  auto const item = static_cast<std::int64_t>(tensor.itemsize());
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset() * item, tensor.numel() == 0 ? tensor.storage_offset() * item : (last + 1) * item};
}

/// Returns the size of the whole object if its class is exactly one of LibTorch's layers or modules::Linear's; 0 for
/// every other class, whose members are unknown.
FULGURITE_BULK_BODY std::size_t size_of_known(torch::nn::Module const& module) {
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
               KLDivLossImpl, CosineEmbeddingLossImpl, TripletMarginLossImpl, modules::LinearImpl>();
  auto const found = sizes.find(typeid(module));
  return found == sizes.end() ? 0 : found->second;
}

/// True if these bytes, a word or less, are a number in the address range in which Linux places a program's memory. Low
/// addresses, which look like most numbers, are those of a program that is linked to a fixed address, and of its heap.
FULGURITE_BODY bool may_be_address(char const* from, std::size_t size) {
  static bool const low = [] {
    auto const allocated = std::make_unique<char>();
    auto const below = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) < std::uintptr_t{1} << 32U; };
    return below(&low) || below(allocated.get());
  }();
  std::uintptr_t value = 0;
  std::memcpy(&value, from, size);
  constexpr std::uintptr_t one = 1;
  return (low && value >= 4096 && value < one << 32U) || (value >= one << 44U && value < one << 48U);
}

/// True if byte `i` of these `size` bytes belongs to a std::vector that has as many elements as before or more, and has
/// moved to a larger allocation. A vector is three pointers in all common libraries: begin, end, and end of its memory.
FULGURITE_BODY bool is_of_grown_vector(char const* now, char const* before, std::size_t size, std::size_t i) {
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

FULGURITE_BULK_BODY std::string HostBytes::Part::described() const {
  std::ostringstream out;
  layer->pretty_print(out);
  auto const text_of_it = out.str();
  return text_of_it.starts_with("torch::nn::") ? text_of_it.substr(11) : text_of_it;
}

FULGURITE_BULK_BODY std::string HostBytes::Part::change() const {
  if (!layer) return "a member of the model has changed";
  auto const is = described();
  return is == text ? name + " (" + is + ") has another parameter, buffer, layer or option"
                    : name + " was " + text + ", is " + is;
}

FULGURITE_BULK_BODY HostBytes::HostBytes(Object model, torch::nn::Module const& module) {
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

FULGURITE_BULK_BODY std::vector<char> HostBytes::now() const {
  std::vector<char> all(passes_.size());
  auto* to = all.data();
  for (auto const& part : parts_) to = static_cast<char*>(std::memcpy(to, part.at, part.size)) + part.size;
  return all;
}

FULGURITE_BULK_BODY bool HostBytes::same(std::vector<char> const& before) const {
  for (auto const& quiet : quiet_)
    if (std::memcmp(quiet.at, before.data() + quiet.offset, quiet.size) != 0) return false;
  return true;
}

FULGURITE_BULK_BODY void HostBytes::learn(std::vector<char> const& before, std::vector<char> const& after,
                                          std::uint8_t patience) {
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

FULGURITE_BULK_BODY std::string HostBytes::changed(std::vector<char> const& before) const {
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

FULGURITE_BULK_BODY HostBytes::Earlier::Earlier(HostBytes const& host, std::vector<char> const& before) {
  std::size_t offset = 0;
  for (auto const& part : host.parts_) {
    for (std::size_t i = 0; i < part.size; i += bytes_of_word) add(host, part, before.data() + offset, offset, i);
    offset += part.size;
  }
  if (!whole_) return;
  for (auto const& byte : bytes_) *byte.at = byte.before;
}

FULGURITE_BULK_BODY HostBytes::Earlier::~Earlier() {
  if (!whole_) return;
  for (auto const& byte : bytes_) *byte.at = byte.now;
}

FULGURITE_BULK_BODY void HostBytes::Earlier::add(HostBytes const& host, Part const& part, char const* before,
                                                 std::size_t offset, std::size_t first) {
  std::size_t const end = std::min(first + bytes_of_word, part.size);
  auto const* passes = host.passes_.data() + offset;
  if (std::find(passes + first, passes + end, enough) != passes + end) return;  // it keeps changing
  std::size_t const known = bytes_.size();
  for (std::size_t i = first; i != end; ++i)
    if (part.at[i] != before[i] &&
        (part.layer || !is_of_grown_vector(part.at, before, part.size, i)))  // in a layer, handles look like a vector
      bytes_.push_back({const_cast<char*>(part.at + i), before[i], part.at[i]});
  if (bytes_.size() != known &&
      (may_be_address(before + first, end - first) || may_be_address(part.at + first, end - first)))
    whole_ = false;
}

FULGURITE_BULK_BODY void HostBytes::add(Part part) {
  passes_.resize(passes_.size() + part.size);
  parts_.push_back(std::move(part));
}

FULGURITE_BULK_BODY void HostBytes::lay_out() {
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

FULGURITE_BULK_BODY Watched::Watched(at::Tensor tensor)
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

FULGURITE_BULK_BODY bool Watched::unchanged() const {
  auto const& now = *tensor_.unsafeGetTensorImpl();
  auto const* const storage = now.unsafe_storage().unsafeGetStorageImpl();
  return storage == storage_.unsafeGetStorageImpl() && storage->data() == data_ && now.storage_offset() == offset_ &&
         now.dtype() == type_ && equal(now.sizes(), sizes_) && equal(now.strides(), strides_) &&
         same_meta(meta_of(now));
}

FULGURITE_BULK_BODY Watched::Listed::Listed(torch::autograd::hooks_list const& list)
    : count(list.size()), removed(std::count(list.begin(), list.end(), nullptr)) {}

FULGURITE_BULK_BODY Watched::Meta const* Watched::meta_of(at::TensorImpl const& tensor) {
  return static_cast<Meta const*>(tensor.autograd_meta());
}

FULGURITE_BULK_BODY bool Watched::needs_gradient(Meta const& meta) {
  return meta.requires_grad_ || meta.grad_fn_ != nullptr;
}

FULGURITE_BULK_BODY bool Watched::same_meta(Meta const* meta) const {
  if (!meta) return !has_meta_;
  if (meta->grad_.unsafeGetTensorImpl() != grad_.unsafeGetTensorImpl() || needs_gradient(*meta) != needs_gradient_ ||
      meta->hooks_.size() != hooks_ || meta->post_acc_grad_hooks_.get() != after_)
    return false;
  return !meta->cpp_hooks_list_ ? listed_ == Listed() : listed_ == Listed(*meta->cpp_hooks_list_);
}

FULGURITE_BULK_BODY bool Watched::equal(at::IntArrayRef now, at::DimVector const& was) {
  if (now.size() != was.size()) return false;
  auto const *a = now.data(), *b = was.data();
  for (std::size_t i = 0; i != now.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

FULGURITE_BULK_BODY Modes::Modes(at::DeviceType type)
    : autocast(at::autocast::is_autocast_enabled(type)), cast(at::autocast::get_autocast_dtype(type)) {
  auto const& context = at::globalContext();
  deterministic = context.deterministicAlgorithms();
  onednn = context.userEnabledMkldnn();
  flash = context.userEnabledFlashSDP();
  efficient = context.userEnabledMemEfficientSDP();
  math = context.userEnabledMathSDP();
  if (type == at::kCPU) return;
  auto const add = [&](auto value) { gpu = gpu << 8U | static_cast<std::uint8_t>(value); };
  add(context.deterministicCuDNN());
  add(context.benchmarkCuDNN());
  add(context.userEnabledCuDNNSDP());
  for (auto const of : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN})
    add(context.float32Precision(at::Float32Backend::CUDA, of));
}

FULGURITE_BULK_BODY World::World(torch::nn::Module& model, at::Device device)
    : World(model, {&model, sizeof(torch::nn::Module)}, device) {}

FULGURITE_BULK_BODY World::World(torch::nn::Module& model, Object object, at::Device device)
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

FULGURITE_BULK_BODY bool World::unchanged() const {
  if (!(Modes(device_.type()) == modes_)) return false;
  for (auto const& watched : watched_)
    if (!watched.unchanged()) return false;
  for (auto const& [module, training] : modules_)
    if (module->is_training() != training) return false;
  return true;
}

FULGURITE_BULK_BODY bool World::is_of(torch::nn::Module const& model) const {
  auto const parameters = distinct(model.parameters()), buffers = distinct(model.buffers());
  auto const modules = model.modules(false);
  auto const same = [](at::Tensor const& a, at::Tensor const& b) { return a.is_same(b); };
  return std::equal(parameters.begin(), parameters.end(), parameters_.begin(), parameters_.end(),
                    [&](auto const& a, auto const& b) { return same(a, b.first); }) &&
         std::equal(buffers.begin(), buffers.end(), buffers_.begin(), buffers_.end(), same) && modules == owned_;
}

FULGURITE_BULK_BODY World::Switches World::switches() const {
  Switches all;
  for (auto const& [parameter, gradient] : parameters_) {
    all.needs_gradient.push_back(parameter.requires_grad());
    all.gradients.push_back(parameter.grad());
  }
  for (auto const& [module, training] : modules_) all.trains.push_back(module->is_training());
  return all;
}

FULGURITE_BULK_BODY void World::set(Switches const& to) const {
  for (std::size_t i = 0; i != parameters_.size(); ++i) {
    auto const& parameter = parameters_[i].first;
    if (parameter.is_leaf()) parameter.set_requires_grad(to.needs_gradient[i]);
    if (!parameter.grad().is_same(to.gradients[i])) parameter.mutable_grad() = to.gradients[i];
  }
  for (std::size_t i = 0; i != modules_.size(); ++i)  // train() also sets a module's children, so parents come first
    if (modules_[i].first->is_training() != to.trains[i]) modules_[i].first->train(to.trains[i]);
}

FULGURITE_BULK_BODY std::optional<std::size_t> World::number(Storage storage) const {
  auto const found = numbers_.find(storage);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

FULGURITE_BULK_BODY std::vector<char> World::bytes() const {
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

FULGURITE_BULK_BODY void World::restore(std::vector<char> const& all) const {
  auto const* from = all.data();
  for (auto const& storage : storages_) {
    if (auto const n = storage.nbytes()) std::memcpy(storage.mutable_data(), from, n);
    from += storage.nbytes();
  }
}

FULGURITE_BULK_BODY void World::add(at::Tensor const& tensor) {
  if (!is_plain(tensor, device_) || !tensor.is_non_overlapping_and_dense()) {
    refusal_ = "the model has a tensor that is not a dense real one of " + name_of(device_);
    return;
  }
  watched_.emplace_back(tensor);
  if (numbers_.emplace(storage_of(tensor), numbers_.size()).second) storages_.push_back(tensor.storage());
}

FULGURITE_BULK_BODY std::string who_changed(World const& world, std::vector<char> const& host) {
  if (auto what = world.host().changed(host); !what.empty()) return what;
  std::string what = "training_step went by something that is no tensor, and that has changed: a member of the model "
                     "that changes all the time, a global";
  for (std::size_t i = 0; i != world.host().unseen().size(); ++i)
    what += (i == 0 ? ", or a member of '" : "', '") + world.host().unseen()[i];
  return what + (world.host().unseen().empty() ? "" : "', which cannot be looked into");
}

}  // namespace fulgurite::libtorch::capture
