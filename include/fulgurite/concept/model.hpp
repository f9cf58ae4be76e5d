#pragma once
// What makes a model, and the ladder of what can be wrong with one.

#include <string_view>
#include <type_traits>

#include <fulgurite/concept/fault.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite {

namespace judge {

template <class Metrics>
inline constexpr bool is_metric_list = false;
template <auto... Ms>
  requires(requires { typename decltype(Ms)::metric; } && ...)
inline constexpr bool is_metric_list<MetricList<Ms...>> = true;

template <class Metrics>
inline constexpr bool has_metric_twice = false;
template <auto... Ms>
inline constexpr bool has_metric_twice<MetricList<Ms...>> =
    ((times<typename decltype(Ms)::metric, typename decltype(Ms)::metric...> > 1) || ...);

/// Reported nowhere, although there would be loggers; a metric for callbacks alone says `.logger = false`.
template <class Metrics>
inline constexpr bool has_unreported = false;
template <auto... Ms>
inline constexpr bool has_unreported<MetricList<Ms...>> =
    ((Ms.logger && Ms.on_step == Report::no && Ms.on_epoch == Report::no) || ...);
/// A name that would be taken for a loader's suffix.
template <class Metrics>
inline constexpr bool has_loader_suffix = false;
template <auto... Ms>
inline constexpr bool has_loader_suffix<MetricList<Ms...>> = ((Ms.name().find("/dataloader_idx_") != std::string_view::npos) || ...);

/// From the class itself to its steps; optimizers and hooks are judged against the contexts they receive.
template <class M>
consteval Verdict model() {
  if constexpr (!std::is_class_v<M> || std::is_const_v<M> || !requires { sizeof(M); }) return {Fault::model_class};
  else if constexpr (points<M>) return {Fault::model_holder};
  else if constexpr (std::is_final_v<M>) return {Fault::model_final};
  else if constexpr (!is_metric_list<typename MetricsOf<M>::type>) return {Fault::metric_list};
  else if constexpr (has_metric_twice<typename MetricsOf<M>::type>) return {Fault::metric_twice};
  else if constexpr (has_unreported<typename MetricsOf<M>::type>) return {Fault::metric_unreported};
  else if constexpr (has_loader_suffix<typename MetricsOf<M>::type>) return {Fault::metric_name};
  else if constexpr (constexpr auto near = misspelt<M>(); bool(near)) return {Fault::hook, near};
  else if constexpr (says_too_late<M>()) return {Fault::trait};
  else if constexpr (!hook::training_step::named<M>) return {Fault::training_step};
  else if constexpr (!hook::configure_optimizers::named<M>) return {Fault::configure_optimizers};
  else return {};
}

}  // namespace judge

/// Any struct with `training_step` and `configure_optimizers`; usually a torch::nn::Module. No base class of ours, no registration.
template <class M>
concept ModelLike = judge::model<M>().ok();

}  // namespace fulgurite
