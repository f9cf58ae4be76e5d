#pragma once
// The parameters and buffers of a module as named bytes: what a file of weights holds.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <fulgurite/checkpoint/archive_tree.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/function_ref.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace fulgurite::libtorch {

// The parameters of a model by name, and of a part of it, however the part is held.

/// Each defined tensor once. A module that is registered under two names shows its parameters twice.
FULGURITE_BULK std::vector<at::Tensor> distinct(std::vector<at::Tensor> all) {
  std::unordered_set<c10::TensorImpl const*> seen;
  std::erase_if(all, [&](at::Tensor const& tensor) {
    return !tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second;
  });
  return all;
}

/// Each parameter once, under its first name: one that two modules share has two names. Empty if the model is no
/// torch::nn::Module.
template <class Model>
std::vector<std::pair<std::string, at::Tensor>> named_parameters(Model& model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  if constexpr (std::derived_from<Model, torch::nn::Module>)
    for (auto const& parameter : model.named_parameters()) {
      bool const known =
          std::any_of(all.begin(), all.end(), [&](auto const& one) { return one.second.is_same(parameter.value()); });
      if (!known) all.emplace_back(parameter.key(), parameter.value());
    }
  return all;
}

/// The module behind an argument, which is a module, a holder of one (torch::nn::Linear, torch::nn::AnyModule) or a
/// smart pointer to one.
template <class Part>
torch::nn::Module& module_of(Part& part) {
  if constexpr (std::derived_from<Part, torch::nn::Module>) return part;
  else if constexpr (requires { *part.ptr(); }) return *part.ptr();
  else return module_of(*part);
}

template <class T>
concept PartOfModel = std::derived_from<T, torch::nn::Module> || requires(T& part) {
  { *part } -> std::convertible_to<torch::nn::Module&>;
} || requires(T& part) {
  { *part.ptr() } -> std::convertible_to<torch::nn::Module&>;
};

struct ElementName {
  at::ScalarType type;
  std::string_view name;
};
inline constexpr ElementName element_names[] = {{at::ScalarType::Double, "F64"}, {at::ScalarType::Float, "F32"},
                                                {at::ScalarType::Half, "F16"},   {at::ScalarType::BFloat16, "BF16"},
                                                {at::ScalarType::Long, "I64"},   {at::ScalarType::Int, "I32"},
                                                {at::ScalarType::Short, "I16"},  {at::ScalarType::Char, "I8"},
                                                {at::ScalarType::Byte, "U8"},    {at::ScalarType::Bool, "BOOL"}};

FULGURITE_COLD std::string_view element_name(at::ScalarType type, std::string_view weight) {
  for (auto const& known : element_names)
    if (known.type == type) return known.name;
  throw Error("fulgurite.checkpoint.element_type",
              "'" + std::string(weight) + "' is of type " + c10::toString(type) +
                  ", which a safetensors file cannot hold: keep it as real and imaginary part, or as integers");
}

/// f(name, tensor&) for parameters, then buffers, by their dotted names.
template <class Model, class F>
void each_named_tensor(Model& model, F&& f) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    for (auto& parameter : model.named_parameters()) f(parameter.key(), parameter.value());
    for (auto& buffer : model.named_buffers()) f(buffer.key(), buffer.value());
  }
}

/// f(std::string_view name, WeightView) for each parameter and buffer. The bytes live as long as the call.
template <class Model, class F>
void each_weight(Model& model, F&& f) {
  at::NoGradGuard const no_graph;
  each_named_tensor(model, [&](std::string const& name, at::Tensor& tensor) {
    auto const host = tensor.detach().cpu().contiguous();
    f(std::string_view(name), WeightView{element_name(host.scalar_type(), name),
                                         host.sizes().vec(),
                                         {static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()}});
  });
}

inline std::string shape_text(std::span<std::int64_t const> shape) {
  std::string text = "[";
  for (auto const extent : shape) (text += text.size() == 1 ? "" : ", ") += std::to_string(extent);
  return text + "]";
}

// How tensors lie in one flat buffer: where each begins, how it is seen, and which ones may not be moved apart.

