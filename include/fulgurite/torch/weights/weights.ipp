#pragma once
// The bodies of torch/weights/weights.hpp.

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY std::vector<at::Tensor> distinct(std::vector<at::Tensor> all) {
  std::unordered_set<c10::TensorImpl const*> seen;
  std::erase_if(all, [&](at::Tensor const& tensor) {
    return !tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second;
  });
  return all;
}

FULGURITE_BODY std::vector<std::pair<std::string, at::Tensor>> named_parameters(torch::nn::Module const* model) {
  std::vector<std::pair<std::string, at::Tensor>> all;
  if (model == nullptr) return all;
  for (auto const& parameter : model->named_parameters()) {
    bool const known =
        std::any_of(all.begin(), all.end(), [&](auto const& one) { return one.second.is_same(parameter.value()); });
    if (!known) all.emplace_back(parameter.key(), parameter.value());
  }
  return all;
}

FULGURITE_BODY std::string_view element_name(at::ScalarType type, std::string_view weight) {
  for (auto const& known : element_names)
    if (known.type == type) return known.name;
  throw Error("fulgurite.checkpoint.element_type",
              "'" + std::string(weight) + "' is of type " + c10::toString(type) +
                  ", which a safetensors file cannot hold: keep it as real and imaginary part, or as integers");
}

FULGURITE_BODY std::string_view element_name(at::Tensor const& tensor, std::string_view weight) {
  if (tensor.layout() != at::kStrided)
    throw Error("fulgurite.checkpoint.element_type",
                "'" + std::string(weight) +
                    "' is sparse, which a safetensors file cannot hold: keep its indices and its values as two "
                    "tensors, and make it of them where it is used");
  return element_name(tensor.scalar_type(), weight);
}

FULGURITE_BODY void each_named_tensor(torch::nn::Module const* model,
                                      FunctionRef<void(std::string const&, at::Tensor const&)> f) {
  if (model == nullptr) return;
  for (auto const& parameter : model->named_parameters()) f(parameter.key(), parameter.value());
  for (auto const& buffer : model->named_buffers()) f(buffer.key(), buffer.value());
}

FULGURITE_BODY void require_kept(torch::nn::Module const* model) {
  each_named_tensor(model, [](std::string const& name, at::Tensor const& tensor) { element_name(tensor, name); });
}

FULGURITE_BODY std::vector<std::string> weight_names(torch::nn::Module const* model) {
  std::vector<std::string> names;
  each_named_tensor(model, [&](std::string const& name, at::Tensor const&) { names.push_back(name); });
  return names;
}

FULGURITE_BULK_BODY std::vector<GradientFlags const*>& flags_to_restore() {
  thread_local std::vector<GradientFlags const*> all;
  return all;
}

FULGURITE_BODY Switches switches(torch::nn::Module const& model) {
  auto const& scopes = flags_to_restore();
  Switches off;
  for (auto const& parameter : model.named_parameters()) {
    bool on = parameter.value().requires_grad();
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      for (auto const& [tensor, required] : **scope)
        if (tensor.is_same(parameter.value())) on = required;
    if (!on) off.parameters.push_back(parameter.key());
  }
  sort_seldom(off.parameters);
  off.modules = eval_modules(model);
  return off;
}

FULGURITE_BODY std::vector<std::string> eval_modules(torch::nn::Module const& model) {
  std::vector<std::string> all;
  if (!model.is_training()) all.emplace_back();
  for (auto const& module : model.named_modules(std::string(), false))
    if (!module.value()->is_training()) all.push_back(module.key());
  sort_seldom(all);
  return all;
}

FULGURITE_BODY void set_switches(torch::nn::Module& model, Switches const& off) {
  for (auto const& parameter : model.named_parameters()) {
    auto const& tensor = parameter.value();
    bool const on = !std::ranges::binary_search(off.parameters, parameter.key());
    bool const takes_any = tensor.is_floating_point() || tensor.is_complex();
    if (tensor.requires_grad() != on && tensor.is_leaf() && takes_any) tensor.set_requires_grad(on);
  }
  set_modes(model, off.modules);
}

