#pragma once
// The bodies of torch/capture/graph_step.hpp.

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <unordered_set>

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include <fulgurite/torch/capture/graph_step.hpp>

namespace fulgurite::libtorch::graph {

FULGURITE_BULK_BODY void Inputs::feed(std::vector<at::Tensor> const& batch) {
  at::NoGradGuard const no_graph;
  std::size_t next = 0;
  for (auto const& tensor : batch)
    if (tensor.defined()) capture::detached(fixed_[next++]).copy_(tensor, true);
}

FULGURITE_BULK_BODY void fulfil(std::vector<at::Tensor> const& promised, std::vector<at::Tensor> const& outputs) {
  at::NoGradGuard const no_graph;
  for (std::size_t i = 0; i != promised.size(); ++i)
    if (promised[i].defined()) capture::detached(promised[i]).copy_(outputs[i], true);
}

FULGURITE_BULK_BODY bool Inputs::written() const {
  for (std::size_t i = 0; i != fixed_.size(); ++i)
    if (fixed_[i]._version() != versions_[i]) return true;
  return false;
}

FULGURITE_BULK_BODY Observer::Observer(capture::World const& world)
    : world_(world), device_(world.device()), recorder_(device_) {
  world.each_tensor([&](at::Tensor const& tensor) { before_.emplace_back(tensor, version_of(tensor)); });
}

FULGURITE_BULK_BODY std::vector<c10::VariableVersion> Observer::written() {
  std::vector<c10::VariableVersion> all;
  for (auto const& [tensor, then] : before_)
    if (version_of(tensor) != then) all.push_back(tensor.unsafeGetTensorImpl()->version_counter());
  for (; next_call_ < recorder_.calls.size(); ++next_call_)
    for (auto const& [storage, counter] : recorder_.calls[next_call_].written)
      if (world_.number(storage)) all.push_back(counter);
  return all;
}

FULGURITE_BULK_BODY bool Observer::draws() const {
  bool any = false;
  for (auto const& call : recorder_.calls)
    if (call.op.hasTag(at::Tag::nondeterministic_seeded))
      capture::each_tensor_of(call.out, [&](at::Tensor const& tensor) { any = any || tensor.is_cpu(); });
  return any;
}

FULGURITE_BULK_BODY void Observer::turn(loop::Turn turn, at::Tensor const& loss, FunctionRef<void()> f) {
  c10::impl::ExcludeDispatchKeyGuard const unseen(recording_key);
  if (loss.defined()) looked_at_.push_back(capture::storage_of(loss));
  if (turn == loop::Turn::looks_at_loss) return f();
  turns.emplace_back(turn, written());
  f();
  for (auto& [tensor, then] : before_) then = version_of(tensor);
}

FULGURITE_BULK_BODY std::string Observer::wrong(std::vector<at::Tensor> const& given,
                                                std::vector<at::Tensor> const& left) {
  if (!recorder_.refusal.empty()) return recorder_.refusal;
  std::unordered_set<capture::Storage> known, leaving;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  for (auto const& tensor : given)
    if (tensor.defined()) known.insert(capture::storage_of(tensor));
  std::string reason;
  for (auto const& call : recorder_.calls) {
    capture::each_tensor_of(call.in, [&](at::Tensor const& tensor) {
      auto const storage = capture::storage_of(tensor);
      bool const number = tensor.unsafeGetTensorImpl()->is_wrapped_number() ||
                          tensor.device() != device_;  // the recorder accepts these
      if (!number && !known.contains(storage) && !world_.number(storage))
        reason = call.name() + " uses a tensor that is not in the batch, the parameters or the buffers, so a graph "
                               "would keep using this one: "
                               "register it as a buffer";
    });
    capture::each_tensor_of(call.out, [&](at::Tensor const& tensor) {
      if (!world_.number(capture::storage_of(tensor)) && known.insert(capture::storage_of(tensor)).second)
        made.push_back(tensor.storage().getWeakStorageImpl());
    });
  }
  recorder_.calls.clear();
  for (auto const& tensor : left) leaving.insert(capture::storage_of(tensor));
  leaving.insert(looked_at_.begin(), looked_at_.end());
  for (auto const& storage : made)
    if (auto const alive = storage.lock(); reason.empty() && alive && !leaving.contains(alive.get()))
      reason = "a tensor made in the step is kept after it, where a replay would not change it: return it or log it";
  return reason;
}

FULGURITE_BULK_BODY void require_unwritten(std::vector<Arena::Stale> const& stale) {
  for (auto const& [slice, version] : stale)
    if (version_of(slice) != version) throw WrittenMeanwhile();
}

FULGURITE_BULK_BODY void clear_silently(std::vector<Arena::Stale> const& stale) {
  require_unwritten(stale);
  at::NoGradGuard const no_graph;
  std::vector<at::Tensor> slices;
  for (auto const& one : stale) slices.push_back(capture::detached(one.slice));
  if (!slices.empty()) at::_foreach_zero_(slices);
}

FULGURITE_BULK_BODY GradientsApart::GradientsApart(capture::World const& world,
                                                   std::vector<Arena::Stale> const& to_overwrite) {
  require_unwritten(to_overwrite);
  std::unordered_set<c10::TensorImpl*> stale;
  for (auto const& one : to_overwrite) stale.insert(one.slice.unsafeGetTensorImpl());
  world.each_parameter([&](at::Tensor const& parameter) {
    auto& gradient = parameter.mutable_grad();
    // A hook on the sum would see the new gradient alone.
    if (!gradient.defined() || torch::autograd::impl::post_acc_grad_hooks(parameter)) return;
    bool const overwrite = stale.erase(gradient.unsafeGetTensorImpl()) != 0;
    earlier_.push_back({parameter, std::move(gradient), overwrite});
    gradient.reset();
  });
  std::vector<Arena::Stale> others;
  for (auto const& one : to_overwrite)
    if (stale.erase(one.slice.unsafeGetTensorImpl()) != 0) others.push_back(one);
  clear_silently(others);
}

FULGURITE_BULK_BODY GradientsApart::~GradientsApart() {
  for (auto& one : earlier_) one.parameter.mutable_grad() = std::move(one.gradient);
}

FULGURITE_BULK_BODY void GradientsApart::add() const {
  at::NoGradGuard const no_graph;
  // LibTorch's kernel gives each tensor one block for 65,536 numbers, so that it keeps few processors of the GPU busy
  // where tensors are few; in one launch there may be 64 tensors.
  std::int64_t total = 0;
  for (auto const& one : earlier_) total += one.gradient.numel();
  auto const most = std::clamp<std::int64_t>((total / 48 + 1023) / 1024 * 1024, 1024, 65536);
  // LibTorch's kernel takes tensors of one type; of several types it would make one call for each tensor.
  std::map<std::pair<bool, at::ScalarType>, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> calls;
  for (auto const& [parameter, gradient, overwrite] : earlier_) {
    auto const& made = parameter.grad();
    bool const dense = made.defined() && made.layout() == at::kStrided;
    if (overwrite && !dense) capture::detached(gradient).zero_();
    if (!made.defined()) continue;
    if (!dense) {
      gradient.add_(made);
      continue;
    }
    auto& [to, from] = calls[{overwrite, gradient.scalar_type()}];
    if (gradient.numel() <= most || !gradient.is_contiguous() || !made.is_contiguous()) {
      to.push_back(gradient);
      from.push_back(made);
      continue;
    }
    for (auto const& part : gradient.view(-1).split(most)) to.push_back(part);
    for (auto const& part : made.view(-1).split(most)) from.push_back(part);
  }
  for (auto const& [how, call] : calls)
    if (how.first) at::_foreach_copy_(call.first, call.second);
    else at::_foreach_add_(call.first, call.second);
}

FULGURITE_BULK_BODY Snapshot::Snapshot(capture::World const& world, std::vector<at::Tensor> const& left, bool draws) {
  at::NoGradGuard const no_graph;
  std::unordered_set<capture::Storage> known;
  world.each_tensor([&](at::Tensor const& tensor) {
    if (!known.insert(capture::storage_of(tensor)).second) return;
    auto all = at::empty({0}, tensor.options().requires_grad(false));
    all.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize())}, {1});
    copies_.push_back(all.clone());
    memory_.push_back(std::move(all));
  });
  for (auto const& tensor : left)
    if (tensor.defined()) copies_.push_back(tensor.detach().clone().reshape({-1}));
  if (draws) save(at::Device(at::kCPU));
  if (world.device().is_cuda()) save(world.device());
}

