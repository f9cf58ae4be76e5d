#pragma once
// What a recording has to know of LibTorch's operators by their names.

#include <initializer_list>
#include <string_view>

namespace fulgurite::libtorch::capture {

inline bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (auto const& known : names)
    if (name == known) return true;
  return false;
}

/// The operator returns memory whose values are not set.
inline bool is_empty_factory(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}
/// The operator returns values that follow from its arguments alone, without the values of tensors among them.
inline bool is_constant_factory(std::string_view name) {
  return one_of(name, {"aten::zeros", "aten::ones", "aten::full", "aten::scalar_tensor", "aten::arange",
                       "aten::zeros_like", "aten::ones_like", "aten::full_like", "aten::new_zeros", "aten::new_ones",
                       "aten::new_full", "aten::eye"});
}
/// The operator sets its first argument without reading it.
inline bool overwrites(std::string_view name) {
  return one_of(name, {"aten::copy_", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
                       "aten::bernoulli_", "aten::random_", "aten::exponential_"});
}
/// The operator answers from shapes and types, not from values.
inline bool asks_for_shape(std::string_view name) {
  return one_of(name, {"aten::is_same_size", "aten::result_type", "aten::_fused_sdp_choice",
                       "aten::_has_compatible_shallow_copy_type"});
}
/// The operator's results have as many elements as the values of its arguments say, though it lacks LibTorch's tag for
/// that.
inline bool is_sized_by_values(std::string_view name) {
  return one_of(name, {"aten::_pack_padded_sequence", "aten::_unique", "aten::_padded_dense_to_jagged_forward"});
}
/// The operator writes running statistics, though its schema does not say so.
inline bool writes_undeclared(std::string_view name) {
  return name.find("batch_norm") != std::string_view::npos || name.find("instance_norm") != std::string_view::npos;
}

}  // namespace fulgurite::libtorch::capture
