#pragma once
// Members of a context that exist in one place only: named anywhere else, they say where.

namespace fulgurite::loop {

/// What only the context of a manual training_step has; that one hides these.
struct NotHere {
  template <bool Fine = false, class... Args>
  void backward(Args const&...) const {
    static_assert(Fine, "[fulgurite.context.manual_only] only a manual training_step has ctx.backward: return the "
                        "loss, or use Manual{}");
  }
  template <bool Fine = false, class... Args>
  void minimize(Args const&...) const {
    static_assert(Fine, "[fulgurite.context.manual_only] only a manual training_step has ctx.minimize: return the "
                        "loss, or use Manual{}");
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) const {
    static_assert(
        Fine,
        "[fulgurite.context.manual_only] only a manual training_step has ctx.step: return the loss, or use Manual{}");
  }
  template <bool Fine = false, class... Args>
  int toggle(Args const&...) const {
    static_assert(Fine, "[fulgurite.context.manual_only] only a manual training_step has ctx.toggle: use Manual{} for "
                        "several optimizers");
    return 0;
  }
};

}  // namespace fulgurite::loop
