#pragma once
// What torch::optim::LBFGS has learnt of the curvature, in an archive and back.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <torch/optim/lbfgs.h>

#include <fulgurite/checkpoint/saved_tensor.hpp>
#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/weights/saved_tensor.hpp>

namespace fulgurite::optim {

/// As an archive holds it. Before the first step all of it is empty.
struct SavedLBFGS {
  long func_evals = 0, n_iter = 0;
  double t = 0, prev_loss = 0;
  std::vector<SavedTensor> last = {};  ///< d, H_diag, prev_flat_grad
  std::vector<SavedTensor> old_dirs = {}, old_stps = {}, ro = {};
  void state(auto& archive) {
    archive("func_evals", func_evals)("n_iter", n_iter)("t", t)("prev_loss", prev_loss)("last", last)(
        "old_dirs", old_dirs)("old_stps", old_stps)("ro", ro);
  }
};

/// f(name, tensor) for each that there is, under torch.optim's names; of lists the oldest comes first.
template <class F>
void each_lbfgs_tensor(torch::optim::LBFGSParamState const& state, F&& f) {
  auto const one = [&](std::string const& name, at::Tensor const& tensor) {
    if (tensor.defined()) f(name, tensor);
  };
  one("d", state.d());
  one("H_diag", state.H_diag());
  one("prev_flat_grad", state.prev_flat_grad());
  auto const many = [&](std::string const& name, std::deque<at::Tensor> const& tensors) {
    for (std::size_t i = 0; i != tensors.size(); ++i) one(name + "." + std::to_string(i), tensors[i]);
  };
  many("old_dirs", state.old_dirs());
  many("old_stps", state.old_stps());
  many("ro", state.ro());
}

/// Copies of its tensors.
FULGURITE_BULK SavedLBFGS saved_lbfgs(torch::optim::LBFGSParamState const& now) {
  SavedLBFGS to;
  to.func_evals = now.func_evals();
  to.n_iter = now.n_iter();
  to.t = now.t();
  to.prev_loss = now.prev_loss();
  if (now.d().defined())
    for (auto const& tensor : {now.d(), now.H_diag(), now.prev_flat_grad()}) to.last.push_back(libtorch::saved(tensor));
  auto const many = [](std::vector<SavedTensor>& list, std::deque<at::Tensor> const& tensors) {
    for (auto const& tensor : tensors) list.push_back(libtorch::saved(tensor));
  };
  many(to.old_dirs, now.old_dirs());
  many(to.old_stps, now.old_stps());
  many(to.ro, now.ro());
  return to;
}

/// The state as torch::optim takes it, for these parameters. Error [fulgurite.optim.state_mismatch] where it is of
/// others, or no optimizer can have written it.
FULGURITE_BULK std::unique_ptr<torch::optim::LBFGSParamState>
lbfgs_state(SavedLBFGS const& from, std::vector<at::Tensor> const& parameters, std::int64_t history_size) {
  auto const past = from.old_dirs.size();
  if (from.old_stps.size() != past || from.ro.size() != past)  // LibTorch takes these lengths on trust
    throw Error("fulgurite.optim.state_mismatch",
                "the saved state of LBFGS has lists of old steps whose lengths do not agree: the file was changed "
                "since it was written");
  auto state = std::make_unique<torch::optim::LBFGSParamState>();
  std::int64_t count = 0;
  auto type = parameters.front().scalar_type();
  for (auto const& parameter : parameters) {
    count += parameter.numel();
    type = c10::promoteTypes(type, parameter.scalar_type());
  }
  auto const tensor = [&](SavedTensor const& value, bool vector) {
    for (auto const& known : libtorch::element_names) {
      bool const fits = value.dtype() == known.name &&
                        (vector ? known.type == type && value.shape() == std::vector{count} : value.shape().empty());
      if (!fits) continue;  // a number may be whole: H_diag begins as one
      auto made = at::empty(value.shape(), parameters.front().options().requires_grad(false).dtype(known.type));
      libtorch::restore(made, value);
      return made;
    }
    throw Error("fulgurite.optim.state_mismatch", "the saved state is of another LBFGS: it has a tensor " +
                                                      value.description() + ", the parameters here are " +
                                                      std::to_string(count) +
                                                      " numbers together; they must be those it was saved with");
  };
  auto const many = [&](std::vector<SavedTensor> const& values, bool vectors) {
    std::deque<at::Tensor> all;
    for (auto const& value : values) all.push_back(tensor(value, vectors));
    while (all.size() > static_cast<std::size_t>(history_size))
      all.pop_front();  // the oldest; another option than then
    return all;
  };
  state->func_evals(from.func_evals).n_iter(from.n_iter).t(from.t).prev_loss(from.prev_loss);
  if (from.last.size() == 3)
    state->d(tensor(from.last[0], true)).H_diag(tensor(from.last[1], false)).prev_flat_grad(tensor(from.last[2], true));
  state->old_dirs(many(from.old_dirs, true)).old_stps(many(from.old_stps, true)).ro(many(from.ro, false));
  return state;
}

}  // namespace fulgurite::optim
