#pragma once
// The bodies of torch/capture/graph_update.hpp.

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <fulgurite/torch/capture/graph_update.hpp>
#include <fulgurite/torch/optim/clip.hpp>

namespace fulgurite::libtorch::graph {

inline constexpr auto table_head = static_cast<std::int64_t>(UpdateTable::head);

FULGURITE_BODY UpdateInGraph::UpdateInGraph(std::size_t most_runs, at::Device device)
    : table_(at::zeros({table_head + most_rows * static_cast<std::int64_t>(most_runs * UpdateTrace::most)},
                       at::TensorOptions(device).dtype(at::kDouble))),
      noted_(at::zeros({}, table_.options().dtype(at::kFloat))),
      most_runs_(most_runs) {
  TORCH_CHECK(!native::is_recording_graph(device), "the table of an update would lie in the memory of a graph");
}

FULGURITE_BODY bool UpdateInGraph::take(std::vector<TracedUpdate> runs) {
  if (runs.size() > most_runs_) return false;
  runs_ = std::move(runs);
  return true;
}

FULGURITE_BODY void UpdateInGraph::note(at::Tensor const& value) const {
  at::NoGradGuard const no_graph;
  noted_.add_(value.reshape({}), 0);
}

FULGURITE_BODY void clip_as_written(ArenaParameters const& parameters, Clip const& clip) {
  if (clip.kind == Clip::Kind::norm) clip_norm(parameters, clip.limit);
  if (clip.kind == Clip::Kind::value) clip_value(parameters, clip.limit);
}

FULGURITE_BODY at::Tensor UpdateInGraph::clip(ArenaParameters const& parameters, Clip const& clip) const {
  if (clip.kind == Clip::Kind::none) return {};
  Gradients const gradients(parameters);
  auto const on = table_.select(0, static_cast<std::int64_t>(UpdateTable::on)).ne(0);
  if (clip.kind == Clip::Kind::norm) {
    auto const norms = norms_of(parameters, *gradients);
    auto const norm = norms.size() == 1 ? norms.front() : at::linalg_vector_norm(at::stack(norms), 2);
    at::_foreach_mul_(*gradients, at::where(on, factor_of(norm, clip.limit), at::ones_like(norm)));
    return norm;
  }
  for (auto& gradient : *gradients) {
    auto const most = [&](double limit) { return at::full({}, limit, gradient.options()); };
    auto const limit = at::where(on, most(clip.limit), most(std::numeric_limits<double>::infinity()));
    gradient.clamp_(limit.neg(), limit);
  }
  return {};
}

FULGURITE_BODY void UpdateInGraph::launch() const {
  for (std::size_t i = 0; i != runs_.size(); ++i) launch_update_in_graph(runs_[i], table_, i, runs_.size());
}

FULGURITE_BULK_BODY bool UpdateInGraph::fits(std::vector<TracedUpdate> const& now) const {
  return proof_ != Proof::failed &&
         std::ranges::equal(runs_, now, [](auto const& a, auto const& b) { return a.does(b); });
}

FULGURITE_BULK_BODY void UpdateInGraph::append(std::vector<TracedUpdate> const& update) {
  for (auto const& run : update) {
    rows_.resize(rows_.size() + UpdateTrace::most);
    write_numbers(run.trace, run.device, rows_.data() + rows_.size() - UpdateTrace::most);
  }
}

FULGURITE_BULK_BODY void UpdateInGraph::turn_on(std::vector<TracedUpdate> const& now,
                                                FunctionRef<std::vector<TracedUpdate>(long)> later) {
  auto const row = runs_.size() * UpdateTrace::most, filled = rows_.size();
  append(now);
  bool const more = next_ != filled;
  bool const right = more && std::memcmp(&rows_[next_], &rows_[filled], row * sizeof(double)) == 0;
  if (state_ == State::on && right) {
    rows_.resize(filled);
  } else {
    if (state_ == State::on) foreseen_ = more ? 1 : std::min(2 * foreseen_, most_rows);
    rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(filled));
    for (long n = 1; n < foreseen_; ++n) append(later(n));
    upload();
  }
  next_ += row;
}

/// The copy reads pinned memory that LibTorch does not hand out again before the copy is done.
FULGURITE_BULK_BODY void UpdateInGraph::upload() {
  at::NoGradGuard const no_graph;
  auto const size = table_head + static_cast<std::int64_t>(rows_.size());
  auto const host = at::empty({size}, at::TensorOptions(at::kDouble).pinned_memory(table_.is_cuda()));
  auto* const numbers = static_cast<double*>(host.mutable_data_ptr());
  std::fill_n(numbers, table_head, 0.0);
  numbers[static_cast<std::size_t>(UpdateTable::on)] = 1;
  std::ranges::copy(rows_, numbers + table_head);
  table_.narrow(0, 0, size).copy_(host, true);
  next_ = 0;
  state_ = State::on;
}

FULGURITE_BULK_BODY bool UpdateInGraph::made() {
  if (proof_ == Proof::none) {
    auto const head = table_.narrow(0, 0, table_head).cpu();
    auto const* const number = static_cast<double const*>(head.const_data_ptr());
    bool const ran = number[static_cast<std::size_t>(UpdateTable::on)] == 1 &&
                     number[static_cast<std::size_t>(UpdateTable::row)] == 1 &&
                     number[static_cast<std::size_t>(UpdateTable::done)] == 0;
    proof_ = ran ? Proof::made : Proof::failed;
  }
  return proof_ == Proof::made;
}

FULGURITE_BULK_BODY void UpdateInGraph::turn_off() {
  at::NoGradGuard const no_graph;
  if (std::exchange(state_, State::off) == State::off) return;
  table_.narrow(0, static_cast<std::int64_t>(UpdateTable::on), 1).zero_();
}

FULGURITE_BODY NotesUndone::NotesUndone(UpdateInGraph const* update) {
  if (update) noted_ = update->noted(), before_ = noted_.clone();
}
FULGURITE_BODY NotesUndone::~NotesUndone() {
  if (noted_.defined()) noted_.copy_(before_);
}

}  // namespace fulgurite::libtorch::graph
