#pragma once
// The parameters and buffers of a module as named bytes: what a file of weights holds.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/function_ref.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace fulgurite::libtorch {

// The parameters of a model by name, and of a part of it, however the part is held.

/// Each defined tensor once. A module that is registered under two names shows its parameters twice.
std::vector<at::Tensor> distinct(std::vector<at::Tensor> all);

/// The model as LibTorch knows it, whatever functions of the same names it has of its own; nullptr where it is no
/// torch::nn::Module, and has no tensors by name.
template <class Model>
torch::nn::Module const* module_if_any([[maybe_unused]] Model const& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return &model;
  else return nullptr;
}

/// Each parameter once, under its first name: one that two modules share has two names. Empty if the model is no
/// torch::nn::Module.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(torch::nn::Module const* model);
template <class Model>
std::vector<std::pair<std::string, at::Tensor>> named_parameters(Model& model) {
  return named_parameters(module_if_any(model));
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

std::string_view element_name(at::ScalarType type, std::string_view weight);

/// Calls its argument with parameters, then buffers, by their dotted names.
void each_named_tensor(torch::nn::Module const* model, FunctionRef<void(std::string const&, at::Tensor const&)> f);

std::vector<std::string> weight_names(torch::nn::Module const* model);

/// Hands over each parameter and buffer. The bytes live as long as the call.
void each_weight(torch::nn::Module const* model, TakeWeight f);
template <class Model>
void each_weight(Model& model, TakeWeight f) {
  each_weight(module_if_any(model), f);
}

std::string shape_text(std::span<std::int64_t const> shape);

// How tensors lie in one flat buffer: where each begins, how it is seen, and which ones may not be moved apart.

/// Where the next slice may begin. Each begins where LibTorch's allocators would let a tensor begin, since kernels
/// choose their paths by alignment, and with the path the last bits of a result.
std::int64_t aligned(std::int64_t elements, at::Tensor const& like);

/// A part of `flat` in the shape of `like`. Unlike a view it has a version counter of its own: a write to one slice, or
/// to the whole, does not show in the version of another.
at::Tensor slice(at::Tensor const& flat, std::int64_t begin, at::Tensor const& like);

/// The system may have the memory of these zeros until somebody asks for it: a hint, of which nothing depends.
void give_back([[maybe_unused]] void* zeros, [[maybe_unused]] std::size_t bytes);

/// The bytes that a tensor reaches.
struct Extent {
  char const* begin;
  char const* end;
};
Extent extent(at::Tensor const& tensor);

/// Throws an Error if two parameters share memory, since an arena would part them. One parameter under two names is
/// allowed.
void require_apart(std::vector<at::Tensor> const& parameters);

// Copies of many tensors in few operations: tensors that lie side by side in memory, as the slices of an arena do, are
// copied as one.

/// A copy with memory of its own, even where `value` is a view of a larger one.
at::Tensor clone(at::Tensor const& value);

/// Copies in place: whoever else holds the tensor, or a larger one of which it is a view, sees the new values.
void copy_into(at::Tensor& to, at::Tensor const& from);

/// Whether `b` begins in the same memory where a slice that follows `a` would.
bool follows(at::Tensor const& a, at::Tensor const& b);
/// Whether the numbers of both lie at the same places relative to their beginnings, without gaps, and neighbours of
/// both at the same distances, which are those of the device.
bool same_places(at::Tensor const& a, at::Tensor const& b);
/// A flat tensor of `length` numbers that begins where `first` does.
at::Tensor stretch(at::Tensor const& first, std::int64_t length);
/// The same for neighbours, from the beginning of one to the end of another.
at::Tensor stretch(at::Tensor const& first, at::Tensor const& last);

/// The places of values, neighbours one after the other. Else they are in the order in which they were given.
std::vector<std::size_t> neighbours_together(std::span<at::Tensor const> values);

/// Copies in place, neighbours that were neighbours where they come from in one operation, the others in a few kernels
/// on a GPU instead of one for each tensor. Both have the same shapes.
void copy_into(std::span<at::Tensor const> to, std::span<at::Tensor const> from);

/// Copies of all values that lie side by side in memory, as the slices of an arena do. Where the values themselves lie
/// side by side as well, one operation copies them all, or averages them.
std::vector<at::Tensor> clones(std::span<at::Tensor const> values);

}  // namespace fulgurite::libtorch

namespace fulgurite {

// Tensors of LibTorch in a saved state: `archive.tensor("average", tensor)`.

namespace libtorch {

void keep(std::span<SavedTensor* const> handles);

/// Keeps a handle of the tensor: its bytes are fetched from its device when they are read.
SavedTensor saved(at::Tensor const& value);

/// Puts handles of copies in the place of handles; the copies lie on the same devices.
void keep(std::span<SavedTensor* const> handles);

/// Whether the saved bytes are a tensor of this type and shape.
bool fits(at::Tensor const& to, SavedTensor const& from);

/// Copies what was saved into a tensor that it fits.
void restore(at::Tensor const& to, SavedTensor const& from);
/// The same for many, neighbours in one operation where they were saved as neighbours.
void restore(std::span<at::Tensor const> to, std::span<SavedTensor const> from);

}  // namespace libtorch

/// Loading into a defined tensor writes into its memory, and needs a saved one of the same type and shape. An undefined
/// tensor becomes what was saved: of a snapshot on its device, of a file on the CPU.
template <>
struct TensorState<at::Tensor> {
  static SavedTensor save(at::Tensor const& tensor) {
    return tensor.defined() ? libtorch::saved(tensor) : SavedTensor{};
  }
  static void load(at::Tensor& to, SavedTensor const& from, std::string const& name);
};

FULGURITE_ARCHIVED(FULGURITE_EXTERN, at::Tensor);

}  // namespace fulgurite

#if !defined(FULGURITE_COMPILED)
#include <fulgurite/torch/weights/weights.ipp>
#endif
