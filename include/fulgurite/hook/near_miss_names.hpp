#pragma once
// Written by tools/near_misses.py: the names that look like hooks and are not, each with what is meant: what Lightning
// renamed or removed, what its users expect, and misspelt names. The end of diagnose/hook_refusals.hpp makes sentences.

// clang-format off
#define FULGURITE_NEAR_MISSES(ROW) \
  ROW(training_step_end, "on_train_batch_end") ROW(on_train_step_end, "on_train_batch_end") \
  ROW(on_training_step_end, "on_train_batch_end") ROW(training_end, "on_train_batch_end") \
  ROW(on_batch_end, "on_train_batch_end") ROW(on_after_optimizer_step, "on_train_batch_end") \
  ROW(on_train_end_batch, "on_train_batch_end") ROW(on_training_batch_end, "on_train_batch_end") \
  ROW(on_trian_batch_end, "on_train_batch_end") ROW(on_train_batches_end, "on_train_batch_end") \
  ROW(on_train_bacth_end, "on_train_batch_end") ROW(on_train_batch_finish, "on_train_batch_end") \
  ROW(on_train_batch_finished, "on_train_batch_end") ROW(on_train_batch_ended, "on_train_batch_end") \
  ROW(on_train_batch_edn, "on_train_batch_end") ROW(on_train_batch_ends, "on_train_batch_end") \
  ROW(train_batch_end, "on_train_batch_end") ROW(on_batch_train_end, "on_train_batch_end") \
  ROW(onTrainBatchEnd, "on_train_batch_end") ROW(OnTrainBatchEnd, "on_train_batch_end") \
  ROW(ontrain_batch_end, "on_train_batch_end") ROW(on_trainbatch_end, "on_train_batch_end") \
  ROW(on_train_batchend, "on_train_batch_end") ROW(validation_step_end, "on_validation_batch_end") \
  ROW(on_validation_step_end, "on_validation_batch_end") ROW(on_val_batch_end, "on_validation_batch_end") \
  ROW(on_valid_batch_end, "on_validation_batch_end") ROW(on_validate_batch_end, "on_validation_batch_end") \
  ROW(on_vaildation_batch_end, "on_validation_batch_end") ROW(on_validaton_batch_end, "on_validation_batch_end") \
  ROW(on_validation_batches_end, "on_validation_batch_end") ROW(on_validation_bacth_end, "on_validation_batch_end") \
  ROW(on_validation_batch_finish, "on_validation_batch_end") \
  ROW(on_validation_batch_finished, "on_validation_batch_end") \
  ROW(on_validation_batch_ended, "on_validation_batch_end") ROW(on_validation_batch_edn, "on_validation_batch_end") \
  ROW(on_validation_batch_ends, "on_validation_batch_end") ROW(validation_batch_end, "on_validation_batch_end") \
  ROW(on_validation_end_batch, "on_validation_batch_end") ROW(on_batch_validation_end, "on_validation_batch_end") \
  ROW(onValidationBatchEnd, "on_validation_batch_end") ROW(OnValidationBatchEnd, "on_validation_batch_end") \
  ROW(onvalidation_batch_end, "on_validation_batch_end") ROW(on_validationbatch_end, "on_validation_batch_end") \
  ROW(on_validation_batchend, "on_validation_batch_end") ROW(test_step_end, "on_test_batch_end") \
  ROW(on_test_step_end, "on_test_batch_end") ROW(on_testing_batch_end, "on_test_batch_end") \
  ROW(on_tets_batch_end, "on_test_batch_end") ROW(on_test_batches_end, "on_test_batch_end") \
  ROW(on_test_bacth_end, "on_test_batch_end") ROW(on_test_batch_finish, "on_test_batch_end") \
  ROW(on_test_batch_finished, "on_test_batch_end") ROW(on_test_batch_ended, "on_test_batch_end") \
  ROW(on_test_batch_edn, "on_test_batch_end") ROW(on_test_batch_ends, "on_test_batch_end") \
  ROW(test_batch_end, "on_test_batch_end") ROW(on_test_end_batch, "on_test_batch_end") \
  ROW(on_batch_test_end, "on_test_batch_end") ROW(onTestBatchEnd, "on_test_batch_end") \
  ROW(OnTestBatchEnd, "on_test_batch_end") ROW(ontest_batch_end, "on_test_batch_end") \
  ROW(on_testbatch_end, "on_test_batch_end") ROW(on_test_batchend, "on_test_batch_end") \
  ROW(predict_step_end, "on_predict_batch_end") ROW(on_predict_step_end, "on_predict_batch_end") \
  ROW(on_prediction_batch_end, "on_predict_batch_end") ROW(on_perdict_batch_end, "on_predict_batch_end") \
  ROW(on_predict_batches_end, "on_predict_batch_end") ROW(on_predict_bacth_end, "on_predict_batch_end") \
  ROW(on_predict_batch_finish, "on_predict_batch_end") ROW(on_predict_batch_finished, "on_predict_batch_end") \
  ROW(on_predict_batch_ended, "on_predict_batch_end") ROW(on_predict_batch_edn, "on_predict_batch_end") \
  ROW(on_predict_batch_ends, "on_predict_batch_end") ROW(predict_batch_end, "on_predict_batch_end") \
  ROW(on_predict_end_batch, "on_predict_batch_end") ROW(on_batch_predict_end, "on_predict_batch_end") \
  ROW(onPredictBatchEnd, "on_predict_batch_end") ROW(OnPredictBatchEnd, "on_predict_batch_end") \
  ROW(onpredict_batch_end, "on_predict_batch_end") ROW(on_predictbatch_end, "on_predict_batch_end") \
  ROW(on_predict_batchend, "on_predict_batch_end") ROW(training_epoch_end, "on_train_epoch_end") \
  ROW(on_epoch_end, "on_train_epoch_end") ROW(on_training_epoch_end, "on_train_epoch_end") \
  ROW(on_trian_epoch_end, "on_train_epoch_end") ROW(on_train_epochs_end, "on_train_epoch_end") \
  ROW(on_train_epcoh_end, "on_train_epoch_end") ROW(on_train_epoc_end, "on_train_epoch_end") \
  ROW(on_train_epoch_finish, "on_train_epoch_end") ROW(on_train_epoch_finished, "on_train_epoch_end") \
  ROW(on_train_epoch_ended, "on_train_epoch_end") ROW(on_train_epoch_edn, "on_train_epoch_end") \
  ROW(on_train_epoch_ends, "on_train_epoch_end") ROW(train_epoch_end, "on_train_epoch_end") \
  ROW(on_train_end_epoch, "on_train_epoch_end") ROW(on_epoch_train_end, "on_train_epoch_end") \
  ROW(onTrainEpochEnd, "on_train_epoch_end") ROW(OnTrainEpochEnd, "on_train_epoch_end") \
  ROW(ontrain_epoch_end, "on_train_epoch_end") ROW(on_trainepoch_end, "on_train_epoch_end") \
  ROW(on_train_epochend, "on_train_epoch_end") ROW(validation_end, "on_validation_epoch_end") \
  ROW(on_val_epoch_end, "on_validation_epoch_end") ROW(on_valid_epoch_end, "on_validation_epoch_end") \
  ROW(on_validate_epoch_end, "on_validation_epoch_end") ROW(on_vaildation_epoch_end, "on_validation_epoch_end") \
  ROW(on_validaton_epoch_end, "on_validation_epoch_end") ROW(on_validation_epochs_end, "on_validation_epoch_end") \
  ROW(on_validation_epcoh_end, "on_validation_epoch_end") ROW(on_validation_epoc_end, "on_validation_epoch_end") \
  ROW(on_validation_epoch_finish, "on_validation_epoch_end") \
  ROW(on_validation_epoch_finished, "on_validation_epoch_end") \
  ROW(on_validation_epoch_ended, "on_validation_epoch_end") ROW(on_validation_epoch_edn, "on_validation_epoch_end") \
  ROW(on_validation_epoch_ends, "on_validation_epoch_end") ROW(validation_epoch_end, "on_validation_epoch_end") \
  ROW(on_validation_end_epoch, "on_validation_epoch_end") ROW(on_epoch_validation_end, "on_validation_epoch_end") \
  ROW(onValidationEpochEnd, "on_validation_epoch_end") ROW(OnValidationEpochEnd, "on_validation_epoch_end") \
  ROW(onvalidation_epoch_end, "on_validation_epoch_end") ROW(on_validationepoch_end, "on_validation_epoch_end") \
  ROW(on_validation_epochend, "on_validation_epoch_end") ROW(test_end, "on_test_epoch_end") \
  ROW(on_testing_epoch_end, "on_test_epoch_end") ROW(on_tets_epoch_end, "on_test_epoch_end") \
  ROW(on_test_epochs_end, "on_test_epoch_end") ROW(on_test_epcoh_end, "on_test_epoch_end") \
  ROW(on_test_epoc_end, "on_test_epoch_end") ROW(on_test_epoch_finish, "on_test_epoch_end") \
  ROW(on_test_epoch_finished, "on_test_epoch_end") ROW(on_test_epoch_ended, "on_test_epoch_end") \
  ROW(on_test_epoch_edn, "on_test_epoch_end") ROW(on_test_epoch_ends, "on_test_epoch_end") \
  ROW(test_epoch_end, "on_test_epoch_end") ROW(on_test_end_epoch, "on_test_epoch_end") \
  ROW(on_epoch_test_end, "on_test_epoch_end") ROW(onTestEpochEnd, "on_test_epoch_end") \
  ROW(OnTestEpochEnd, "on_test_epoch_end") ROW(ontest_epoch_end, "on_test_epoch_end") \
  ROW(on_testepoch_end, "on_test_epoch_end") ROW(on_test_epochend, "on_test_epoch_end") \
  ROW(on_epoch_start, "on_train_epoch_start") ROW(on_epoch_begin, "on_train_epoch_start") \
  ROW(on_training_epoch_start, "on_train_epoch_start") ROW(on_trian_epoch_start, "on_train_epoch_start") \
  ROW(on_train_epochs_start, "on_train_epoch_start") ROW(on_train_epcoh_start, "on_train_epoch_start") \
  ROW(on_train_epoc_start, "on_train_epoch_start") ROW(on_train_epoch_begin, "on_train_epoch_start") \
  ROW(on_train_epoch_started, "on_train_epoch_start") ROW(on_train_epoch_strat, "on_train_epoch_start") \
  ROW(on_train_epoch_starts, "on_train_epoch_start") ROW(train_epoch_start, "on_train_epoch_start") \
  ROW(on_train_start_epoch, "on_train_epoch_start") ROW(on_epoch_train_start, "on_train_epoch_start") \
  ROW(onTrainEpochStart, "on_train_epoch_start") ROW(OnTrainEpochStart, "on_train_epoch_start") \
  ROW(ontrain_epoch_start, "on_train_epoch_start") ROW(on_trainepoch_start, "on_train_epoch_start") \
  ROW(on_train_epochstart, "on_train_epoch_start") ROW(on_batch_start, "on_train_batch_start") \
  ROW(on_batch_begin, "on_train_batch_start") ROW(on_train_start_batch, "on_train_batch_start") \
  ROW(on_training_batch_start, "on_train_batch_start") ROW(on_trian_batch_start, "on_train_batch_start") \
  ROW(on_train_batches_start, "on_train_batch_start") ROW(on_train_bacth_start, "on_train_batch_start") \
  ROW(on_train_batch_begin, "on_train_batch_start") ROW(on_train_batch_started, "on_train_batch_start") \
  ROW(on_train_batch_strat, "on_train_batch_start") ROW(on_train_batch_starts, "on_train_batch_start") \
  ROW(train_batch_start, "on_train_batch_start") ROW(on_batch_train_start, "on_train_batch_start") \
  ROW(onTrainBatchStart, "on_train_batch_start") ROW(OnTrainBatchStart, "on_train_batch_start") \
  ROW(ontrain_batch_start, "on_train_batch_start") ROW(on_trainbatch_start, "on_train_batch_start") \
  ROW(on_train_batchstart, "on_train_batch_start") ROW(on_init_start, "setup") ROW(on_init_end, "setup") \
  ROW(on_before_accelerator_backend_setup, "setup") ROW(on_setup, "setup") ROW(on_load_start, "on_fit_start") \
  ROW(on_pretrain_routine_start, "on_fit_start") ROW(on_pretrain_routine_end, "on_fit_start") \
  ROW(on_post_move_to_device, "on_fit_start") ROW(on_fit_begin, "on_fit_start") ROW(on_fit_started, "on_fit_start") \
  ROW(on_fit_strat, "on_fit_start") ROW(on_fit_starts, "on_fit_start") ROW(onFitStart, "on_fit_start") \
  ROW(OnFitStart, "on_fit_start") ROW(onfit_start, "on_fit_start") ROW(on_fitstart, "on_fit_start") \
  ROW(on_configure_sharded_model, "configure_model") ROW(configure_sharded_model, "configure_model") \
  ROW(configre_model, "configure_model") ROW(confgure_model, "configure_model") \
  ROW(on_configure_model, "configure_model") ROW(configureModel, "configure_model") \
  ROW(configuremodel, "configure_model") ROW(on_before_optimizer_zero_grad, "on_before_zero_grad") \
  ROW(on_befor_zero_grad, "on_before_zero_grad") ROW(on_before_zero_grads, "on_before_zero_grad") \
  ROW(on_before_zero_gradient, "on_before_zero_grad") ROW(on_before_zero_gradients, "on_before_zero_grad") \
  ROW(before_zero_grad, "on_before_zero_grad") ROW(onBeforeZeroGrad, "on_before_zero_grad") \
  ROW(OnBeforeZeroGrad, "on_before_zero_grad") ROW(onbefore_zero_grad, "on_before_zero_grad") \
  ROW(on_beforezero_grad, "on_before_zero_grad") ROW(on_before_zerograd, "on_before_zero_grad") \
  ROW(clip_gradients, "configure_gradient_clipping") ROW(configre_gradient_clipping, "configure_gradient_clipping") \
  ROW(confgure_gradient_clipping, "configure_gradient_clipping") \
  ROW(configure_grad_clipping, "configure_gradient_clipping") \
  ROW(configure_gradients_clipping, "configure_gradient_clipping") \
  ROW(configure_gradiant_clipping, "configure_gradient_clipping") \
  ROW(on_configure_gradient_clipping, "configure_gradient_clipping") \
  ROW(configureGradientClipping, "configure_gradient_clipping") \
  ROW(configuregradient_clipping, "configure_gradient_clipping") \
  ROW(configure_gradientclipping, "configure_gradient_clipping") ROW(on_keyboard_interrupt, "on_exception") \
  ROW(on_excpetion, "on_exception") ROW(on_exceptions, "on_exception") ROW(onException, "on_exception") \
  ROW(OnException, "on_exception") ROW(onexception, "on_exception") \
  ROW(on_save_checkpoint, "state(archive), which saves and loads") \
  ROW(on_load_checkpoint, "state(archive), which saves and loads") \
  ROW(on_hpc_save, "state(archive), which saves and loads") \
  ROW(on_hpc_load, "state(archive), which saves and loads") ROW(configure_callbacks, "make_trainer's callbacks") \
  ROW(configure_apex, "make_trainer's precision") ROW(configure_ddp, "make_trainer's strategy") \
  ROW(init_ddp_connection, "make_trainer's strategy") ROW(configure_sync_batchnorm, "make_trainer's strategy") \
  ROW(get_progress_bar_dict, "ctx.log and a metric with .prog_bar = true") \
  ROW(get_tqdm_dict, "ctx.log and a metric with .prog_bar = true") ROW(on_tng_metrics, "ctx.log") \
  ROW(log_grad_norm, "the callback GradientNorm") ROW(log_hyperparameters, "log_hyperparams") \
  ROW(log_hparams, "log_hyperparams") ROW(on_log_hyperparams, "log_hyperparams") \
  ROW(logHyperparams, "log_hyperparams") ROW(loghyperparams, "log_hyperparams") ROW(train_step, "training_step") \
  ROW(trainig_step, "training_step") ROW(traning_step, "training_step") ROW(on_training_step, "training_step") \
  ROW(trainingStep, "training_step") ROW(trainingstep, "training_step") ROW(val_step, "validation_step") \
  ROW(validate_step, "validation_step") ROW(eval_step, "validation_step") ROW(valid_step, "validation_step") \
  ROW(vaildation_step, "validation_step") ROW(validaton_step, "validation_step") \
  ROW(on_validation_step, "validation_step") ROW(validationStep, "validation_step") \
  ROW(validationstep, "validation_step") ROW(prediction_step, "predict_step") ROW(perdict_step, "predict_step") \
  ROW(on_predict_step, "predict_step") ROW(predictStep, "predict_step") ROW(predictstep, "predict_step") \
  ROW(on_reset_train_dataloader, "train_dataloader") ROW(on_train_dataloader, "train_dataloader") \
  ROW(on_reset_val_dataloader, "val_dataloader") ROW(on_val_dataloader, "val_dataloader") \
  ROW(on_reset_test_dataloader, "test_dataloader") ROW(on_test_dataloader, "test_dataloader") \
  ROW(on_reset_predict_dataloader, "predict_dataloader") ROW(on_predict_dataloader, "predict_dataloader") \
  ROW(on_teardown, "teardown") ROW(on_fit_finish, "on_fit_end") ROW(on_fit_finished, "on_fit_end") \
  ROW(on_fit_ended, "on_fit_end") ROW(on_fit_edn, "on_fit_end") ROW(on_fit_ends, "on_fit_end") \
  ROW(onFitEnd, "on_fit_end") ROW(OnFitEnd, "on_fit_end") ROW(onfit_end, "on_fit_end") ROW(on_fitend, "on_fit_end") \
  ROW(on_santiy_check_start, "on_sanity_check_start") ROW(on_sanity_check_begin, "on_sanity_check_start") \
  ROW(on_sanity_check_started, "on_sanity_check_start") ROW(on_sanity_check_strat, "on_sanity_check_start") \
  ROW(on_sanity_check_starts, "on_sanity_check_start") ROW(sanity_check_start, "on_sanity_check_start") \
  ROW(onSanityCheckStart, "on_sanity_check_start") ROW(OnSanityCheckStart, "on_sanity_check_start") \
  ROW(onsanity_check_start, "on_sanity_check_start") ROW(on_sanitycheck_start, "on_sanity_check_start") \
  ROW(on_sanity_checkstart, "on_sanity_check_start") ROW(on_santiy_check_end, "on_sanity_check_end") \
  ROW(on_sanity_check_finish, "on_sanity_check_end") ROW(on_sanity_check_finished, "on_sanity_check_end") \
  ROW(on_sanity_check_ended, "on_sanity_check_end") ROW(on_sanity_check_edn, "on_sanity_check_end") \
  ROW(on_sanity_check_ends, "on_sanity_check_end") ROW(sanity_check_end, "on_sanity_check_end") \
  ROW(onSanityCheckEnd, "on_sanity_check_end") ROW(OnSanityCheckEnd, "on_sanity_check_end") \
  ROW(onsanity_check_end, "on_sanity_check_end") ROW(on_sanitycheck_end, "on_sanity_check_end") \
  ROW(on_sanity_checkend, "on_sanity_check_end") ROW(on_training_start, "on_train_start") \
  ROW(on_trian_start, "on_train_start") ROW(on_train_begin, "on_train_start") \
  ROW(on_train_started, "on_train_start") ROW(on_train_strat, "on_train_start") \
  ROW(on_train_starts, "on_train_start") ROW(onTrainStart, "on_train_start") ROW(OnTrainStart, "on_train_start") \
  ROW(ontrain_start, "on_train_start") ROW(on_trainstart, "on_train_start") ROW(on_training_end, "on_train_end") \
  ROW(on_trian_end, "on_train_end") ROW(on_train_finish, "on_train_end") ROW(on_train_finished, "on_train_end") \
  ROW(on_train_ended, "on_train_end") ROW(on_train_edn, "on_train_end") ROW(on_train_ends, "on_train_end") \
  ROW(onTrainEnd, "on_train_end") ROW(OnTrainEnd, "on_train_end") ROW(ontrain_end, "on_train_end") \
  ROW(on_trainend, "on_train_end") ROW(on_befor_backward, "on_before_backward") \
  ROW(on_before_bakward, "on_before_backward") ROW(on_before_backwards, "on_before_backward") \
  ROW(before_backward, "on_before_backward") ROW(onBeforeBackward, "on_before_backward") \
  ROW(OnBeforeBackward, "on_before_backward") ROW(onbefore_backward, "on_before_backward") \
  ROW(on_beforebackward, "on_before_backward") ROW(on_after_bakward, "on_after_backward") \
  ROW(on_after_backwards, "on_after_backward") ROW(after_backward, "on_after_backward") \
  ROW(onAfterBackward, "on_after_backward") ROW(OnAfterBackward, "on_after_backward") \
  ROW(onafter_backward, "on_after_backward") ROW(on_afterbackward, "on_after_backward") \
  ROW(on_befor_optimizer_step, "on_before_optimizer_step") ROW(on_before_optimiser_step, "on_before_optimizer_step") \
  ROW(on_before_optmizer_step, "on_before_optimizer_step") ROW(on_before_optimzer_step, "on_before_optimizer_step") \
  ROW(on_before_optimizer_steps, "on_before_optimizer_step") ROW(before_optimizer_step, "on_before_optimizer_step") \
  ROW(onBeforeOptimizerStep, "on_before_optimizer_step") ROW(OnBeforeOptimizerStep, "on_before_optimizer_step") \
  ROW(onbefore_optimizer_step, "on_before_optimizer_step") ROW(on_beforeoptimizer_step, "on_before_optimizer_step") \
  ROW(on_before_optimizerstep, "on_before_optimizer_step") ROW(on_val_start, "on_validation_start") \
  ROW(on_valid_start, "on_validation_start") ROW(on_validate_start, "on_validation_start") \
  ROW(on_vaildation_start, "on_validation_start") ROW(on_validaton_start, "on_validation_start") \
  ROW(on_validation_begin, "on_validation_start") ROW(on_validation_started, "on_validation_start") \
  ROW(on_validation_strat, "on_validation_start") ROW(on_validation_starts, "on_validation_start") \
  ROW(onValidationStart, "on_validation_start") ROW(OnValidationStart, "on_validation_start") \
  ROW(onvalidation_start, "on_validation_start") ROW(on_validationstart, "on_validation_start") \
  ROW(on_val_end, "on_validation_end") ROW(on_valid_end, "on_validation_end") \
  ROW(on_validate_end, "on_validation_end") ROW(on_vaildation_end, "on_validation_end") \
  ROW(on_validaton_end, "on_validation_end") ROW(on_validation_finish, "on_validation_end") \
  ROW(on_validation_finished, "on_validation_end") ROW(on_validation_ended, "on_validation_end") \
  ROW(on_validation_edn, "on_validation_end") ROW(on_validation_ends, "on_validation_end") \
  ROW(onValidationEnd, "on_validation_end") ROW(OnValidationEnd, "on_validation_end") \
  ROW(onvalidation_end, "on_validation_end") ROW(on_validationend, "on_validation_end") \
  ROW(on_val_epoch_start, "on_validation_epoch_start") ROW(on_valid_epoch_start, "on_validation_epoch_start") \
  ROW(on_validate_epoch_start, "on_validation_epoch_start") \
  ROW(on_vaildation_epoch_start, "on_validation_epoch_start") \
  ROW(on_validaton_epoch_start, "on_validation_epoch_start") \
  ROW(on_validation_epochs_start, "on_validation_epoch_start") \
  ROW(on_validation_epcoh_start, "on_validation_epoch_start") \
  ROW(on_validation_epoc_start, "on_validation_epoch_start") \
  ROW(on_validation_epoch_begin, "on_validation_epoch_start") \
  ROW(on_validation_epoch_started, "on_validation_epoch_start") \
  ROW(on_validation_epoch_strat, "on_validation_epoch_start") \
  ROW(on_validation_epoch_starts, "on_validation_epoch_start") \
  ROW(validation_epoch_start, "on_validation_epoch_start") \
  ROW(on_validation_start_epoch, "on_validation_epoch_start") \
  ROW(on_epoch_validation_start, "on_validation_epoch_start") \
  ROW(onValidationEpochStart, "on_validation_epoch_start") ROW(OnValidationEpochStart, "on_validation_epoch_start") \
  ROW(onvalidation_epoch_start, "on_validation_epoch_start") \
  ROW(on_validationepoch_start, "on_validation_epoch_start") \
  ROW(on_validation_epochstart, "on_validation_epoch_start") ROW(on_val_batch_start, "on_validation_batch_start") \
  ROW(on_valid_batch_start, "on_validation_batch_start") ROW(on_validate_batch_start, "on_validation_batch_start") \
  ROW(on_vaildation_batch_start, "on_validation_batch_start") \
  ROW(on_validaton_batch_start, "on_validation_batch_start") \
  ROW(on_validation_batches_start, "on_validation_batch_start") \
  ROW(on_validation_bacth_start, "on_validation_batch_start") \
  ROW(on_validation_batch_begin, "on_validation_batch_start") \
  ROW(on_validation_batch_started, "on_validation_batch_start") \
  ROW(on_validation_batch_strat, "on_validation_batch_start") \
  ROW(on_validation_batch_starts, "on_validation_batch_start") \
  ROW(validation_batch_start, "on_validation_batch_start") \
  ROW(on_validation_start_batch, "on_validation_batch_start") \
  ROW(on_batch_validation_start, "on_validation_batch_start") \
  ROW(onValidationBatchStart, "on_validation_batch_start") ROW(OnValidationBatchStart, "on_validation_batch_start") \
  ROW(onvalidation_batch_start, "on_validation_batch_start") \
  ROW(on_validationbatch_start, "on_validation_batch_start") \
  ROW(on_validation_batchstart, "on_validation_batch_start") ROW(on_testing_start, "on_test_start") \
  ROW(on_tets_start, "on_test_start") ROW(on_test_begin, "on_test_start") ROW(on_test_started, "on_test_start") \
  ROW(on_test_strat, "on_test_start") ROW(on_test_starts, "on_test_start") ROW(onTestStart, "on_test_start") \
  ROW(OnTestStart, "on_test_start") ROW(ontest_start, "on_test_start") ROW(on_teststart, "on_test_start") \
  ROW(on_testing_end, "on_test_end") ROW(on_tets_end, "on_test_end") ROW(on_test_finish, "on_test_end") \
  ROW(on_test_finished, "on_test_end") ROW(on_test_ended, "on_test_end") ROW(on_test_edn, "on_test_end") \
  ROW(on_test_ends, "on_test_end") ROW(onTestEnd, "on_test_end") ROW(OnTestEnd, "on_test_end") \
  ROW(ontest_end, "on_test_end") ROW(on_testend, "on_test_end") ROW(on_testing_epoch_start, "on_test_epoch_start") \
  ROW(on_tets_epoch_start, "on_test_epoch_start") ROW(on_test_epochs_start, "on_test_epoch_start") \
  ROW(on_test_epcoh_start, "on_test_epoch_start") ROW(on_test_epoc_start, "on_test_epoch_start") \
  ROW(on_test_epoch_begin, "on_test_epoch_start") ROW(on_test_epoch_started, "on_test_epoch_start") \
  ROW(on_test_epoch_strat, "on_test_epoch_start") ROW(on_test_epoch_starts, "on_test_epoch_start") \
  ROW(test_epoch_start, "on_test_epoch_start") ROW(on_test_start_epoch, "on_test_epoch_start") \
  ROW(on_epoch_test_start, "on_test_epoch_start") ROW(onTestEpochStart, "on_test_epoch_start") \
  ROW(OnTestEpochStart, "on_test_epoch_start") ROW(ontest_epoch_start, "on_test_epoch_start") \
  ROW(on_testepoch_start, "on_test_epoch_start") ROW(on_test_epochstart, "on_test_epoch_start") \
  ROW(on_testing_batch_start, "on_test_batch_start") ROW(on_tets_batch_start, "on_test_batch_start") \
  ROW(on_test_batches_start, "on_test_batch_start") ROW(on_test_bacth_start, "on_test_batch_start") \
  ROW(on_test_batch_begin, "on_test_batch_start") ROW(on_test_batch_started, "on_test_batch_start") \
  ROW(on_test_batch_strat, "on_test_batch_start") ROW(on_test_batch_starts, "on_test_batch_start") \
  ROW(test_batch_start, "on_test_batch_start") ROW(on_test_start_batch, "on_test_batch_start") \
  ROW(on_batch_test_start, "on_test_batch_start") ROW(onTestBatchStart, "on_test_batch_start") \
  ROW(OnTestBatchStart, "on_test_batch_start") ROW(ontest_batch_start, "on_test_batch_start") \
  ROW(on_testbatch_start, "on_test_batch_start") ROW(on_test_batchstart, "on_test_batch_start") \
  ROW(on_prediction_start, "on_predict_start") ROW(on_perdict_start, "on_predict_start") \
  ROW(on_predict_begin, "on_predict_start") ROW(on_predict_started, "on_predict_start") \
  ROW(on_predict_strat, "on_predict_start") ROW(on_predict_starts, "on_predict_start") \
  ROW(onPredictStart, "on_predict_start") ROW(OnPredictStart, "on_predict_start") \
  ROW(onpredict_start, "on_predict_start") ROW(on_predictstart, "on_predict_start") \
  ROW(on_prediction_end, "on_predict_end") ROW(on_perdict_end, "on_predict_end") \
  ROW(on_predict_finish, "on_predict_end") ROW(on_predict_finished, "on_predict_end") \
  ROW(on_predict_ended, "on_predict_end") ROW(on_predict_edn, "on_predict_end") \
  ROW(on_predict_ends, "on_predict_end") ROW(onPredictEnd, "on_predict_end") ROW(OnPredictEnd, "on_predict_end") \
  ROW(onpredict_end, "on_predict_end") ROW(on_predictend, "on_predict_end") \
  ROW(on_prediction_epoch_start, "on_predict_epoch_start") ROW(on_perdict_epoch_start, "on_predict_epoch_start") \
  ROW(on_predict_epochs_start, "on_predict_epoch_start") ROW(on_predict_epcoh_start, "on_predict_epoch_start") \
  ROW(on_predict_epoc_start, "on_predict_epoch_start") ROW(on_predict_epoch_begin, "on_predict_epoch_start") \
  ROW(on_predict_epoch_started, "on_predict_epoch_start") ROW(on_predict_epoch_strat, "on_predict_epoch_start") \
  ROW(on_predict_epoch_starts, "on_predict_epoch_start") ROW(predict_epoch_start, "on_predict_epoch_start") \
  ROW(on_predict_start_epoch, "on_predict_epoch_start") ROW(on_epoch_predict_start, "on_predict_epoch_start") \
  ROW(onPredictEpochStart, "on_predict_epoch_start") ROW(OnPredictEpochStart, "on_predict_epoch_start") \
  ROW(onpredict_epoch_start, "on_predict_epoch_start") ROW(on_predictepoch_start, "on_predict_epoch_start") \
  ROW(on_predict_epochstart, "on_predict_epoch_start") ROW(on_prediction_epoch_end, "on_predict_epoch_end") \
  ROW(on_perdict_epoch_end, "on_predict_epoch_end") ROW(on_predict_epochs_end, "on_predict_epoch_end") \
  ROW(on_predict_epcoh_end, "on_predict_epoch_end") ROW(on_predict_epoc_end, "on_predict_epoch_end") \
  ROW(on_predict_epoch_finish, "on_predict_epoch_end") ROW(on_predict_epoch_finished, "on_predict_epoch_end") \
  ROW(on_predict_epoch_ended, "on_predict_epoch_end") ROW(on_predict_epoch_edn, "on_predict_epoch_end") \
  ROW(on_predict_epoch_ends, "on_predict_epoch_end") ROW(predict_epoch_end, "on_predict_epoch_end") \
  ROW(on_predict_end_epoch, "on_predict_epoch_end") ROW(on_epoch_predict_end, "on_predict_epoch_end") \
  ROW(onPredictEpochEnd, "on_predict_epoch_end") ROW(OnPredictEpochEnd, "on_predict_epoch_end") \
  ROW(onpredict_epoch_end, "on_predict_epoch_end") ROW(on_predictepoch_end, "on_predict_epoch_end") \
  ROW(on_predict_epochend, "on_predict_epoch_end") ROW(on_prediction_batch_start, "on_predict_batch_start") \
  ROW(on_perdict_batch_start, "on_predict_batch_start") ROW(on_predict_batches_start, "on_predict_batch_start") \
  ROW(on_predict_bacth_start, "on_predict_batch_start") ROW(on_predict_batch_begin, "on_predict_batch_start") \
  ROW(on_predict_batch_started, "on_predict_batch_start") ROW(on_predict_batch_strat, "on_predict_batch_start") \
  ROW(on_predict_batch_starts, "on_predict_batch_start") ROW(predict_batch_start, "on_predict_batch_start") \
  ROW(on_predict_start_batch, "on_predict_batch_start") ROW(on_batch_predict_start, "on_predict_batch_start") \
  ROW(onPredictBatchStart, "on_predict_batch_start") ROW(OnPredictBatchStart, "on_predict_batch_start") \
  ROW(onpredict_batch_start, "on_predict_batch_start") ROW(on_predictbatch_start, "on_predict_batch_start") \
  ROW(on_predict_batchstart, "on_predict_batch_start") ROW(bakward, "backward") ROW(on_backward, "backward") \
  ROW(optimiser_step, "optimizer_step") ROW(optmizer_step, "optimizer_step") ROW(optimzer_step, "optimizer_step") \
  ROW(on_optimizer_step, "optimizer_step") ROW(optimizerStep, "optimizer_step") ROW(optimizerstep, "optimizer_step") \
  ROW(optimiser_zero_grad, "optimizer_zero_grad") ROW(optmizer_zero_grad, "optimizer_zero_grad") \
  ROW(optimzer_zero_grad, "optimizer_zero_grad") ROW(optimizer_zero_grads, "optimizer_zero_grad") \
  ROW(optimizer_zero_gradient, "optimizer_zero_grad") ROW(optimizer_zero_gradients, "optimizer_zero_grad") \
  ROW(on_optimizer_zero_grad, "optimizer_zero_grad") ROW(optimizerZeroGrad, "optimizer_zero_grad") \
  ROW(optimizerzero_grad, "optimizer_zero_grad") ROW(optimizer_zerograd, "optimizer_zero_grad") \
  ROW(on_lr_scheduler_step, "lr_scheduler_step") ROW(lrSchedulerStep, "lr_scheduler_step") \
  ROW(lrscheduler_step, "lr_scheduler_step") ROW(lr_schedulerstep, "lr_scheduler_step") \
  ROW(tbptt_split_batches, "tbptt_split_batch") ROW(tbptt_split_bacth, "tbptt_split_batch") \
  ROW(on_tbptt_split_batch, "tbptt_split_batch") ROW(tbpttSplitBatch, "tbptt_split_batch") \
  ROW(tbpttsplit_batch, "tbptt_split_batch") ROW(tbptt_splitbatch, "tbptt_split_batch") \
  ROW(on_val_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_valid_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_validate_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_vaildation_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_validaton_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_validation_model_zero_grads, "on_validation_model_zero_grad") \
  ROW(on_validation_model_zero_gradient, "on_validation_model_zero_grad") \
  ROW(on_validation_model_zero_gradients, "on_validation_model_zero_grad") \
  ROW(validation_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(onValidationModelZeroGrad, "on_validation_model_zero_grad") \
  ROW(OnValidationModelZeroGrad, "on_validation_model_zero_grad") \
  ROW(onvalidation_model_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_validationmodel_zero_grad, "on_validation_model_zero_grad") \
  ROW(on_validation_modelzero_grad, "on_validation_model_zero_grad") \
  ROW(on_validation_model_zerograd, "on_validation_model_zero_grad") \
  ROW(on_val_model_eval, "on_validation_model_eval") ROW(on_valid_model_eval, "on_validation_model_eval") \
  ROW(on_validate_model_eval, "on_validation_model_eval") ROW(on_vaildation_model_eval, "on_validation_model_eval") \
  ROW(on_validaton_model_eval, "on_validation_model_eval") \
  ROW(on_validation_model_evals, "on_validation_model_eval") ROW(validation_model_eval, "on_validation_model_eval") \
  ROW(onValidationModelEval, "on_validation_model_eval") ROW(OnValidationModelEval, "on_validation_model_eval") \
  ROW(onvalidation_model_eval, "on_validation_model_eval") ROW(on_validationmodel_eval, "on_validation_model_eval") \
  ROW(on_validation_modeleval, "on_validation_model_eval") ROW(on_val_model_train, "on_validation_model_train") \
  ROW(on_valid_model_train, "on_validation_model_train") ROW(on_validate_model_train, "on_validation_model_train") \
  ROW(on_vaildation_model_train, "on_validation_model_train") \
  ROW(on_validaton_model_train, "on_validation_model_train") \
  ROW(on_validation_model_training, "on_validation_model_train") \
  ROW(on_validation_model_trian, "on_validation_model_train") \
  ROW(on_validation_model_trains, "on_validation_model_train") \
  ROW(validation_model_train, "on_validation_model_train") ROW(onValidationModelTrain, "on_validation_model_train") \
  ROW(OnValidationModelTrain, "on_validation_model_train") \
  ROW(onvalidation_model_train, "on_validation_model_train") \
  ROW(on_validationmodel_train, "on_validation_model_train") \
  ROW(on_validation_modeltrain, "on_validation_model_train") ROW(on_testing_model_eval, "on_test_model_eval") \
  ROW(on_tets_model_eval, "on_test_model_eval") ROW(on_test_model_evals, "on_test_model_eval") \
  ROW(test_model_eval, "on_test_model_eval") ROW(onTestModelEval, "on_test_model_eval") \
  ROW(OnTestModelEval, "on_test_model_eval") ROW(ontest_model_eval, "on_test_model_eval") \
  ROW(on_testmodel_eval, "on_test_model_eval") ROW(on_test_modeleval, "on_test_model_eval") \
  ROW(on_testing_model_train, "on_test_model_train") ROW(on_tets_model_train, "on_test_model_train") \
  ROW(on_test_model_training, "on_test_model_train") ROW(on_test_model_trian, "on_test_model_train") \
  ROW(on_test_model_trains, "on_test_model_train") ROW(test_model_train, "on_test_model_train") \
  ROW(onTestModelTrain, "on_test_model_train") ROW(OnTestModelTrain, "on_test_model_train") \
  ROW(ontest_model_train, "on_test_model_train") ROW(on_testmodel_train, "on_test_model_train") \
  ROW(on_test_modeltrain, "on_test_model_train") ROW(on_prediction_model_eval, "on_predict_model_eval") \
  ROW(on_perdict_model_eval, "on_predict_model_eval") ROW(on_predict_model_evals, "on_predict_model_eval") \
  ROW(predict_model_eval, "on_predict_model_eval") ROW(onPredictModelEval, "on_predict_model_eval") \
  ROW(OnPredictModelEval, "on_predict_model_eval") ROW(onpredict_model_eval, "on_predict_model_eval") \
  ROW(on_predictmodel_eval, "on_predict_model_eval") ROW(on_predict_modeleval, "on_predict_model_eval") \
  ROW(perpare_data, "prepare_data") ROW(on_prepare_data, "prepare_data") ROW(prepareData, "prepare_data") \
  ROW(preparedata, "prepare_data") ROW(on_befor_batch_transfer, "on_before_batch_transfer") \
  ROW(on_before_batches_transfer, "on_before_batch_transfer") \
  ROW(on_before_bacth_transfer, "on_before_batch_transfer") ROW(on_before_batch_tranfer, "on_before_batch_transfer") \
  ROW(on_before_batch_transfers, "on_before_batch_transfer") ROW(before_batch_transfer, "on_before_batch_transfer") \
  ROW(onBeforeBatchTransfer, "on_before_batch_transfer") ROW(OnBeforeBatchTransfer, "on_before_batch_transfer") \
  ROW(onbefore_batch_transfer, "on_before_batch_transfer") ROW(on_beforebatch_transfer, "on_before_batch_transfer") \
  ROW(on_before_batchtransfer, "on_before_batch_transfer") ROW(tranfer_batch_to_device, "transfer_batch_to_device") \
  ROW(transfer_batches_to_device, "transfer_batch_to_device") \
  ROW(transfer_bacth_to_device, "transfer_batch_to_device") \
  ROW(on_transfer_batch_to_device, "transfer_batch_to_device") \
  ROW(transferBatchToDevice, "transfer_batch_to_device") ROW(transferbatch_to_device, "transfer_batch_to_device") \
  ROW(transfer_batchto_device, "transfer_batch_to_device") ROW(transfer_batch_todevice, "transfer_batch_to_device") \
  ROW(on_after_batches_transfer, "on_after_batch_transfer") ROW(on_after_bacth_transfer, "on_after_batch_transfer") \
  ROW(on_after_batch_tranfer, "on_after_batch_transfer") ROW(on_after_batch_transfers, "on_after_batch_transfer") \
  ROW(after_batch_transfer, "on_after_batch_transfer") ROW(onAfterBatchTransfer, "on_after_batch_transfer") \
  ROW(OnAfterBatchTransfer, "on_after_batch_transfer") ROW(onafter_batch_transfer, "on_after_batch_transfer") \
  ROW(on_afterbatch_transfer, "on_after_batch_transfer") ROW(on_after_batchtransfer, "on_after_batch_transfer") \
  ROW(on_log_metrics, "log_metrics") ROW(logMetrics, "log_metrics") ROW(logmetrics, "log_metrics") \
  ROW(finalise, "finalize") ROW(on_finalize, "finalize") ROW(befor_save, "before_save") \
  ROW(before_saving, "before_save") ROW(on_before_save, "before_save") ROW(beforeSave, "before_save") \
  ROW(beforesave, "before_save") ROW(after_saving, "after_save") ROW(on_after_save, "after_save") \
  ROW(afterSave, "after_save") ROW(aftersave, "after_save") ROW(befor_statistics_pass, "before_statistics_pass") \
  ROW(on_before_statistics_pass, "before_statistics_pass") ROW(beforeStatisticsPass, "before_statistics_pass") \
  ROW(beforestatistics_pass, "before_statistics_pass") ROW(before_statisticspass, "before_statistics_pass") \
  ROW(on_limits_time, "limits_time") ROW(limitsTime, "limits_time") ROW(limitstime, "limits_time") \
  ROW(on_profile_action, "profile_action") ROW(profileAction, "profile_action") ROW(profileaction, "profile_action") \
  ROW(finish_if_asked, "end_if_asked") ROW(finished_if_asked, "end_if_asked") ROW(ended_if_asked, "end_if_asked") \
  ROW(edn_if_asked, "end_if_asked") ROW(on_end_if_asked, "end_if_asked") ROW(endIfAsked, "end_if_asked") \
  ROW(endif_asked, "end_if_asked") ROW(end_ifasked, "end_if_asked") ROW(on_hyperparameters, "hyperparameters") \
  ROW(pre_bakward, "pre_backward") ROW(on_pre_backward, "pre_backward") ROW(preBackward, "pre_backward") \
  ROW(prebackward, "pre_backward") ROW(post_bakward, "post_backward") ROW(on_post_backward, "post_backward") \
  ROW(postBackward, "post_backward") ROW(postbackward, "post_backward") \
  ROW(on_process_dataloader, "process_dataloader") ROW(processDataloader, "process_dataloader") \
  ROW(processdataloader, "process_dataloader") ROW(on_no_sync, "no_sync") ROW(noSync, "no_sync") \
  ROW(nosync, "no_sync") ROW(on_account, "account") ROW(testing_step, "test_step") ROW(tets_step, "test_step") \
  ROW(on_test_step, "test_step") ROW(testStep, "test_step") ROW(teststep, "test_step") \
  ROW(configre_optimizers, "configure_optimizers") ROW(confgure_optimizers, "configure_optimizers") \
  ROW(configure_optimisers, "configure_optimizers") ROW(configure_optimizer, "configure_optimizers") \
  ROW(configure_optmizers, "configure_optimizers") ROW(configure_optimzers, "configure_optimizers") \
  ROW(on_configure_optimizers, "configure_optimizers") ROW(configureOptimizers, "configure_optimizers") \
  ROW(configureoptimizers, "configure_optimizers")

// The same for the loaders of a data module: a class that has both may use such a name for a member.
#define FULGURITE_LOADER_NEAR_MISSES(ROW) \
  ROW(training_dataloader, train_dataloader) ROW(tng_dataloader, train_dataloader) \
  ROW(train_loader, train_dataloader) ROW(train_dataloaders, train_dataloader) \
  ROW(trian_dataloader, train_dataloader) ROW(trainDataloader, train_dataloader) \
  ROW(traindataloader, train_dataloader) ROW(validation_dataloader, val_dataloader) ROW(val_loader, val_dataloader) \
  ROW(validation_loader, val_dataloader) ROW(valid_loader, val_dataloader) ROW(val_dataloaders, val_dataloader) \
  ROW(validation_dataloaders, val_dataloader) ROW(valid_dataloader, val_dataloader) \
  ROW(valDataloader, val_dataloader) ROW(valdataloader, val_dataloader) ROW(test_loader, test_dataloader) \
  ROW(test_dataloaders, test_dataloader) ROW(testing_dataloader, test_dataloader) \
  ROW(tets_dataloader, test_dataloader) ROW(testDataloader, test_dataloader) ROW(testdataloader, test_dataloader) \
  ROW(predict_loader, predict_dataloader) ROW(predict_dataloaders, predict_dataloader) \
  ROW(prediction_dataloader, predict_dataloader) ROW(perdict_dataloader, predict_dataloader) \
  ROW(predictDataloader, predict_dataloader) ROW(predictdataloader, predict_dataloader)

// Names that look like functions of a loader; only loaders are checked for them.
#define FULGURITE_NEAR_MISSES_OF_LOADERS(ROW) \
  ROW(set_epochs, "set_epoch") ROW(set_epcoh, "set_epoch") ROW(set_epoc, "set_epoch") ROW(on_set_epoch, "set_epoch") \
  ROW(setEpoch, "set_epoch") ROW(setepoch, "set_epoch") ROW(on_in_order, "in_order") ROW(inOrder, "in_order") \
  ROW(inorder, "in_order") ROW(on_limit_each, "limit_each") ROW(limitEach, "limit_each") \
  ROW(limiteach, "limit_each") ROW(on_resume_at, "resume_at") ROW(resumeAt, "resume_at") ROW(resumeat, "resume_at") \
  ROW(batches_is_ready, "batch_is_ready") ROW(bacth_is_ready, "batch_is_ready") \
  ROW(on_batch_is_ready, "batch_is_ready") ROW(batchIsReady, "batch_is_ready") ROW(batchis_ready, "batch_is_ready") \
  ROW(batch_isready, "batch_is_ready") ROW(bacth_size, "batch_size") ROW(on_batch_size, "batch_size") \
  ROW(set_batches_size, "set_batch_size") ROW(set_bacth_size, "set_batch_size") \
  ROW(on_set_batch_size, "set_batch_size") ROW(setBatchSize, "set_batch_size") ROW(setbatch_size, "set_batch_size") \
  ROW(set_batchsize, "set_batch_size") ROW(on_shard, "shard")

// Names that look like a callback's functions for files; only callbacks are checked for them.
#define FULGURITE_NEAR_MISSES_OF_CALLBACKS(ROW) \
  ROW(on_state_key, "state_key") ROW(stateKey, "state_key") ROW(statekey, "state_key") \
  ROW(last_chekpoints, "last_checkpoints") ROW(last_checkponts, "last_checkpoints") \
  ROW(on_last_checkpoints, "last_checkpoints") ROW(lastCheckpoints, "last_checkpoints") \
  ROW(lastcheckpoints, "last_checkpoints") ROW(hpc_chekpoints, "hpc_checkpoints") \
  ROW(hpc_checkponts, "hpc_checkpoints") ROW(on_hpc_checkpoints, "hpc_checkpoints") \
  ROW(hpcCheckpoints, "hpc_checkpoints") ROW(hpccheckpoints, "hpc_checkpoints") ROW(on_resumes_hpc, "resumes_hpc") \
  ROW(resumesHpc, "resumes_hpc") ROW(resumeshpc, "resumes_hpc") ROW(on_best_model_path, "best_model_path") \
  ROW(bestModelPath, "best_model_path") ROW(bestmodel_path, "best_model_path") \
  ROW(best_modelpath, "best_model_path") ROW(do_not_contiune, "do_not_continue") \
  ROW(do_not_continu, "do_not_continue") ROW(on_do_not_continue, "do_not_continue") \
  ROW(doNotContinue, "do_not_continue") ROW(donot_continue, "do_not_continue") \
  ROW(do_notcontinue, "do_not_continue") ROW(contiune_in, "continue_in") ROW(continu_in, "continue_in") \
  ROW(on_continue_in, "continue_in") ROW(continueIn, "continue_in") ROW(continuein, "continue_in") \
  ROW(ealier_runs, "earlier_runs") ROW(on_earlier_runs, "earlier_runs") ROW(earlierRuns, "earlier_runs") \
  ROW(earlierruns, "earlier_runs")

// The same for optimizers, schedules and strategies; only classes of that kind are checked.
#define FULGURITE_NEAR_MISSES_OF_OPTIMIZERS(ROW) \
  ROW(ZeroGrad, "zero_grad") ROW(zero_grads, "zero_grad") ROW(zero_gradient, "zero_grad") \
  ROW(zero_gradients, "zero_grad") ROW(zeroGrad, "zero_grad") ROW(zerograd, "zero_grad") ROW(setLr, "set_lr") \
  ROW(setlr, "set_lr") ROW(momemtum, "momentum") ROW(momentun, "momentum") ROW(set_momemtum, "set_momentum") \
  ROW(set_momentun, "set_momentum") ROW(setMomentum, "set_momentum") ROW(setmomentum, "set_momentum") \
  ROW(gradients_are_finite, "gradients_finite") ROW(gradientsFinite, "gradients_finite") \
  ROW(gradientsfinite, "gradients_finite") ROW(setReceived, "set_received") ROW(setreceived, "set_received")

#define FULGURITE_NEAR_MISSES_OF_SCHEDULES(ROW) \
  ROW(observes, "observe") ROW(obesrve, "observe") ROW(move_momentum, "moves_momentum") \
  ROW(moves_momemtum, "moves_momentum") ROW(moves_momentun, "moves_momentum") ROW(movesMomentum, "moves_momentum") \
  ROW(movesmomentum, "moves_momentum")

#define FULGURITE_NEAR_MISSES_OF_STRATEGIES(ROW) \
  ROW(isOnGpu, "is_on_gpu") ROW(ison_gpu, "is_on_gpu") ROW(is_ongpu, "is_on_gpu") \
  ROW(reduceInPlace, "reduce_in_place") ROW(reducein_place, "reduce_in_place") \
  ROW(reduce_inplace, "reduce_in_place") ROW(reduceGradients, "reduce_gradients") \
  ROW(reducegradients, "reduce_gradients") ROW(matmulScope, "matmul_scope") ROW(matmulscope, "matmul_scope") \
  ROW(shareState, "share_state") ROW(sharestate, "share_state") ROW(wholeState, "whole_state") \
  ROW(wholestate, "whole_state") ROW(shareStatistics, "share_statistics") ROW(sharestatistics, "share_statistics")
// clang-format on
