#pragma once
// The bodies of torch/optim/arena_optimizer.hpp.

#include <fulgurite/torch/optim/arena_optimizer.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY void take_maximum(at::Tensor& x, at::Tensor const& other) { at::maximum_out(x, x, other); }

FULGURITE_BULK_BODY void scale_and_add(at::Tensor const& x, double factor, at::Tensor const& y, double alpha) {
  x.mul_(factor).add_(y, alpha);
}

FULGURITE_BULK_BODY void scale_and_addcmul(at::Tensor const& x, double factor, at::Tensor const& a, at::Tensor const& b,
                                           double value) {
  x.mul_(factor).addcmul_(a, b, value);
}

FULGURITE_BULK_BODY void add_quotient(at::Tensor const& to, at::Tensor const& x, at::Tensor const& root, double divisor,
                                      double eps, double value) {
  to.addcdiv_(x, root.div_(divisor).add_(eps), value);
}

FULGURITE_INSTANTIATE(at::Tensor clip_norm(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void clip_value(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(void scale_gradients(ArenaParameters const&, double));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(bool gradients_finite(ArenaParameters const&, SeenGradients const&));
FULGURITE_INSTANTIATE(bool weights_finite(ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_gradients(std::optional<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(void note_weights(std::optional<at::Tensor>&, ArenaParameters const&));
FULGURITE_INSTANTIATE(at::Tensor listed_twice(ArenaParameters&&));

}  // namespace fulgurite::libtorch

#if defined(__x86_64__)

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool libtorch_fuses() {
  static bool const fuses = at::get_cpu_capability().starts_with("AVX");
  return fuses;
}

}  // namespace fulgurite::libtorch

#endif

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY bool prefers_blocks(Arena::Run const& run, at::Tensor const& flat) {
#if defined(__x86_64__)
  return flat.is_cpu() && (run.end - run.begin < (std::int64_t{1} << 18) || at::get_num_threads() < 4);
#else
  return false;
#endif
}

}  // namespace fulgurite::libtorch

namespace fulgurite::optim {

FULGURITE_BULK_BODY void require_option(bool holds, std::string_view optimizer, std::string_view option, double value) {
  if (holds) return;
  throw Error("fulgurite.optim.option",
              std::string(optimizer) + "'s " + std::string(option) + " = " + std::to_string(value) +
                  " is not allowed: rates, eps, decays and momenta must not be negative, betas must be in [0, 1)");
}

}  // namespace fulgurite::optim