FULGURITE_BODY void set_modes(torch::nn::Module& model, std::vector<std::string> const& eval_modules) {
  auto const set = [&](torch::nn::Module& module, std::string const& name) {
    if (bool const on = !std::ranges::binary_search(eval_modules, name); module.is_training() != on) module.train(on);
  };
  set(model, {});  // train() also sets the modules in it, which come later
  for (auto const& module : model.named_modules(std::string(), false)) set(*module.value(), module.key());
}

FULGURITE_BODY void each_weight(torch::nn::Module const* model, TakeWeight f) {
  require_kept(model);
  std::vector<std::string> names;
  std::vector<at::Tensor> all;
  each_named_tensor(model, [&](std::string const& name, at::Tensor const& tensor) {
    names.push_back(name);
    all.push_back(tensor);
  });
  auto const size = [&](std::size_t i) { return std::uint64_t{all[i].nbytes()}; };
  each_range_copied_together(all.size(), size, [&](std::size_t begin, std::size_t end) {
    auto const copies = on_host(std::span(all).subspan(begin, end - begin));
    for (auto i = begin; i != end; ++i) {
      auto const& host = copies[i - begin];
      f(std::string_view(names[i]), WeightView{element_name(host.scalar_type(), names[i]),
                                               host.sizes().vec(),
                                               {static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()}});
    }
  });
}

FULGURITE_BULK_BODY std::string shape_text(std::span<std::int64_t const> shape) { return "[" + listed(shape) + "]"; }

FULGURITE_BULK_BODY std::int64_t aligned(std::int64_t elements, at::Tensor const& like) {
  std::int64_t const bytes = like.is_cpu() ? 64 : 512;
  auto const unit = std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(like.element_size()));
  return (elements + unit - 1) / unit * unit;
}

FULGURITE_BULK_BODY at::Tensor slice(at::Tensor const& flat, std::int64_t begin, at::Tensor const& like) {
  auto part = at::empty({0}, flat.options());
  if (like.is_non_overlapping_and_dense()) part.set_(flat.storage(), begin, like.sizes(), like.strides());
  else part.set_(flat.storage(), begin, like.sizes());
  return part;
}