FULGURITE_BULK_BODY void Snapshot::restore() const {
  at::NoGradGuard const no_graph;
  for (std::size_t i = 0; i != memory_.size(); ++i) memory_[i].copy_(copies_[i]);
  for (auto [generator, state] : generators_) {
    std::lock_guard const lock(generator.mutex());
    generator.set_state(state);
  }
}

FULGURITE_BULK_BODY bool Snapshot::same(Snapshot const& other) const {
  if (!alike(other)) return false;
  at::Tensor differs;
  for (std::size_t i = 0; i != copies_.size(); ++i) {
    auto const one = copies_[i].view(at::kByte).ne(other.copies_[i].view(at::kByte)).any();
    differs = differs.defined() ? differs.logical_or(one) : one;
  }
  return !differs.defined() || !differs.item<bool>();
}

/// Of numbers with the same bits it is 0, whether these are finite or not.
FULGURITE_BULK_BODY double distance(at::Tensor const& a, at::Tensor const& b) {
  if (a.numel() == 0) return 0;
  auto const bytes = [&](at::Tensor const& tensor) {
    return tensor.contiguous().view({-1, 1}).view(at::kByte).view({tensor.numel(), -1});
  };
  auto const apart = a.to(at::kDouble).sub(b.to(at::kDouble)).square().reshape({-1});
  return apart.masked_fill(bytes(a).eq(bytes(b)).all(1), 0).sum().item<double>();
}

