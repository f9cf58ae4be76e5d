#pragma once
// The bodies of torch/optim/clip.hpp.

#include <atomic>
#include <limits>

#include <ATen/ops/isnan.h>

#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY at::Tensor dense_part(at::Tensor const& gradient) {
  return gradient.is_sparse() ? gradient._values() : gradient;
}

FULGURITE_BULK_BODY void sum_rows(at::Tensor const& parameter) {
  auto const& gradient = parameter.grad();
  if (!gradient.defined() || !gradient.is_sparse() || gradient.is_coalesced()) return;
  at::NoGradGuard const no_graph;
  parameter.mutable_grad() = gradient.coalesce();
}

FULGURITE_BULK_BODY bool Gradients::on_one_device() const {
  for (auto const& gradient : list())
    if (gradient.device() != list().front().device()) return false;
  return true;
}

FULGURITE_BULK_BODY std::vector<at::Tensor>& Gradients::list() {
  thread_local std::vector<at::Tensor> kept;
  return kept;
}

FULGURITE_BULK_BODY at::Tensor factor_of(at::Tensor const& norm, double limit) {
  return (at::Scalar(limit) / norm.add(1e-6)).clamp_max_(1.0);
}

FULGURITE_BULK_BODY std::optional<double> factor_now(at::Tensor const& norm, double limit) {
  if (!norm.is_cpu() || c10::impl::tls_is_dispatch_key_included(recording_key)) return std::nullopt;
  auto const of = [&]<class T>(T value) {
    T const factor = static_cast<T>(limit) / (value + static_cast<T>(1e-6));
    return static_cast<double>(factor > T(1) ? T(1) : factor);
  };
  if (norm.scalar_type() == at::kFloat) return of(*static_cast<float const*>(norm.const_data_ptr()));
  if (norm.scalar_type() == at::kDouble) return of(*static_cast<double const*>(norm.const_data_ptr()));
  return std::nullopt;
}

FULGURITE_BULK_BODY bool all_finite(std::uint16_t const* bits, std::size_t size, std::uint16_t exponent) {
  bool found = false;
  for (std::size_t i = 0; i != size; ++i) found |= (bits[i] & exponent) == exponent;
  return !found;
}

FULGURITE_BULK_BODY std::optional<bool> plainly_finite(at::Tensor const& tensor) {
  if (tensor.is_cpu() && tensor.layout() == at::kStrided && tensor.is_non_overlapping_and_dense()) {
    auto const* const data = tensor.const_data_ptr();
    auto const each = [&]<class T>(T const* numbers, auto... exponent) {
      std::atomic<bool> all = true;
      in_parts(tensor.numel(), [&](std::int64_t begin, std::int64_t end) {
        if (!all_finite(numbers + begin, static_cast<std::size_t>(end - begin), exponent...)) all = false;
      });
      return all.load();
    };
    switch (tensor.scalar_type()) {
    case at::kFloat: return each(static_cast<float const*>(data));
    case at::kDouble: return each(static_cast<double const*>(data));
    case at::kBFloat16: return each(static_cast<std::uint16_t const*>(data), std::uint16_t{0x7f80});
    case at::kHalf: return each(static_cast<std::uint16_t const*>(data), std::uint16_t{0x7c00});
    default: break;
    }
  }
  return std::nullopt;
}

FULGURITE_BULK_BODY bool all_finite(at::Tensor const& tensor) {
  auto const plainly = plainly_finite(tensor);
  return plainly ? *plainly : at::isfinite(tensor).all().item<bool>();
}

FULGURITE_BODY std::string buffer_with_nan(torch::nn::Module const* model) {
  at::NoGradGuard const no_graph;
  if (model != nullptr)
    for (auto const& buffer : model->named_buffers())
      if (buffer.value().defined() && buffer.value().is_floating_point() &&
          at::isnan(buffer.value()).any().item<bool>())
        return buffer.key();
  return "";
}

FULGURITE_BULK_BODY void note_largest(std::vector<at::Tensor>& noted, std::vector<at::Tensor>& all) {
  std::erase_if(all,
                [](at::Tensor const& one) { return at::isIntegralType(one.scalar_type(), true) || one.numel() == 0; });
  if (all.empty()) return;
  at::NoGradGuard const no_graph;
  for (auto& largest : at::_foreach_norm(all, std::numeric_limits<double>::infinity()))
    noted.push_back(std::move(largest));
}

