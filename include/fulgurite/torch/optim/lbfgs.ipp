#pragma once
// The bodies of torch/optim/lbfgs.hpp.

#include <utility>

#include <fulgurite/core/archive.hpp>
#include <fulgurite/torch/optim/lbfgs.hpp>

namespace fulgurite::optim {

FULGURITE_BULK_BODY SavedLBFGS saved_lbfgs(torch::optim::LBFGSParamState const& now) {
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

FULGURITE_BULK_BODY std::unique_ptr<torch::optim::LBFGSParamState>
lbfgs_state(SavedLBFGS const& from, std::vector<at::Tensor> const& parameters, std::int64_t history_size) {
  auto const past = from.old_dirs.size();
  if (from.old_stps.size() != past || from.ro.size() != past)  // LibTorch does not check these lengths
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
      if (!fits) continue;  // a number may have an integer type: H_diag starts with one
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
      all.pop_front();  // drop the oldest: history_size is smaller than in the saved state
    return all;
  };
  state->func_evals(from.func_evals).n_iter(from.n_iter).t(from.t).prev_loss(from.prev_loss);
  if (from.last.size() == 3)
    state->d(tensor(from.last[0], true)).H_diag(tensor(from.last[1], false)).prev_flat_grad(tensor(from.last[2], true));
  state->old_dirs(many(from.old_dirs, true)).old_stps(many(from.old_stps, true)).ro(many(from.ro, false));
  return state;
}

FULGURITE_BULK_BODY LBFGS::LBFGS(std::vector<at::Tensor> const& parameters, Options const& options)
    : arena_(std::make_unique<libtorch::Arena>(0)),
      options_(checked(options)),
      optimizer_(distinct(parameters), theirs(options)) {
  arena_->add(distinct(parameters), 0, {});
}

FULGURITE_BULK_BODY double LBFGS::lr(std::size_t group) const {
  return optimizer_.param_groups().at(group).options().get_lr();
}

FULGURITE_BULK_BODY void LBFGS::set_lr(std::size_t group, double value) {
  optimizer_.param_groups().at(group).options().set_lr(value);
}

FULGURITE_BULK_BODY ParameterState LBFGS::state() const {
  ParameterState all;
  if (auto const* now = torch_state()) {
    all.step = now->n_iter();
    each_lbfgs_tensor(*now,
                      [&](std::string const& name, at::Tensor const& tensor) { all.tensors.emplace(name, tensor); });
  }
  return all;
}

FULGURITE_BULK_BODY LBFGS::Options const& LBFGS::checked(Options const& o) {
  require_option(o.lr >= 0, name(), "lr", o.lr);
  if (o.max_iter < 1) refuse_option(name(), "max_iter", std::to_string(o.max_iter), "it must be at least 1");
  if (o.history_size < 1)
    refuse_option(name(), "history_size", std::to_string(o.history_size), "it must be at least 1");
  if (o.line_search_fn && *o.line_search_fn != "strong_wolfe")
    refuse_option(name(), "line_search_fn", '"' + *o.line_search_fn + '"', "it is \"strong_wolfe\" or nullopt");
  return o;
}

FULGURITE_BULK_BODY torch::optim::LBFGSOptions LBFGS::theirs(Options const& o) {
  return torch::optim::LBFGSOptions(o.lr)
      .max_iter(o.max_iter)
      .max_eval(o.max_eval ? o.max_eval : o.max_iter * 5 / 4)
      .tolerance_grad(o.tolerance_grad)
      .tolerance_change(o.tolerance_change)
      .history_size(o.history_size)
      .line_search_fn(o.line_search_fn);
}

FULGURITE_BULK_BODY std::vector<at::Tensor> LBFGS::distinct(std::vector<at::Tensor> const& parameters) {
  if (parameters.empty())
    throw Error("fulgurite.optim.parameter", "LBFGS was given no parameters: hand it module->parameters()");
  return libtorch::distinct(parameters);
}

FULGURITE_BULK_BODY torch::optim::LBFGSParamState const* LBFGS::torch_state() const {
  auto const& all = optimizer_.state();
  auto const found = all.find(optimizer_.param_groups().front().params().front().unsafeGetTensorImpl());
  return found == all.end() ? nullptr : static_cast<torch::optim::LBFGSParamState const*>(found->second.get());
}

FULGURITE_BULK_BODY void LBFGS::load(Options const& options, SavedLBFGS const& from) {
  c10::InferenceMode const no_inference(false);  // tensors made in inference mode cannot be trained on
  checked(options);
  auto state = lbfgs_state(from, arena_->parameters(), options.history_size);
  auto& all = optimizer_.state();
  auto* const key = optimizer_.param_groups().front().params().front().unsafeGetTensorImpl();
  if (from.n_iter == 0 && from.func_evals == 0) all.erase(key);
  else all[key] = std::move(state);
  optimizer_.param_groups().front().set_options(std::make_unique<torch::optim::LBFGSOptions>(theirs(options)));
  options_ = options;
}

void SavedLBFGS::state(auto& archive) {
  archive("func_evals", func_evals)("n_iter", n_iter)("t", t)("prev_loss", prev_loss)("last", last)(
      "old_dirs", old_dirs)("old_stps", old_stps)("ro", ro);
}
FULGURITE_STATE(SavedLBFGS)

void LBFGSOptions::state(auto& archive) {
  archive("lr", lr).option("max_iter", max_iter).option("max_eval", max_eval);
  archive.option("tolerance_grad", tolerance_grad).option("tolerance_change", tolerance_change);
  archive.option("history_size", history_size).option("line_search_fn", line_search_fn);
}
FULGURITE_STATE(LBFGSOptions)

}  // namespace fulgurite::optim