FULGURITE_BULK_BODY double Snapshot::distance(Snapshot const& other) const {
  double sum = alike(other) ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; sum < std::numeric_limits<double>::infinity() && i != copies_.size(); ++i)
    sum += graph::distance(copies_[i], other.copies_[i]);
  return sum;
}

FULGURITE_BULK_BODY bool Snapshot::alike(Snapshot const& other) const {
  auto const same_form = [](at::Tensor const& a, at::Tensor const& b) {
    return a.options().type_equal(b.options()) && a.device() == b.device() && a.sizes() == b.sizes();
  };
  auto const same_state = [](auto const& a, auto const& b) { return a.second.equal(b.second); };
  return std::equal(copies_.begin(), copies_.end(), other.copies_.begin(), other.copies_.end(), same_form) &&
         std::equal(generators_.begin(), generators_.end(), other.generators_.begin(), other.generators_.end(),
                    same_state);
}

FULGURITE_BULK_BODY void Snapshot::save(at::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  std::lock_guard const lock(generator.mutex());
  auto state = generator.get_state();
  generators_.emplace_back(generator, std::move(state));
}

FULGURITE_BULK_BODY bool same(std::vector<Snapshot> const& a, std::vector<Snapshot> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x.same(y); });
}
FULGURITE_BULK_BODY double distance(std::vector<Snapshot> const& a, std::vector<Snapshot> const& b) {
  return std::transform_reduce(a.begin(), a.end(), b.begin(), 0.0, std::plus(),
                               [](auto& x, auto& y) { return x.distance(y); });
}

FULGURITE_BULK_BODY void Underway::turn(loop::Turn turn, at::Tensor const& loss, FunctionRef<void()> act) {
  auto const logged = pending();
  bool const compares = !observer && turn != loop::Turn::looks_at_loss;
  turns.push_back(turn);
  if (compares) found.emplace_back(world, std::vector<at::Tensor>(), draws);
  if (observer) observer->turn(turn, loss, act);
  else act();
  if (compares) left.emplace_back(world, std::vector<at::Tensor>(), draws);
  if (pending() != logged) refusal = capture::hook_logs;
}

FULGURITE_BULK_BODY void Looks::add(at::Tensor const& loss) {
  losses_.push_back(capture::detached(loss));
  auto const& counter = loss.unsafeGetTensorImpl()->version_counter();
  versions_.emplace_back(counter, counter.current_version());
}

FULGURITE_BULK_BODY std::vector<at::Tensor> Looks::take() {
  for (auto const& [counter, then] : std::exchange(versions_, {}))
    if (counter.current_version() != then)
      throw std::runtime_error("a loss is changed in place after ctx.backward(loss): change a copy of it");
  return std::exchange(losses_, {});
}

}  // namespace fulgurite::libtorch::graph