FULGURITE_BULK_BODY void SeenGradients::look(at::Tensor const& gradient) {
  if (!look_ || !gradient.defined()) return;
  if (auto const finite = plainly_finite(gradient)) note(gradient, *finite);
}

FULGURITE_BULK_BODY void SeenGradients::note(at::Tensor const& gradient, bool finite) {
  for (auto& one : seen_)
    if (one.is(gradient)) {
      one.version = version_of(gradient);
      one.finite = finite;
      return;
    }
  seen_.push_back({Handle(gradient.getIntrusivePtr()), version_of(gradient), finite});
}

FULGURITE_BULK_BODY std::optional<bool> SeenGradients::finite(at::Tensor const& gradient) const {
  for (auto const& one : seen_)
    if (one.is(gradient) && one.version == version_of(gradient)) return one.finite;
  return std::nullopt;
}

FULGURITE_BULK_BODY bool SeenGradients::Seen::is(at::Tensor const& other) const {
  return gradient._unsafe_get_target() == other.unsafeGetTensorImpl();
}

FULGURITE_BULK_BODY GradientLooks::GradientLooks() = default;
FULGURITE_BULK_BODY GradientLooks::GradientLooks(GradientLooks&&) noexcept = default;
FULGURITE_BULK_BODY GradientLooks::~GradientLooks() { detach(); }

FULGURITE_BULK_BODY void GradientLooks::detach() {
  for (auto const& parameter : watched_)
    if (seen_of(parameter) == seen_) torch::autograd::impl::post_acc_grad_hooks(parameter).reset();
  watched_.clear();
  seen_.reset();
}

FULGURITE_BODY std::shared_ptr<SeenGradients> GradientLooks::seen_of(at::Tensor const& parameter) {
  if (!parameter.unsafeGetTensorImpl()->autograd_meta()) return nullptr;
  auto const* const hook = dynamic_cast<Hook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
  return hook ? hook->seen : nullptr;
}

FULGURITE_BODY void GradientLooks::forget(std::vector<at::Tensor> const& parameters) {
  for (auto const& parameter : parameters)
    if (auto const seen = seen_of(parameter)) return seen->forget();
}

FULGURITE_BULK_BODY void GradientLooks::Hook::operator()(at::Tensor const& parameter) { seen->look(parameter.grad()); }

FULGURITE_BODY void GradientLooks::attach_to(torch::nn::Module const* model) {
  detach();
  if (model == nullptr) return;
  auto const parameters = model->parameters();
  std::size_t bytes = 0;
  for (auto const& parameter : parameters)
    if (is_large(parameter)) bytes += parameter.nbytes();
  if (bytes < least_bytes_in_all) return;
  seen_ = std::make_shared<SeenGradients>();
  for (auto const& parameter : parameters)
    if (is_large(parameter) && !torch::autograd::impl::post_acc_grad_hooks(parameter)) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(seen_));
      watched_.push_back(parameter);
    }
}

FULGURITE_BULK_BODY bool GradientLooks::is_large(at::Tensor const& parameter) {
  return parameter.is_cpu() && parameter.requires_grad() && parameter.is_leaf() && parameter.nbytes() >= least_bytes;
}

FULGURITE_BULK_BODY Norms gradient_norms(std::vector<std::pair<std::string, at::Tensor>> const& parameters,
                                         double type) {
  at::NoGradGuard const no_graph;
  Norms norms;
  std::vector<at::Tensor> gradients;
  for (auto const& [name, parameter] : parameters) {
    auto const& gradient = parameter.grad();
    if (!gradient.defined()) continue;
    norms.emplace_back(name, 0.0);
    gradients.push_back(gradient.is_sparse() ? gradient.coalesce().values() : gradient);
  }
  if (gradients.empty()) return norms;
  auto each = at::_foreach_norm(gradients, type);
  for (auto& norm : each) norm = norm.to(gradients.front().device());
  auto const stacked = at::stack(each);
  norms.emplace_back("total", 0.0);
  auto const host =
      at::cat({stacked, at::linalg_vector_norm(stacked, type).unsqueeze(0)}).to(at::kDouble).cpu().contiguous();
  auto const* values = data_of<double>(host);
  for (auto& [name, value] : norms) value = *values++;
  return norms;
}

FULGURITE_CLIPPING(INSTANTIATE, std::vector<at::Tensor>);

}  // namespace fulgurite::libtorch
