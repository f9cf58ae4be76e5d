#pragma once
// A tensor of a model whose steps are recorded, and whether it is still what it was.

#include <algorithm>
#include <cstddef>
#include <utility>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

namespace fulgurite::libtorch::capture {

/// One tensor of the model: its handle, where its memory is, its gradient, and how autograd treats it. A replay of a
/// small net takes some microseconds and asks all of them, so they look at LibTorch's own fields, without its checks.
class Watched {
 public:
  explicit Watched(at::Tensor tensor)
      : tensor_(std::move(tensor)),
        storage_(tensor_.storage()),
        data_(storage_.data()),
        offset_(tensor_.storage_offset()),
        type_(tensor_.dtype()),
        sizes_(tensor_.sizes()),
        strides_(tensor_.strides()) {
    if (auto const* const meta = meta_of(*tensor_.unsafeGetTensorImpl())) {
      has_meta_ = true;
      grad_ = meta->grad_;
      needs_gradient_ = needs_gradient(*meta);
      hooks_ = meta->hooks_.size();
      after_ = meta->post_acc_grad_hooks_.get();
      if (meta->cpp_hooks_list_) listed_ = Listed(*meta->cpp_hooks_list_);
    }
  }

  bool unchanged() const {
    auto const& now = *tensor_.unsafeGetTensorImpl();
    auto const* const storage = now.unsafe_storage().unsafeGetStorageImpl();
    return storage == storage_.unsafeGetStorageImpl() && storage->data() == data_ && now.storage_offset() == offset_ &&
           now.dtype() == type_ && equal(now.sizes(), sizes_) && equal(now.strides(), strides_) &&
           same_meta(meta_of(now));
  }
  at::Tensor const& tensor() const { return tensor_; }

 private:
  using Meta = torch::autograd::AutogradMeta;
  /// All hooks that were registered from C++ stand in one list behind a single hook of LibTorch. One that was removed
  /// leaves an empty place in that list.
  struct Listed {
    Listed() = default;
    explicit Listed(torch::autograd::hooks_list const& list)
        : count(list.size()), removed(std::count(list.begin(), list.end(), nullptr)) {}
    std::size_t count = 0;
    std::ptrdiff_t removed = 0;
    friend bool operator==(Listed const&, Listed const&) = default;
  };

  static Meta const* meta_of(at::TensorImpl const& tensor) { return static_cast<Meta const*>(tensor.autograd_meta()); }
  static bool needs_gradient(Meta const& meta) { return meta.requires_grad_ || meta.grad_fn_ != nullptr; }
  /// Asking a tensor whether it needs a gradient may give it such fields, all of them empty.
  bool same_meta(Meta const* meta) const {
    if (!meta) return !has_meta_;
    if (meta->grad_.unsafeGetTensorImpl() != grad_.unsafeGetTensorImpl() || needs_gradient(*meta) != needs_gradient_ ||
        meta->hooks_.size() != hooks_ || meta->post_acc_grad_hooks_.get() != after_)
      return false;
    return !meta->cpp_hooks_list_ ? listed_ == Listed() : listed_ == Listed(*meta->cpp_hooks_list_);
  }
  static bool equal(at::IntArrayRef now, at::DimVector const& was) {
    if (now.size() != was.size()) return false;
    auto const *a = now.data(), *b = was.data();
    for (std::size_t i = 0; i != now.size(); ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

  at::Tensor tensor_;
  at::Storage storage_;  ///< held, so that no other memory comes to have its address
  void const* data_;
  std::int64_t offset_;
  caffe2::TypeMeta type_;
  at::DimVector sizes_, strides_;
  at::Tensor grad_{};
  bool has_meta_ = false, needs_gradient_ = false;
  std::size_t hooks_ = 0;
  void const* after_ = nullptr;
  Listed listed_{};
};

}  // namespace fulgurite::libtorch::capture
