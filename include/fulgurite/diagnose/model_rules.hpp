#pragma once
// Rules about a model: from the class itself to its steps. Optimizers and hooks are judged against the contexts they
// receive, in trainer_rules.hpp.

#pragma GCC system_header  // spares g++ the trace through the macro of a row

#include <type_traits>

#include <fulgurite/concept/model.hpp>
#include <fulgurite/concept/names.hpp>
#include <fulgurite/concept/traits.hpp>
#include <fulgurite/diagnose/about_hook.hpp>
#include <fulgurite/diagnose/foreign_hooks.hpp>
#include <fulgurite/diagnose/policy_rules.hpp>
#include <fulgurite/metric/metric.hpp>

namespace fulgurite::judge {

// clang-format off
/// `NoneMisspelt`: it is known already that no name of the model is a near miss.
template <class M, bool NoneMisspelt>
struct ModelRules {
  using Rules = ModelRules;
  template <bool Says = false, class = void>
  static consteval auto judge() {
    FULGURITE_RULE("[fulgurite.model.class] make_trainer<Model> needs a class that is defined before this call: no "
                   "pointer, reference or const",
                   accepts<M>, std::is_class_v<M> && !std::is_const_v<M> && requires { sizeof(M); })
    FULGURITE_RULE("[fulgurite.model.holder] the model's type is a pointer or a holder: name the class behind it, "
                   "such as NetImpl, and pass *net",
                   accepts<M>, !points<M>)
    FULGURITE_RULE("[fulgurite.model.final] the hooks of a final class cannot be seen: remove `final` from the model",
                   accepts<M>, !std::is_final_v<M>)
    FULGURITE_RULE("[fulgurite.model.metrics] the model's Metrics is no list of its metrics: write `using Metrics = "
                   "MetricList<loss>` after `static constexpr Metric<\"loss\"> loss{}`",
                   accepts<M>, is_metric_list<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.twice] two entries of the model's Metrics have the same name: give each metric "
                   "its own",
                   accepts<M>, !has_metric_twice<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.unreported] this metric is reported neither per step nor per epoch: remove one "
                   "`Report::no`, or say `.logger = false` if only callbacks read it",
                   accepts<M>, !has_unreported<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.one_number] this metric's definition computes no single number, so it cannot be "
                   "reported: name its numbers by each(value, f), or keep a metric::Meter of it in the model",
                   accepts<M>, !has_no_number<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.several] the numbers of this metric go to loggers and results alone, once an "
                   "evaluation: leave .prog_bar, .logger, .on_step and .on_epoch out of its declaration",
                   accepts<M>, !has_several_shown<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.how] a metric is declared with options that its definition refuses: fault() of "
                   "its `.how` says which, such as .num_classes below 2",
                   accepts<M>, !has_unsound<typename MetricsOf<M>::type>)
    FULGURITE_RULE("[fulgurite.metric.name] a metric's name must not contain \"/dataloader_idx_\", which is added for "
                   "several loaders: choose another name",
                   accepts<M>, !has_loader_suffix<typename MetricsOf<M>::type>)
    FULGURITE_HOOKS(M, misspelt<M, NoneMisspelt>())
    FULGURITE_RULES(TraitRules<M, !says_too_late<M>()>::judge())
    FULGURITE_HOOKS(M, foreign_to_model<M>())
    FULGURITE_RULE("[fulgurite.model.training_step] the model has no training step: add `auto training_step(auto "
                   "const& batch, auto& ctx)` that returns the loss",
                   accepts<M>, hook::training_step::named<M>)
    FULGURITE_RULE("[fulgurite.model.configure_optimizers] the model names no optimizer: add `auto "
                   "configure_optimizers()` that returns one",
                   accepts<M>, hook::configure_optimizers::named<M>)
    return Fine{};
  }
};
// clang-format on

}  // namespace fulgurite::judge
