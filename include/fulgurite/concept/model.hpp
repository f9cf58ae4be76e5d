#pragma once
// What makes a model, and what rules ask of its metrics.

#include <string_view>
#include <type_traits>

#include <fulgurite/concept/names.hpp>
#include <fulgurite/hook/hooks.hpp>
#include <fulgurite/metric/keeps.hpp>
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
/// A metric with a definition that computes no number, or whose options are wrong.
template <class Metrics>
inline constexpr bool has_no_number = false;
template <auto... Ms>
inline constexpr bool has_no_number<MetricList<Ms...>> =
    (!(metric::counts_one_number<decltype(Ms)> || metric::counts_several<decltype(Ms)>) || ...);
/// A metric of several numbers that is to be shown where one number is.
template <class Metrics>
inline constexpr bool has_several_shown = false;
template <auto... Ms>
inline constexpr bool has_several_shown<MetricList<Ms...>> =
    ((metric::counts_several<decltype(Ms)> &&
      (Ms.prog_bar || !Ms.logger || Ms.on_step == Report::yes || Ms.on_epoch == Report::no)) ||
     ...);
template <class Metrics>
inline constexpr bool has_unsound = false;
template <auto... Ms>
inline constexpr bool has_unsound<MetricList<Ms...>> = (!metric::is_sound(Ms) || ...);
/// A name that would be taken for a loader's suffix.
template <class Metrics>
inline constexpr bool has_loader_suffix = false;
template <auto... Ms>
inline constexpr bool has_loader_suffix<MetricList<Ms...>> =
    ((Ms.name().find("/dataloader_idx_") != std::string_view::npos) || ...);

}  // namespace judge

/// Any struct with `training_step` and `configure_optimizers`; usually a torch::nn::Module. No base class of ours, no
/// registration.
template <class M>
concept ModelLike =
    std::is_class_v<M> && !std::is_final_v<M> && hook::training_step::named<M> && hook::configure_optimizers::named<M>;

}  // namespace fulgurite
