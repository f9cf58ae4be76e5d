#pragma once
// Members of a context that exist in one place only: named anywhere else, they say where.

#include <fulgurite/diagnose/member_sentences.hpp>

namespace fulgurite::loop {

/// What only the context of a manual training_step has, which hides these; and what none has.
struct NotHere {
  template <bool Fine = false, class... Args>
  void backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("backward", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void minimize(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("minimize", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  void step(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("step", "return the loss, or use Manual{}"));
  }
  template <bool Fine = false, class... Args>
  int toggle(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_ONLY("toggle", "use Manual{} for several optimizers"));
    return 0;
  }
  /// Lightning's name for it, which no context has.
  template <bool Fine = false, class... Args>
  void manual_backward(Args const&...) const {
    static_assert(Fine, FULGURITE_SENTENCE_CONTEXT_MANUAL_BACKWARD);
  }
};

}  // namespace fulgurite::loop
