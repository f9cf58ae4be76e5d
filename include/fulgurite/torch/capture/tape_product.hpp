#pragma once
// A matrix product on a tape: the certified kernel itself, where the recorded step has a product of LibTorch's.

#include <cstddef>
#include <cstring>
#include <optional>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/recorder.hpp>
#include <fulgurite/torch/native/eager.hpp>

namespace fulgurite::libtorch::capture {

/// Where the arguments of such a call are.
struct ProductArguments {
  std::size_t a, b;
  bool adds;  ///< the first argument is added
};
FULGURITE_BULK std::optional<ProductArguments> product_arguments(Call const& call) {
  if (!call.op.operator_name().overload_name.empty()) return std::nullopt;
  auto const name = call.name();
  if (name == "aten::mm" || name == "aten::bmm") return ProductArguments{0, 1, false};
  if (name == "aten::addmm" || name == "aten::baddbmm") return ProductArguments{1, 2, true};
  return std::nullopt;
}

/// The plan of a recorded product, while its values are still there, where the scope that is open on this thread wants
/// one. `zeroed`: its result goes to a gradient that was cleared before, so that zero is added as it is stored. `onto`:
/// the gradient that it is added to, where that is not nullptr.
FULGURITE_BULK native::Plan const* plan_of(Call const& call, bool zeroed, at::Tensor const* onto = nullptr) {
  using native::Epilogue;
  auto const how = native::on_this_thread();
  auto const where = product_arguments(call);
  if (how == Matmul::libtorch || !where || !call.out[0].toTensor().is_contiguous()) return nullptr;
  auto const &a = call.in[where->a].toTensor(), &b = call.in[where->b].toTensor();
  if (!native::is_plain_float(a) || !native::is_plain_float(b)) return nullptr;
  auto const epilogue =
      where->adds ? native::epilogue_of(call.in[0].toTensor(), a, b, call.in[3].toScalar(), call.in[4].toScalar())
                  : std::optional(zeroed ? Epilogue::zero_plus
                                  : onto ? Epilogue::then_onto
                                         : Epilogue::none);
  if (!epilogue || (where->adds && (zeroed || onto))) return nullptr;
  auto const* const start = where->adds ? native::numbers(call.in[0].toTensor())
                            : onto      ? native::numbers(*onto)
                                        : nullptr;
  return native::plan_of(native::product_shape(a, b, *epilogue), {native::numbers(a), native::numbers(b), start}, how);
}

struct Product {
  native::Plan const* plan;
  at::Tensor a, b, c, start;

  /// `place`: of the result, where that is not its own memory.
  Product(native::Plan const& by, Call const& call, at::Tensor const* place)
      : plan(&by), c(place ? *place : call.out[0].toTensor()) {
    auto const where = *product_arguments(call);
    a = call.in[where.a].toTensor();
    b = call.in[where.b].toTensor();
    if (where.adds) start = call.in[0].toTensor();
  }

  void run() const {
    auto const& shape = plan->shape();
    auto* const to = static_cast<float*>(c.mutable_data_ptr());
    auto const* const row = start.defined() ? native::numbers(start) : nullptr;
    if (shape.epilogue == native::Epilogue::onto) std::memcpy(to, row, c.nbytes());
    if (shape.threads == at::get_num_threads()) return plan->run(native::numbers(a), native::numbers(b), to, row);
    native::product_by_libtorch(shape.epilogue, a, b, c, start);  // its bits depend on that number
  }
};

}  // namespace fulgurite::libtorch::capture
