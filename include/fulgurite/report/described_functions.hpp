#pragma once
// Which of the functions that are no events a part has: what the loops ask of callbacks, optimizers, schedules,
// strategies and loaders only where it is there.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <fulgurite/concept/data.hpp>
#include <fulgurite/core/state.hpp>
#include <fulgurite/hook/policy_hooks.hpp>
#include <fulgurite/loop/checkpoint_search.hpp>
#include <fulgurite/loop/options.hpp>
#include <fulgurite/loop/state_keys.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::report {

/// f(name), where `T` can be called so.
template <class Hook, class T, class... Args, class F>
constexpr void name_if(F& f) {
  if constexpr (Hook::template accepts<T, Args...>) f(Hook::name());
}

/// f(name) for each function that an optimizer has beside those that every one has.
template <class O, class F>
constexpr void each_function_of_optimizer(F f) {
  using namespace hook::of_optimizer;
  name_if<momentum, O, std::size_t>(f);
  name_if<set_momentum, O, std::size_t, double>(f);
  name_if<weight_decay, O, std::size_t>(f);
  name_if<group_name, O, std::size_t>(f);
  name_if<gradients_finite, O>(f);
  name_if<received, O>(f);
  if constexpr (Stateful<O, ArchiveProbe>) f(std::string_view("state"));
}

/// f(name) for each function that a schedule on an optimizer `O` has beside its call operator.
template <class S, class O, class F>
constexpr void each_function_of_schedule(F f) {
  using namespace hook::of_schedule;
  name_if<attach, S, O>(f);
  name_if<move, S, O>(f);
  name_if<hook::of_schedule::metric, S const>(f);
  name_if<strict, S const>(f);
  name_if<observe, S, double, O>(f);
  name_if<momentum, S const, long>(f);
  name_if<moves_momentum, S const>(f);
  name_if<check, S const>(f);
  if constexpr (Stateful<S, ArchiveProbe>) f(std::string_view("state"));
}

/// f(name) for each function that a strategy has beside those that every one has, and beside those around a step.
template <class S, class F>
constexpr void each_function_of_strategy(F f) {
  using namespace hook::of_strategy;
  name_if<world, S>(f);
  name_if<local_rank, S>(f);
  name_if<agree, S, bool>(f);
  name_if<reduce, S, double, Reduce>(f);
  name_if<reduce_in_place, S, std::span<double>, std::span<Reduce const>>(f);
  name_if<reduce_gradients, S, std::span<double>, std::tuple<>>(f);
  if constexpr (broadcast::accepts_given<S, std::string>) f(broadcast::name());
  if constexpr (gather::accepts_given<S, std::string>) f(gather::name());
  name_if<barrier, S, std::string_view>(f);
  name_if<matmul_scope, S>(f);
  name_if<share_state, S, std::tuple<>>(f);
  name_if<whole_state, S, std::tuple<>>(f);
  name_if<share_statistics, S, std::tuple<>>(f);
  name_if<hook::account, S>(f);
}

/// f(name) for each function by which a callback speaks of files, or a logger of its folders.
template <class C, class F>
constexpr void each_function_of_callback(F f) {
  if constexpr (loop::SaysKey<C>) f(hook::state_key::name());
  if constexpr (loop::NamesLast<C>) f(hook::last_checkpoints::name());
  if constexpr (loop::NamesHpc<C>) f(hook::hpc_checkpoints::name());
  name_if<hook::resumes_hpc, C>(f);
  if constexpr (loop::NamesBest<C>) f(hook::best_model_path::name());
  name_if<hook::do_not_continue, C>(f);
  name_if<hook::continue_in, C, std::filesystem::path const>(f);
  name_if<hook::earlier_runs, C, TrainerOptions const>(f);
}

/// f(name) for each function that a loader has beside `begin` and `end`.
template <class L, class F>
constexpr void each_function_of_loader(F f) {
  if constexpr (SizedLoader<L>) f(std::string_view("size"));
  if constexpr (SettableBatchSize<L>) f(std::string_view("batch_size"));
  if constexpr (ShardableLoader<L>) f(std::string_view("shard"));
  name_if<hook::set_epoch, L, long>(f);
  name_if<hook::in_order, L, bool>(f);
  name_if<hook::limit_each, L, double>(f);
  name_if<hook::resume_at, L, long>(f);
  if constexpr (Stateful<L, ArchiveProbe>) f(std::string_view("state"));
}

}  // namespace fulgurite::report
