#pragma once
// What a strategy of several processes knows of its model: the names, by which ranks compare what they have, and the
// buffers.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/nn/module.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/group.hpp>
#include <fulgurite/torch/optim/arena_slices.hpp>

namespace fulgurite::distributed {

/// Every rank has to say the same lines; else an Error, on all of them, that names the first that differs. `of`: what
/// the lines are about.
inline void require_same(Group& group, std::vector<std::string> const& lines, std::string const& of) {
  std::string all;
  for (auto const& line : lines) all.append(line).append("\n");
  auto const said = group.exchange(all, of);
  for (std::size_t rank = 1; rank != said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    std::string_view zero(said[0]), other(said[rank]);
    auto const next = [](std::string_view& text) {
      auto const line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      return line.empty() ? std::string_view("none") : line;
    };
    for (std::size_t number = 0;; ++number) {
      auto const left = next(zero), right = next(other);
      if (left == right && left != "none") continue;
      std::string sentence("rank ");
      sentence.append(std::to_string(rank)).append(" has another model than rank 0, by the ").append(of);
      sentence.append(": number ").append(std::to_string(number)).append(" is '").append(left);
      sentence.append("' in rank 0 and '").append(right).append("' in rank ").append(std::to_string(rank));
      throw Error("fulgurite.distributed.model",
                  sentence.append(". All ranks have to make the same model and the same optimizers, in the same order: "
                                  "let nothing that they are made from depend on the rank"));
    }
  }
}

/// The tensors of a list one after another, as bytes, so that one broadcast takes them all, whatever their types.
class AsBytes {
 public:
  explicit AsBytes(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
    std::int64_t size = 0;
    for (auto const& tensor : tensors_) {
      places_.push_back(size);
      size += (static_cast<std::int64_t>(tensor.nbytes()) + unit - 1) / unit * unit;
    }
    if (!tensors_.empty()) bytes_ = at::empty({size}, tensors_.front().options().dtype(at::kByte).requires_grad(false));
  }
  bool is_empty() const { return tensors_.empty(); }

  /// All ranks have what rank 0 has.
  void broadcast(Group& group, std::string_view what) {
    at::NoGradGuard const no_graph;
    bool const sends = group.place().rank == 0;
    if (sends)
      for (std::size_t i = 0; i != tensors_.size(); ++i) part(i).copy_(tensors_[i].detach());
    group.broadcast(bytes_, 0, what);
    if (!sends)
      for (std::size_t i = 0; i != tensors_.size(); ++i) tensors_[i].copy_(part(i));
  }

 private:
  static constexpr std::int64_t unit = 16;

  at::Tensor part(std::size_t i) const {
    auto const& tensor = tensors_[i];
    return bytes_.narrow(0, places_[i], static_cast<std::int64_t>(tensor.nbytes()))
        .view(tensor.scalar_type())
        .view(tensor.sizes());
  }

  std::vector<at::Tensor> tensors_;
  std::vector<std::int64_t> places_ = {};
  at::Tensor bytes_ = {};
};

/// The model of this rank.
class Replica {
 public:
  /// Compares parameters and buffers of all ranks, their names, types, shapes and order, and gives all the values of
  /// rank 0.
  template <class Model>
  void take(Group& group, [[maybe_unused]] Model& model) {
    names_.clear();
    buffers_.clear();
    if constexpr (std::derived_from<Model, torch::nn::Module>) {
      std::vector<std::string> lines;
      std::vector<at::Tensor> all;
      auto const add = [&](std::string const& name, at::Tensor const& tensor) {
        if (!tensor.defined()) return false;
        if (!names_.try_emplace(tensor.unsafeGetTensorImpl(), name).second) return false;
        lines.push_back(line(name, tensor));
        all.push_back(tensor);
        return true;
      };
      for (auto const& one : model.named_parameters()) add(one.key(), one.value());
      for (auto const& one : model.named_buffers())
        if (add(one.key(), one.value())) buffers_.push_back(one.value());
      require_same(group, lines, "parameters and buffers");
      if (!all.empty()) AsBytes(all).broadcast(group, "weights of rank 0");
    }
  }

  std::vector<at::Tensor> const& buffers() const { return buffers_; }
  std::string name(at::Tensor const& parameter) const {
    auto const found = names_.find(parameter.unsafeGetTensorImpl());
    return found == names_.end() ? "a tensor that the model does not have" : found->second;
  }

  static std::string line(std::string const& name, at::Tensor const& tensor) {
    std::string text(name);
    text.append(" ").append(c10::toString(tensor.scalar_type())).append(" [");
    for (std::int64_t d = 0; d != tensor.dim(); ++d)
      text.append(d == 0 ? "" : ", ").append(std::to_string(tensor.size(d)));
    return text.append(tensor.requires_grad() ? "]" : "] frozen");
  }

 private:
  std::unordered_map<c10::TensorImpl const*, std::string> names_ = {};
  std::vector<at::Tensor> buffers_ = {};
};

}  // namespace fulgurite::distributed