/// Where the next slice may begin. Each begins where LibTorch's allocators would let a tensor begin, since kernels
/// choose their paths by alignment, and with the path the last bits of a result.
inline std::int64_t aligned(std::int64_t elements, at::Tensor const& like) {
  std::int64_t const bytes = like.is_cpu() ? 64 : 512;
  auto const unit = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(like.element_size()));
  return (elements + unit - 1) / unit * unit;
}

/// A part of `flat` in the shape of `like`. Unlike a view it has a version counter of its own: a write to one slice, or
/// to the whole, does not show in the version of another.
inline at::Tensor slice(at::Tensor const& flat, std::int64_t begin, at::Tensor const& like) {
  auto part = at::empty({0}, flat.options());
  if (like.is_non_overlapping_and_dense()) part.set_(flat.storage(), begin, like.sizes(), like.strides());
  else part.set_(flat.storage(), begin, like.sizes());
  return part;
}

/// The system may have the memory of these zeros until somebody asks for it: a hint, of which nothing depends.
inline void give_back([[maybe_unused]] void* zeros, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto const begin = (reinterpret_cast<std::uintptr_t>(zeros) + page - 1) / page * page,
             end = (reinterpret_cast<std::uintptr_t>(zeros) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

/// The bytes that a tensor reaches.
struct Extent {
  char const* begin;
  char const* end;
};
inline Extent extent(at::Tensor const& tensor) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  auto const* begin = static_cast<char const*>(tensor.const_data_ptr());
  return {begin, tensor.numel() == 0 ? begin : begin + (last + 1) * static_cast<std::int64_t>(tensor.element_size())};
}

/// Throws an Error if two parameters share memory, since an arena would part them. One parameter under two names is
/// allowed.
inline void require_apart(std::vector<at::Tensor> const& parameters) {
  std::vector<Extent> extents;
  for (auto const& parameter : parameters) extents.push_back(extent(parameter));
  // One without elements lies where its neighbour begins, and overlaps nothing.
  sort_seldom(extents,
              [](Extent const& a, Extent const& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw Error("fulgurite.optim.shared_memory", "two parameters lie in the same memory, which fulgurite::optim "
                                                   "would part: register one tensor under both names, or use "
                                                   "torch::optim");
}

// Copies of many tensors in few operations: tensors that lie side by side in memory, as the slices of an arena do, are
// copied as one.

/// A copy with memory of its own, even where `value` is a view of a larger one.
inline at::Tensor clone(at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  return value.detach().clone(at::MemoryFormat::Preserve);
}

/// Copies in place: whoever else holds the tensor, or a larger one of which it is a view, sees the new values.
inline void copy_into(at::Tensor& to, at::Tensor const& from) {
  at::NoGradGuard const no_graph;
  to.copy_(from);
}

/// Whether `b` begins in the same memory where a slice that follows `a` would.
inline bool follows(at::Tensor const& a, at::Tensor const& b) {
  return b.storage().unsafeGetStorageImpl() == a.storage().unsafeGetStorageImpl() &&
         b.scalar_type() == a.scalar_type() && b.storage_offset() == a.storage_offset() + aligned(a.numel(), a);
}
/// Whether the numbers of both lie at the same places relative to their beginnings, without gaps, and neighbours of
/// both at the same distances, which are those of the device.
inline bool same_places(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}
/// A flat tensor of `length` numbers that begins where `first` does.
inline at::Tensor stretch(at::Tensor const& first, std::int64_t length) {
  auto all = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(first.storage()), first.key_set(), first.dtype());
  all.unsafeGetTensorImpl()->set_storage_offset(first.storage_offset());
  all.unsafeGetTensorImpl()->set_sizes_contiguous({length});
  return all;
}
/// The same for neighbours, from the beginning of one to the end of another.
inline at::Tensor stretch(at::Tensor const& first, at::Tensor const& last) {
  return stretch(first, last.storage_offset() + last.numel() - first.storage_offset());
}

/// The places of values, neighbours one after the other. Else they are in the order in which they were given.
inline std::vector<std::size_t> neighbours_together(std::span<at::Tensor const> values) {
  using Place = std::tuple<void const*, at::ScalarType, std::int64_t>;
  auto const place = [](at::Tensor const& value, std::int64_t offset) {
    return Place(value.storage().unsafeGetStorageImpl(), value.scalar_type(), offset);
  };
  auto const none = values.size();
  std::vector<std::size_t> next(none, none);
  std::vector<bool> follows_one(none, false);
  auto const link = [&](std::size_t one, std::size_t other) {
    next[one] = other;
    follows_one[other] = true;
  };
  for (std::size_t i = 1; i < none; ++i)
    if (follows(values[i - 1], values[i])) link(i - 1, i);
  std::map<Place, std::size_t> begins;
  for (std::size_t i = 0; i != none; ++i)
    if (values[i].numel() != 0 && !follows_one[i]) begins.emplace(place(values[i], values[i].storage_offset()), i);
  for (std::size_t i = 0; i != none; ++i) {
    if (next[i] != none || values[i].numel() == 0) continue;
    auto const end = values[i].storage_offset() + aligned(values[i].numel(), values[i]);
    auto const found = begins.find(place(values[i], end));
    if (found != begins.end() && !follows_one[found->second]) link(i, found->second);
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i != none; ++i)
    if (!follows_one[i])
      for (auto j = i; j != none; j = next[j]) order.push_back(j);
  return order;
}

/// Copies in place, neighbours that were neighbours where they come from in one operation, the others in a few kernels
/// on a GPU instead of one for each tensor. Both have the same shapes.
inline void copy_into(std::span<at::Tensor const> to, std::span<at::Tensor const> from) {
  at::NoGradGuard const no_graph;
  auto const order = neighbours_together(to);
  std::vector<at::Tensor> others_to, others_from;
  for (std::size_t begin = 0; begin != order.size();) {
    auto const pair = [&](std::size_t i) { return std::pair(to[order[i]], from[order[i]]); };
    auto const [first_to, first_from] = pair(begin);
    std::size_t end = begin + 1;
    if (same_places(first_to, first_from))
      while (end != order.size() && follows(to[order[end - 1]], to[order[end]]) &&
             follows(from[order[end - 1]], from[order[end]]) && same_places(to[order[end]], from[order[end]]))
        ++end;
    if (end == begin + 1) {
      if (!first_to.is_same(first_from)) {
        others_to.push_back(first_to);
        others_from.push_back(first_from);
      }
    } else if (first_to.const_data_ptr() != first_from.const_data_ptr()) {
      stretch(first_to, to[order[end - 1]]).copy_(stretch(first_from, from[order[end - 1]]));
      for (auto i = begin; i != end; ++i) to[order[i]].unsafeGetTensorImpl()->bump_version();  // as copy_ itself does
    }
    begin = end;
  }
  if (!others_to.empty()) at::_foreach_copy_(others_to, others_from);
}

/// Copies of all values that lie side by side in memory, as the slices of an arena do. Where the values themselves lie
/// side by side as well, one operation copies them all, or averages them.
inline std::vector<at::Tensor> clones(std::span<at::Tensor const> values) {
  at::NoGradGuard const no_graph;
  struct Flat {
    at::Tensor memory;
    std::int64_t size = 0;
  };
  std::vector<Flat> flats;
  std::vector<std::pair<std::size_t, std::int64_t>> places(values.size());
  for (auto const i : neighbours_together(values)) {
    auto const& value = values[i];
    auto flat = std::find_if(flats.begin(), flats.end(), [&](Flat const& one) {
      return one.memory.scalar_type() == value.scalar_type() && one.memory.device() == value.device();
    });
    if (flat == flats.end()) flat = flats.insert(flat, {at::empty({0}, value.options().requires_grad(false))});
    places[i] = {static_cast<std::size_t>(flat - flats.begin()), flat->size};
    flat->size += aligned(value.numel(), value);
  }
  for (auto& flat : flats) {
    auto const options = flat.memory.options();
    flat.memory = flat.memory.is_cpu() ? at::empty({flat.size}, options) : at::zeros({flat.size}, options);
  }
  std::vector<at::Tensor> all, from;
  for (std::size_t i = 0; i != values.size(); ++i) {
    auto const& [flat, begin] = places[i];
    from.push_back(values[i].detach());
    all.push_back(slice(flats[flat].memory, begin, from.back()));
    // The gap behind it: one operation may take it along with the numbers.
    auto const end = begin + values[i].numel(), next = begin + aligned(values[i].numel(), values[i]);
    if (end == next || !values[i].is_cpu()) continue;
    auto const size = static_cast<std::int64_t>(values[i].element_size());
    std::memset(static_cast<std::byte*>(flats[flat].memory.mutable_data_ptr()) + end * size, 0,
                static_cast<std::size_t>((next - end) * size));
  }
  copy_into(all, from);
  return all;
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

// Tensors of LibTorch in a saved state: `archive.tensor("average", tensor)`.

namespace libtorch {

inline void keep(std::span<SavedTensor* const> handles);

/// Keeps a handle of the tensor: its bytes are fetched from its device when they are read.
FULGURITE_BULK SavedTensor saved(at::Tensor const& value) {
  return {element_name(value.scalar_type(), "a tensor of the saved state"), value.sizes().vec(),
          [value](auto const& take) {
            at::NoGradGuard const no_graph;
            auto const host = value.detach().cpu().contiguous();
            take({static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()});
          },
          value, &keep};
}

/// Puts handles of copies in the place of handles; the copies lie on the same devices.
inline void keep(std::span<SavedTensor* const> handles) {
  std::vector<at::Tensor> values;
  for (auto const* one : handles) values.push_back(*one->tensor<at::Tensor>());
  auto const copies = clones(values);
  for (std::size_t i = 0; i != handles.size(); ++i) *handles[i] = saved(copies[i]);
}

/// Whether the saved bytes are a tensor of this type and shape.
inline bool fits(at::Tensor const& to, SavedTensor const& from) {
  return from.dtype() == element_name(to.scalar_type(), "a tensor of the saved state") &&
         from.shape() == to.sizes().vec();
}

/// Copies what was saved into a tensor that it fits.
FULGURITE_BULK void restore(at::Tensor const& to, SavedTensor const& from) {
  at::NoGradGuard const no_graph;
  if (auto const* const there = from.tensor<at::Tensor>()) {
    to.copy_(*there);
    return;
  }
  auto const host = at::empty(to.sizes(), at::TensorOptions(to.scalar_type()));
  from.read([&](SavedTensor::Bytes bytes) {
    std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(host.mutable_data_ptr()));
  });
  to.copy_(host);
}
/// The same for many, neighbours in one operation where they were saved as neighbours.
inline void restore(std::span<at::Tensor const> to, std::span<SavedTensor const> from) {
  std::vector<at::Tensor> kept;
  for (auto const& one : from)
    if (auto const* const there = one.tensor<at::Tensor>()) kept.push_back(*there);
  if (kept.size() == from.size()) return copy_into(to, kept);
  for (std::size_t i = 0; i != from.size(); ++i) restore(to[i], from[i]);
}

}  // namespace libtorch

/// Loading into a defined tensor writes into its memory, and needs a saved one of the same type and shape. An undefined
/// tensor becomes what was saved: of a snapshot on its device, of a file on the CPU.
template <>
struct TensorState<at::Tensor> {
  static SavedTensor save(at::Tensor const& tensor) {
    return tensor.defined() ? libtorch::saved(tensor) : SavedTensor{};
  }

  FULGURITE_BULK static void load(at::Tensor& to, SavedTensor const& from, std::string const& name) {
    if (!from) {
      to = at::Tensor();
      return;
    }
    if (auto const* const there = from.tensor<at::Tensor>(); there != nullptr && !to.defined()) {
      to = at::empty(there->sizes(), there->options().requires_grad(false));
    } else if (!to.defined()) {
      for (auto const& known : libtorch::element_names)
        if (from.dtype() == known.name) to = at::empty(from.shape(), at::TensorOptions(known.type));
    }
    if (!libtorch::fits(to, from))
      throw Error("fulgurite.checkpoint.state_entry",
                  "'" + name + "' is a tensor " + from.description() + ", here of type " +
                      std::string(libtorch::element_name(to.scalar_type(), name)) + " and shape " +
                      libtorch::shape_text(to.sizes()) + ": load it into what it was saved from");
    libtorch::restore(to, from);
  }
};

}  // namespace fulgurite
