#pragma once
// The parameters and buffers of a module as named bytes: the content of a weights file.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/module.h>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/core/archive_tree.hpp>
#include <fulgurite/core/body.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/switches.hpp>
#include <fulgurite/core/types.hpp>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace fulgurite {
namespace libtorch {

// The parameters of a model, or of a part of it, by name, for every kind of holder.

/// Each defined tensor once. The parameters of a module that is registered under two names would be listed twice.
std::vector<at::Tensor> distinct(std::vector<at::Tensor> all);

/// The model as a torch::nn::Module, whose functions are called even if the model has some of the same names; nullptr
/// if it is not one, and has no named tensors.
template <class Model>
torch::nn::Module const* module_if_any([[maybe_unused]] Model const& model) {
  if constexpr (std::derived_from<Model, torch::nn::Module>) return &model;
  else return nullptr;
}

/// Each parameter once, under its first name: one that two modules share has two names. Empty if the model is not a
/// torch::nn::Module.
std::vector<std::pair<std::string, at::Tensor>> named_parameters(torch::nn::Module const* model);
std::vector<std::pair<std::string, at::Tensor>> named_parameters(auto& model) {
  return named_parameters(module_if_any(model));
}

/// The module behind an argument, which may be a module, a holder of one (torch::nn::Linear, torch::nn::AnyModule) or a
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
inline constexpr ElementName element_names[] = {{at::ScalarType::Double, "F64"},
                                                {at::ScalarType::Float, "F32"},
                                                {at::ScalarType::Half, "F16"},
                                                {at::ScalarType::BFloat16, "BF16"},
                                                {at::ScalarType::Float8_e4m3fn, "F8_E4M3"},
                                                {at::ScalarType::Float8_e5m2, "F8_E5M2"},
                                                {at::ScalarType::Float8_e8m0fnu, "F8_E8M0"},
                                                {at::ScalarType::ComplexFloat, "C64"},
                                                {at::ScalarType::Long, "I64"},
                                                {at::ScalarType::Int, "I32"},
                                                {at::ScalarType::Short, "I16"},
                                                {at::ScalarType::Char, "I8"},
                                                {at::ScalarType::UInt64, "U64"},
                                                {at::ScalarType::UInt32, "U32"},
                                                {at::ScalarType::UInt16, "U16"},
                                                {at::ScalarType::Byte, "U8"},
                                                {at::ScalarType::Bool, "BOOL"}};

std::string_view element_name(at::ScalarType type, std::string_view weight);
/// The same of a tensor, which is refused if it is sparse.
std::string_view element_name(at::Tensor const& tensor, std::string_view weight);

/// Calls `f` with all parameters, then all buffers, by their dotted names.
void each_named_tensor(torch::nn::Module const* model, FunctionRef<void(std::string const&, at::Tensor const&)> f);

/// Throws an Error if a file cannot hold one of them.
void require_kept(torch::nn::Module const* model);

std::vector<std::string> weight_names(torch::nn::Module const* model);

/// Parameters, and whether they receive gradients.
using GradientFlags = std::vector<std::pair<at::Tensor, bool>>;
/// What the scopes of this thread that switch gradients off for a time (Toggle) will restore, the innermost last.
std::vector<GradientFlags const*>& flags_to_restore();

/// What is switched off in a model when these scopes have ended.
Switches switches(torch::nn::Module const& model);
std::vector<std::string> eval_modules(torch::nn::Module const& model);
/// Switches off what is named, and on everything else.
void set_switches(torch::nn::Module& model, Switches const& off);
void set_modes(torch::nn::Module& model, std::vector<std::string> const& eval_modules);

/// Passes each parameter and buffer to `f`. The bytes are valid during the call.
void each_weight(torch::nn::Module const* model, TakeWeight f);
void each_weight(auto& model, TakeWeight f) { each_weight(module_if_any(model), f); }

std::string shape_text(std::span<std::int64_t const> shape);

// The layout of tensors in one flat buffer: where each begins, how it is viewed, and which tensors may not be
// separated.

/// Where the next slice may begin. Slices are aligned like tensors of LibTorch's allocators, since kernels choose their
/// code by alignment, and with it the last bits of a result.
std::int64_t aligned(std::int64_t elements, at::Tensor const& like);

/// A part of `flat` in the shape of `like`. Unlike a view it has its own version counter: a write to one slice, or to
/// the whole buffer, does not change the version of another slice.
at::Tensor slice(at::Tensor const& flat, std::int64_t begin, at::Tensor const& like);

/// How often LibTorch's operators have written to a tensor.
std::uint32_t version_of(at::Tensor const& tensor);

/// Lets the system reclaim the memory of these zeros until it is used: a hint, on which nothing depends.
void give_back([[maybe_unused]] void* zeros, [[maybe_unused]] std::size_t bytes);

/// The range of bytes that a tensor occupies.
struct Extent {
  char const* begin;
  char const* end;
};
Extent extent(at::Tensor const& tensor);

/// Throws an Error if two parameters share memory, since an arena would separate them. One parameter under two names is
/// allowed.
void require_apart(std::vector<at::Tensor> const& parameters);

// Copies of many tensors in few operations: tensors that are neighbours in memory, such as the slices of an arena, are
// copied as one.

/// A copy with memory of its own, even where `value` is a view of a larger one.
at::Tensor clone(at::Tensor const& value);

/// Copies in place: other handles of the tensor, and a larger tensor of which it is a view, see the new values.
void copy_into(at::Tensor& to, at::Tensor const& from);

/// True if `b` begins in the same memory as a slice right after `a` would.
bool follows(at::Tensor const& a, at::Tensor const& b);
/// True if the elements of both have the same layout without gaps, and the same distances to their neighbours, which
/// are those of the device.
bool same_places(at::Tensor const& a, at::Tensor const& b);
/// A flat tensor of `length` numbers that begins where `first` does.
at::Tensor stretch(at::Tensor const& first, std::int64_t length);
/// A flat tensor over neighbours, from the beginning of `first` to the end of `last`.
at::Tensor stretch(at::Tensor const& first, at::Tensor const& last);

/// Copies in place. Runs that are neighbours in both source and destination are copied in one operation, the others in
/// a few kernels on a GPU instead of one per tensor. Both lists have the same shapes.
void copy_into(std::span<at::Tensor const> to, std::span<at::Tensor const> from);

/// Copies of all values, placed next to each other in memory like the slices of an arena. If the values themselves are
/// neighbours as well, one operation copies, or averages, all of them.
std::vector<at::Tensor> clones(std::span<at::Tensor const> values);

/// The values in row-major order on the CPU. Copies from a device overlap, and are waited for once.
std::vector<at::Tensor> on_host(std::span<at::Tensor const> values);

// Moves the parameters and buffers of a module to a device and converts them to a floating-point type. Module::to would
// also convert integer buffers.

/// Changes tensors in place: they keep their identity, on which optimizers and users rely. A tensor that needs no
/// change is not touched.
void relocate(at::Tensor& tensor, at::Device device, std::optional<at::ScalarType> type);

/// Does nothing for a model that is not a torch::nn::Module. Without a device each tensor stays where it is.
void relocate(torch::nn::Module const* model, std::optional<at::Device> device, std::optional<at::ScalarType> type);

// Tensors of LibTorch in a saved state: `archive.tensor("average", tensor)`.

/// Keeps a handle of the tensor: its bytes are copied from its device when they are read.
SavedTensor saved(at::Tensor const& value);

/// Replaces handles by handles of copies.
void keep(std::span<SavedTensor* const> handles, CopyTo where);

/// True if the saved bytes are a tensor of this type and shape.
bool fits(at::Tensor const& to, SavedTensor const& from);

/// Copies a saved tensor into one of the same type and shape.
void restore(at::Tensor const& to, SavedTensor const& from);
/// The same for many tensors; those that were saved as neighbours are copied in one operation.
void restore(std::span<at::Tensor const> to, std::span<SavedTensor const> from);

// Refuses an optimizer that lists no parameter, or one twice, since it would be updated, and clipped, twice.

/// For an optimizer without a parameter: throws, except where all parameters of the model are frozen.
void refuse_without_parameters(std::string_view optimizer, torch::nn::Module const* model);

/// `names`: all names of the tensor in the model.
[[noreturn]] void refuse_listed_twice(std::string_view optimizer, std::vector<std::string> const& names);

/// Thrown if an optimizer of fulgurite::optim is given a tensor in two groups. The optimizer does not know the model,
/// so the fit adds the names.
class InTwoGroups : public Error {
 public:
  InTwoGroups(std::string_view optimizer, at::Tensor const& parameter, std::vector<std::string> const& names = {});

