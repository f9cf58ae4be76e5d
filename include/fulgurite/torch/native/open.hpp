#pragma once
// Whether a scope for matrix products is open on this thread, and what it says.

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fulgurite/policy/matmul.hpp>
#include <fulgurite/torch/device/internals.hpp>

namespace fulgurite::libtorch::native {

inline Matmul on_this_thread() {
  auto const left_out = c10::impl::tls_local_dispatch_key_set().excluded_;
  if (!left_out.has(product_mark)) return Matmul::libtorch;
  return left_out.has(certified_mark) ? Matmul::certified : Matmul::faster;
}

/// While it lives, products on this thread are computed as `how` says, whatever was said before.
class Marked {
 public:
  explicit Marked(Matmul how) : guard_(now().included_, (now().excluded_ - both) | marks_of(how)) {}

 private:
  static constexpr c10::DispatchKeySet both{product_mark, certified_mark};
  static c10::impl::LocalDispatchKeySet now() { return c10::impl::tls_local_dispatch_key_set(); }
  static c10::DispatchKeySet marks_of(Matmul how) {
    return how == Matmul::certified ? both
           : how == Matmul::faster  ? c10::DispatchKeySet(product_mark)
                                    : c10::DispatchKeySet();
  }
  c10::impl::ForceDispatchKeyGuard guard_;
};

}  // namespace fulgurite::libtorch::native