FULGURITE_BULK_BODY std::uint32_t version_of(at::Tensor const& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

FULGURITE_BULK_BODY void give_back([[maybe_unused]] void* zeros, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  auto const page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  auto const begin = (reinterpret_cast<std::uintptr_t>(zeros) + page - 1) / page * page,
             end = (reinterpret_cast<std::uintptr_t>(zeros) + bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

FULGURITE_BULK_BODY Extent extent(at::Tensor const& tensor) {
  std::int64_t last = 0;
  for (std::int64_t d = 0; d != tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  auto const* begin = static_cast<char const*>(tensor.const_data_ptr());
  return {begin, tensor.numel() == 0 ? begin : begin + (last + 1) * static_cast<std::int64_t>(tensor.element_size())};
}

FULGURITE_BULK_BODY void require_apart(std::vector<at::Tensor> const& parameters) {
  std::vector<Extent> extents;
  for (auto const& parameter : parameters) extents.push_back(extent(parameter));
  // A tensor without elements begins where its neighbour begins, and overlaps nothing.
  sort_seldom(extents,
              [](Extent const& a, Extent const& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  for (std::size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      throw Error("fulgurite.optim.shared_memory", "two parameters lie in the same memory, which fulgurite::optim "
                                                   "would part: register one tensor under both names, or use "
                                                   "torch::optim");
}

FULGURITE_BULK_BODY at::Tensor clone(at::Tensor const& value) {
  at::NoGradGuard const no_graph;
  return value.detach().clone();
}

FULGURITE_BULK_BODY void copy_into(at::Tensor& to, at::Tensor const& from) {
  at::NoGradGuard const no_graph;
  to.copy_(from);
}

FULGURITE_BULK_BODY bool follows(at::Tensor const& a, at::Tensor const& b) {
  return b.storage().unsafeGetStorageImpl() == a.storage().unsafeGetStorageImpl() &&
         b.scalar_type() == a.scalar_type() && b.storage_offset() == a.storage_offset() + aligned(a.numel(), a);
}

FULGURITE_BULK_BODY bool same_places(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.is_non_overlapping_and_dense();
}

FULGURITE_BULK_BODY at::Tensor stretch(at::Tensor const& first, std::int64_t length) {
  auto all = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(first.storage()), first.key_set(), first.dtype());
  all.unsafeGetTensorImpl()->set_storage_offset(first.storage_offset());
  all.unsafeGetTensorImpl()->set_sizes_contiguous({length});
  return all;
}

FULGURITE_BULK_BODY at::Tensor stretch(at::Tensor const& first, at::Tensor const& last) {
  return stretch(first, last.storage_offset() + last.numel() - first.storage_offset());
}

/// The indices of the values, ordered so that neighbours follow one another; otherwise in the given order.
FULGURITE_BULK_BODY std::vector<std::size_t> neighbours_together(std::span<at::Tensor const> values) {
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

FULGURITE_BULK_BODY void copy_into(std::span<at::Tensor const> to, std::span<at::Tensor const> from) {
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

FULGURITE_BULK_BODY std::vector<at::Tensor> clones(std::span<at::Tensor const> values) {
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
    // Zeroes the gap after the tensor, which one operation may process together with the elements.
    auto const end = begin + values[i].numel(), next = begin + aligned(values[i].numel(), values[i]);
    if (end == next || !values[i].is_cpu()) continue;
    auto const size = static_cast<std::int64_t>(values[i].element_size());
    std::memset(static_cast<std::byte*>(flats[flat].memory.mutable_data_ptr()) + end * size, 0,
                static_cast<std::size_t>((next - end) * size));
  }
  copy_into(all, from);
  return all;
}

FULGURITE_BULK_BODY std::vector<at::Tensor> on_host(std::span<at::Tensor const> values) {
  at::NoGradGuard const no_graph;
  bool const overlap = values.size() > 1;  // pins memory, which LibTorch keeps: too much for one large tensor
  std::vector<at::Tensor> copies;
  std::vector<at::Device> devices;
  for (auto const& value : values) {
    copies.push_back(value.detach().to(at::kCPU, value.scalar_type(), overlap));
    if (overlap && !value.is_cpu() && std::find(devices.begin(), devices.end(), value.device()) == devices.end())
      devices.push_back(value.device());
  }
  for (auto const device : devices) synchronize(device);
  for (auto& copy : copies) copy = copy.contiguous().resolve_conj();
  return copies;
}

FULGURITE_BULK_BODY void relocate(at::Tensor& tensor, at::Device device, std::optional<at::ScalarType> type) {
  auto const wanted = type && tensor.is_floating_point() ? *type : tensor.scalar_type();
  if (tensor.device() == device && tensor.scalar_type() == wanted) return;
  auto options = tensor.options().device(device).dtype(wanted).requires_grad(false);
  auto const gradient = tensor.grad();
  if (gradient.defined()) tensor.mutable_grad().reset();  // LibTorch would compare the new data with it
  tensor.set_data(tensor.detach().to(options));
  if (gradient.defined()) tensor.mutable_grad() = gradient.to(options);
}

FULGURITE_BODY void relocate(torch::nn::Module const* model, std::optional<at::Device> device,
                             std::optional<at::ScalarType> type) {
  if (model == nullptr) return;
  at::NoGradGuard const no_graph;
  for (auto tensors : {model->parameters(), model->buffers()})
    for (auto& tensor : tensors)
      if (tensor.defined()) relocate(tensor, device.value_or(tensor.device()), type);
}

FULGURITE_BULK_BODY SavedTensor saved(at::Tensor const& value) {
  return {element_name(value, "a tensor of the saved state"), value.sizes().vec(),
          [value](auto const& take) {
            at::NoGradGuard const no_graph;
            auto const host = value.detach().cpu().contiguous().resolve_conj();
            take({static_cast<std::byte const*>(host.const_data_ptr()), host.nbytes()});
          },
          value, &keep};
}

FULGURITE_BULK_BODY void keep(std::span<SavedTensor* const> handles, CopyTo where) {
  std::vector<at::Tensor> values;
  for (auto const* one : handles) values.push_back(*one->tensor<at::Tensor>());
  auto const copies = where == CopyTo::host ? on_host(values) : clones(values);
  for (std::size_t i = 0; i != handles.size(); ++i) *handles[i] = saved(copies[i]);
}

FULGURITE_BULK_BODY bool fits(at::Tensor const& to, SavedTensor const& from) {
  return from.dtype() == element_name(to.scalar_type(), "a tensor of the saved state") &&
         from.shape() == to.sizes().vec();
}

FULGURITE_BULK_BODY void restore(at::Tensor const& to, SavedTensor const& from) {
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

FULGURITE_BULK_BODY void restore(std::span<at::Tensor const> to, std::span<SavedTensor const> from) {
  std::vector<at::Tensor> kept;
  for (auto const& one : from)
    if (auto const* const there = one.tensor<at::Tensor>()) kept.push_back(*there);
  if (kept.size() == from.size()) return copy_into(to, kept);
  for (std::size_t i = 0; i != from.size(); ++i) restore(to[i], from[i]);
}

/// Returns "a parameter 'a.weight', which is also 'b.weight'". `names`: all names of the tensor in the model.
FULGURITE_BODY std::string parameter_text(std::vector<std::string> const& names) {
  std::string what = "a parameter";
  for (std::size_t i = 0; i != names.size(); ++i) what += (i == 0 ? " '" : ", which is also '") + names[i] + "'";
  return what + (names.size() > 1 ? "," : "");
}

FULGURITE_BODY void refuse_without_parameters(std::string_view optimizer, torch::nn::Module const* model) {
  auto const all = model ? model->parameters() : std::vector<at::Tensor>();
  bool const trains = std::ranges::any_of(all, [](auto const& parameter) { return parameter.requires_grad(); });
  if (!all.empty() && !trains) return;  // groups are added when a callback unfreezes them
  throw Error("fulgurite.optimizer.no_parameter",
              std::string(optimizer) +
                  " has no parameter, so it would train nothing: register each layer of the model, "
                  "register_module(\"fc\", torch::nn::Linear(3, 1)), and each tensor by register_parameter");
}

FULGURITE_BODY void refuse_listed_twice(std::string_view optimizer, std::vector<std::string> const& names) {
  throw Error("fulgurite.optimizer.twice",
              std::string(optimizer) + " lists " + parameter_text(names) +
                  " twice, so that each step would move it twice: give it filter_params(*this), which lists each "
                  "tensor once, or take an optimizer of fulgurite::optim");
}

FULGURITE_BULK_BODY InTwoGroups::InTwoGroups(std::string_view optimizer, at::Tensor const& parameter,
                                             std::vector<std::string> const& names)
    : Error("fulgurite.optimizer.twice", std::string(optimizer) + " lists " + parameter_text(names) +
                                             " in two groups, which may have different options: give it to one of "
                                             "them"),
      optimizer_(optimizer),
      parameter_(parameter) {}

FULGURITE_BODY std::vector<std::string> names_of(torch::nn::Module const* model, at::Tensor const& parameter) {
  std::vector<std::string> names;
  if (model != nullptr)
    for (auto const& named : model->named_parameters())
      if (named.value().is_same(parameter)) names.push_back(named.key());
  return names;
}
FULGURITE_INSTANTIATE(at::Tensor listed_twice(std::vector<at::Tensor> const&));

}  // namespace fulgurite::libtorch

namespace fulgurite {

FULGURITE_BODY void TensorState<at::Tensor>::load(at::Tensor& to, SavedTensor const& from, std::string const& name) {
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

FULGURITE_ARCHIVED(FULGURITE_INSTANTIATE, at::Tensor);

}  // namespace fulgurite