  std::string const& optimizer() const { return optimizer_; }
  at::Tensor const& parameter() const { return parameter_; }

 private:
  std::string optimizer_;
  at::Tensor parameter_;
};

/// All names of a tensor in the model; none if the model is no torch::nn::Module.
std::vector<std::string> names_of(torch::nn::Module const* model, at::Tensor const& parameter);

/// Returns the optimizers that `make` makes for this model; its errors get the model's names for parameters.
auto made_with_names(auto& model, auto const& make) {
  try {
    return make();
  } catch (InTwoGroups const& refused) {
    throw InTwoGroups(refused.optimizer(), refused.parameter(), names_of(module_if_any(model), refused.parameter()));
  }
}

/// The first tensor that occurs twice in a list of parameters, or an undefined tensor.
at::Tensor listed_twice(auto const& parameters) {
  std::unordered_set<c10::TensorImpl const*> seen;
  for (at::Tensor const& parameter : parameters)
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) return parameter;
  return {};
}
FULGURITE_EXTERN(at::Tensor listed_twice(std::vector<at::Tensor> const&));

/// Checks that an optimizer has parameters, and none twice over all groups. A module that is registered under two names
/// has each of its tensors twice in `parameters()`, and an optimizer of torch::optim takes these for two. A
/// user-defined optimizer need not have a name.
template <class Model, class Optimizer>
void require_listed_once(Model& model, Optimizer& optimizer) {
  auto&& all = optimizer.parameters();
  bool const some = std::begin(all) != std::end(all);
  auto const twice = listed_twice(all);
  if (some && !twice.defined()) return;
  std::string_view called = type_name<Optimizer>();
  if constexpr (requires { Optimizer::name(); }) called = Optimizer::name();
  if (!some) return refuse_without_parameters(called, module_if_any(model));
  refuse_listed_twice(called, names_of(module_if_any(model), twice));
}

}  // namespace libtorch

/// Loading into a defined tensor writes into its memory, and needs a saved tensor of the same type and shape. An
/// undefined tensor becomes the saved one: on its device for a snapshot, on the CPU for a file.
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
