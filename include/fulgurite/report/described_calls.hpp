#pragma once
// What is called in a fit and in an evaluation, from above to below, as the description of a trainer has it.

#include <string_view>
#include <type_traits>

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/report/described_hooks.hpp>

namespace fulgurite::report {

/// Writes it for one trainer type.
template <class M, class S, class P, class O, class... Cs>
class DescribedCalls : protected DescribedHooks<M, S, P, O, Cs...> {
  using Base = DescribedHooks<M, S, P, O, Cs...>;

 protected:
  using Base::action;
  using Base::automatic;
  using Base::event;
  using Base::of_callbacks;
  using Base::of_strategy;
  using Base::out;
  using Base::scheduled;

  constexpr void fit() {
    out << "\nfit\n";
    of_callbacks(hook::limits_time{}, "  ");
    of_callbacks(hook::profile_action{}, "  ");
    event(hook::prepare_data{}, "  ");
    of_strategy(hook::process_dataloader{}, "  ");
    event(hook::setup{}, "  ");
    event(hook::configure_model{}, "  ");
    action(hook::configure_optimizers{}, "  ", "");
    event(hook::on_fit_start{}, "  ");
    of_callbacks(hook::log_hyperparams{}, "  ");
    event(hook::on_sanity_check_start{}, "  ");
    event(hook::on_sanity_check_end{}, "  ");
    event(hook::train_dataloader{}, "  ");
    event(hook::on_train_start{}, "  ");
    out << "  each epoch\n";
    event(hook::on_train_epoch_start{}, "    ");
    out << "    each batch\n";
    batch();
    if constexpr (hook::validation_step::named<M>) {
      out << "    validation, when it is due\n";
      event(hook::on_validation_model_zero_grad{}, "      ");
    }
    event(hook::on_train_epoch_end{}, "    ");
    of_callbacks(hook::before_statistics_pass{}, "  ");
    event(hook::on_train_end{}, "  ");
    event(hook::on_fit_end{}, "  ");
    event(hook::teardown{}, "  ");
    event(hook::on_exception{}, "  ");
    of_callbacks(hook::end_if_asked{}, "  ");
  }
  constexpr void batch() {
    transfer("      ");
    event(hook::on_train_batch_start{}, "      ");
    action(hook::training_step{}, "      ", "");
    event(hook::on_before_zero_grad{}, "      ");
    action(hook::optimizer_zero_grad{}, "      ", "optimizer.zero_grad(), at the first batch of a window");
    of_strategy(hook::pre_backward{}, "      ");
    event(hook::on_before_backward{}, "      ");
    action(hook::backward{}, "      ",
           automatic ? "loss.backward(1 / batches of the window)" : "ctx.backward(loss), by training_step");
    event(hook::on_after_backward{}, "      ");
    of_strategy(hook::post_backward{}, "      ");
    if constexpr (!automatic) of_strategy(hook::no_sync{}, "      ");
    event(hook::on_before_optimizer_step{}, "      ");
    action(hook::configure_gradient_clipping{}, "      ", "as optimization says");
    action(hook::optimizer_step{}, "      ", "optimizer.step(), at the last batch of a window");
    if constexpr (scheduled) action(hook::lr_scheduler_step{}, "      ", "scheduler.step()");
    event(hook::on_train_batch_end{}, "      ");
  }
  constexpr void transfer(std::string_view indent) {
    event(hook::on_before_batch_transfer{}, indent);
    event(hook::transfer_batch_to_device{}, indent);
    event(hook::on_after_batch_transfer{}, indent);
  }

  template <class Step>
  constexpr void evaluation(Step, std::string_view name) {
    if constexpr (Step::template named<M>) {
      out << "\n" << name << "\n";
      using V = hook::validation_step;
      using T = hook::test_step;
      using namespace hook;
      if constexpr (std::is_same_v<Step, V>)
        evaluation_rows<val_dataloader, on_validation_model_eval, on_validation_start, on_validation_epoch_start,
                        on_validation_batch_start, V, on_validation_batch_end, on_validation_epoch_end,
                        on_validation_end, on_validation_model_train>();
      else if constexpr (std::is_same_v<Step, T>)
        evaluation_rows<test_dataloader, on_test_model_eval, on_test_start, on_test_epoch_start, on_test_batch_start, T,
                        on_test_batch_end, on_test_epoch_end, on_test_end, on_test_model_train>();
      else
        evaluation_rows<predict_dataloader, on_predict_model_eval, on_predict_start, on_predict_epoch_start,
                        on_predict_batch_start, Step, on_predict_batch_end, on_predict_epoch_end, on_predict_end>();
    }
  }
  template <class... Hooks>
  constexpr void evaluation_rows() {
    (event(Hooks{}, "  "), ...);
  }

  /// What loggers hear, in a fit as elsewhere.
  constexpr void rows() {
    if constexpr ((hook::log_metrics::named<Cs> || ...)) {
      out << "\nrows of metrics\n";
      of_callbacks(hook::log_metrics{}, "  ");
      of_callbacks(hook::finalize{}, "  ");
    }
  }
};

}  // namespace fulgurite::report
