#pragma once
// Written by tools/near_misses.py: the names that look like hooks and are not. What each one means is in
// diagnose/near_miss_refusals.hpp.

// clang-format off
#define FULGURITE_NEAR_MISSES(ROW) \
  ROW(training_step_end) ROW(on_train_step_end) ROW(on_training_step_end) ROW(training_end) ROW(on_batch_end) \
  ROW(on_after_optimizer_step) ROW(on_train_end_batch) ROW(on_training_batch_end) ROW(on_trian_batch_end) \
  ROW(on_train_batches_end) ROW(on_train_bacth_end) ROW(on_train_batch_finish) ROW(on_train_batch_finished) \
  ROW(on_train_batch_ended) ROW(on_train_batch_edn) ROW(on_train_batch_ends) ROW(train_batch_end) \
  ROW(on_batch_train_end) ROW(onTrainBatchEnd) ROW(OnTrainBatchEnd) ROW(ontrain_batch_end) ROW(on_trainbatch_end) \
  ROW(on_train_batchend) ROW(validation_step_end) ROW(on_validation_step_end) ROW(on_val_batch_end) \
  ROW(on_valid_batch_end) ROW(on_validate_batch_end) ROW(on_vaildation_batch_end) ROW(on_validaton_batch_end) \
  ROW(on_validation_batches_end) ROW(on_validation_bacth_end) ROW(on_validation_batch_finish) \
  ROW(on_validation_batch_finished) ROW(on_validation_batch_ended) ROW(on_validation_batch_edn) \
  ROW(on_validation_batch_ends) ROW(validation_batch_end) ROW(on_validation_end_batch) ROW(on_batch_validation_end) \
  ROW(onValidationBatchEnd) ROW(OnValidationBatchEnd) ROW(onvalidation_batch_end) ROW(on_validationbatch_end) \
  ROW(on_validation_batchend) ROW(test_step_end) ROW(on_test_step_end) ROW(on_testing_batch_end) \
  ROW(on_tets_batch_end) ROW(on_test_batches_end) ROW(on_test_bacth_end) ROW(on_test_batch_finish) \
  ROW(on_test_batch_finished) ROW(on_test_batch_ended) ROW(on_test_batch_edn) ROW(on_test_batch_ends) \
  ROW(test_batch_end) ROW(on_test_end_batch) ROW(on_batch_test_end) ROW(onTestBatchEnd) ROW(OnTestBatchEnd) \
  ROW(ontest_batch_end) ROW(on_testbatch_end) ROW(on_test_batchend) ROW(predict_step_end) ROW(on_predict_step_end) \
  ROW(on_prediction_batch_end) ROW(on_perdict_batch_end) ROW(on_predict_batches_end) ROW(on_predict_bacth_end) \
  ROW(on_predict_batch_finish) ROW(on_predict_batch_finished) ROW(on_predict_batch_ended) ROW(on_predict_batch_edn) \
  ROW(on_predict_batch_ends) ROW(predict_batch_end) ROW(on_predict_end_batch) ROW(on_batch_predict_end) \
  ROW(onPredictBatchEnd) ROW(OnPredictBatchEnd) ROW(onpredict_batch_end) ROW(on_predictbatch_end) \
  ROW(on_predict_batchend) ROW(training_epoch_end) ROW(on_epoch_end) ROW(on_training_epoch_end) \
  ROW(on_trian_epoch_end) ROW(on_train_epochs_end) ROW(on_train_epcoh_end) ROW(on_train_epoc_end) \
  ROW(on_train_epoch_finish) ROW(on_train_epoch_finished) ROW(on_train_epoch_ended) ROW(on_train_epoch_edn) \
  ROW(on_train_epoch_ends) ROW(train_epoch_end) ROW(on_train_end_epoch) ROW(on_epoch_train_end) ROW(onTrainEpochEnd) \
  ROW(OnTrainEpochEnd) ROW(ontrain_epoch_end) ROW(on_trainepoch_end) ROW(on_train_epochend) ROW(validation_end) \
  ROW(on_val_epoch_end) ROW(on_valid_epoch_end) ROW(on_validate_epoch_end) ROW(on_vaildation_epoch_end) \
  ROW(on_validaton_epoch_end) ROW(on_validation_epochs_end) ROW(on_validation_epcoh_end) ROW(on_validation_epoc_end) \
  ROW(on_validation_epoch_finish) ROW(on_validation_epoch_finished) ROW(on_validation_epoch_ended) \
  ROW(on_validation_epoch_edn) ROW(on_validation_epoch_ends) ROW(validation_epoch_end) ROW(on_validation_end_epoch) \
  ROW(on_epoch_validation_end) ROW(onValidationEpochEnd) ROW(OnValidationEpochEnd) ROW(onvalidation_epoch_end) \
  ROW(on_validationepoch_end) ROW(on_validation_epochend) ROW(test_end) ROW(on_testing_epoch_end) \
  ROW(on_tets_epoch_end) ROW(on_test_epochs_end) ROW(on_test_epcoh_end) ROW(on_test_epoc_end) \
  ROW(on_test_epoch_finish) ROW(on_test_epoch_finished) ROW(on_test_epoch_ended) ROW(on_test_epoch_edn) \
  ROW(on_test_epoch_ends) ROW(test_epoch_end) ROW(on_test_end_epoch) ROW(on_epoch_test_end) ROW(onTestEpochEnd) \
  ROW(OnTestEpochEnd) ROW(ontest_epoch_end) ROW(on_testepoch_end) ROW(on_test_epochend) ROW(on_epoch_start) \
  ROW(on_epoch_begin) ROW(on_training_epoch_start) ROW(on_trian_epoch_start) ROW(on_train_epochs_start) \
  ROW(on_train_epcoh_start) ROW(on_train_epoc_start) ROW(on_train_epoch_begin) ROW(on_train_epoch_started) \
  ROW(on_train_epoch_strat) ROW(on_train_epoch_starts) ROW(train_epoch_start) ROW(on_train_start_epoch) \
  ROW(on_epoch_train_start) ROW(onTrainEpochStart) ROW(OnTrainEpochStart) ROW(ontrain_epoch_start) \
  ROW(on_trainepoch_start) ROW(on_train_epochstart) ROW(on_batch_start) ROW(on_batch_begin) ROW(on_train_start_batch) \
  ROW(on_training_batch_start) ROW(on_trian_batch_start) ROW(on_train_batches_start) ROW(on_train_bacth_start) \
  ROW(on_train_batch_begin) ROW(on_train_batch_started) ROW(on_train_batch_strat) ROW(on_train_batch_starts) \
  ROW(train_batch_start) ROW(on_batch_train_start) ROW(onTrainBatchStart) ROW(OnTrainBatchStart) \
  ROW(ontrain_batch_start) ROW(on_trainbatch_start) ROW(on_train_batchstart) ROW(on_init_start) ROW(on_init_end) \
  ROW(on_before_accelerator_backend_setup) ROW(on_setup) ROW(on_load_start) ROW(on_pretrain_routine_start) \
  ROW(on_pretrain_routine_end) ROW(on_post_move_to_device) ROW(on_fit_begin) ROW(on_fit_started) ROW(on_fit_strat) \
  ROW(on_fit_starts) ROW(onFitStart) ROW(OnFitStart) ROW(onfit_start) ROW(on_fitstart) \
  ROW(on_configure_sharded_model) ROW(configure_sharded_model) ROW(configre_model) ROW(confgure_model) \
  ROW(on_configure_model) ROW(configureModel) ROW(configuremodel) ROW(on_before_optimizer_zero_grad) \
  ROW(on_befor_zero_grad) ROW(on_before_zero_grads) ROW(on_before_zero_gradient) ROW(on_before_zero_gradients) \
  ROW(before_zero_grad) ROW(onBeforeZeroGrad) ROW(OnBeforeZeroGrad) ROW(onbefore_zero_grad) ROW(on_beforezero_grad) \
  ROW(on_before_zerograd) ROW(clip_gradients) ROW(configre_gradient_clipping) ROW(confgure_gradient_clipping) \
  ROW(configure_grad_clipping) ROW(configure_gradients_clipping) ROW(configure_gradiant_clipping) \
  ROW(on_configure_gradient_clipping) ROW(configureGradientClipping) ROW(configuregradient_clipping) \
  ROW(configure_gradientclipping) ROW(on_keyboard_interrupt) ROW(on_excpetion) ROW(on_exceptions) ROW(onException) \
  ROW(OnException) ROW(onexception) ROW(on_save_checkpoint) ROW(on_load_checkpoint) ROW(on_hpc_save) ROW(on_hpc_load) \
  ROW(configure_callbacks) ROW(configure_apex) ROW(configure_ddp) ROW(init_ddp_connection) \
  ROW(configure_sync_batchnorm) ROW(get_progress_bar_dict) ROW(get_tqdm_dict) ROW(on_tng_metrics) ROW(log_grad_norm) \
  ROW(log_hyperparameters) ROW(log_hparams) ROW(on_log_hyperparams) ROW(logHyperparams) ROW(loghyperparams) \
  ROW(train_step) ROW(trainig_step) ROW(traning_step) ROW(on_training_step) ROW(trainingStep) ROW(trainingstep) \
  ROW(val_step) ROW(validate_step) ROW(eval_step) ROW(valid_step) ROW(vaildation_step) ROW(validaton_step) \
  ROW(on_validation_step) ROW(validationStep) ROW(validationstep) ROW(prediction_step) ROW(perdict_step) \
  ROW(on_predict_step) ROW(predictStep) ROW(predictstep) ROW(on_reset_train_dataloader) ROW(on_train_dataloader) \
  ROW(on_reset_val_dataloader) ROW(on_val_dataloader) ROW(on_reset_test_dataloader) ROW(on_test_dataloader) \
  ROW(on_reset_predict_dataloader) ROW(on_predict_dataloader) ROW(on_teardown) ROW(on_fit_finish) \
  ROW(on_fit_finished) ROW(on_fit_ended) ROW(on_fit_edn) ROW(on_fit_ends) ROW(onFitEnd) ROW(OnFitEnd) ROW(onfit_end) \
  ROW(on_fitend) ROW(on_santiy_check_start) ROW(on_sanity_check_begin) ROW(on_sanity_check_started) \
  ROW(on_sanity_check_strat) ROW(on_sanity_check_starts) ROW(sanity_check_start) ROW(onSanityCheckStart) \
  ROW(OnSanityCheckStart) ROW(onsanity_check_start) ROW(on_sanitycheck_start) ROW(on_sanity_checkstart) \
  ROW(on_santiy_check_end) ROW(on_sanity_check_finish) ROW(on_sanity_check_finished) ROW(on_sanity_check_ended) \
  ROW(on_sanity_check_edn) ROW(on_sanity_check_ends) ROW(sanity_check_end) ROW(onSanityCheckEnd) \
  ROW(OnSanityCheckEnd) ROW(onsanity_check_end) ROW(on_sanitycheck_end) ROW(on_sanity_checkend) \
  ROW(on_training_start) ROW(on_trian_start) ROW(on_train_begin) ROW(on_train_started) ROW(on_train_strat) \
  ROW(on_train_starts) ROW(onTrainStart) ROW(OnTrainStart) ROW(ontrain_start) ROW(on_trainstart) ROW(on_training_end) \
  ROW(on_trian_end) ROW(on_train_finish) ROW(on_train_finished) ROW(on_train_ended) ROW(on_train_edn) \
  ROW(on_train_ends) ROW(onTrainEnd) ROW(OnTrainEnd) ROW(ontrain_end) ROW(on_trainend) ROW(on_befor_backward) \
  ROW(on_before_bakward) ROW(on_before_backwards) ROW(before_backward) ROW(onBeforeBackward) ROW(OnBeforeBackward) \
  ROW(onbefore_backward) ROW(on_beforebackward) ROW(on_after_bakward) ROW(on_after_backwards) ROW(after_backward) \
  ROW(onAfterBackward) ROW(OnAfterBackward) ROW(onafter_backward) ROW(on_afterbackward) ROW(on_befor_optimizer_step) \
  ROW(on_before_optimiser_step) ROW(on_before_optmizer_step) ROW(on_before_optimzer_step) \
  ROW(on_before_optimizer_steps) ROW(before_optimizer_step) ROW(onBeforeOptimizerStep) ROW(OnBeforeOptimizerStep) \
  ROW(onbefore_optimizer_step) ROW(on_beforeoptimizer_step) ROW(on_before_optimizerstep) ROW(on_val_start) \
  ROW(on_valid_start) ROW(on_validate_start) ROW(on_vaildation_start) ROW(on_validaton_start) \
  ROW(on_validation_begin) ROW(on_validation_started) ROW(on_validation_strat) ROW(on_validation_starts) \
  ROW(onValidationStart) ROW(OnValidationStart) ROW(onvalidation_start) ROW(on_validationstart) ROW(on_val_end) \
  ROW(on_valid_end) ROW(on_validate_end) ROW(on_vaildation_end) ROW(on_validaton_end) ROW(on_validation_finish) \
  ROW(on_validation_finished) ROW(on_validation_ended) ROW(on_validation_edn) ROW(on_validation_ends) \
  ROW(onValidationEnd) ROW(OnValidationEnd) ROW(onvalidation_end) ROW(on_validationend) ROW(on_val_epoch_start) \
  ROW(on_valid_epoch_start) ROW(on_validate_epoch_start) ROW(on_vaildation_epoch_start) ROW(on_validaton_epoch_start) \
  ROW(on_validation_epochs_start) ROW(on_validation_epcoh_start) ROW(on_validation_epoc_start) \
  ROW(on_validation_epoch_begin) ROW(on_validation_epoch_started) ROW(on_validation_epoch_strat) \
  ROW(on_validation_epoch_starts) ROW(validation_epoch_start) ROW(on_validation_start_epoch) \
  ROW(on_epoch_validation_start) ROW(onValidationEpochStart) ROW(OnValidationEpochStart) \
  ROW(onvalidation_epoch_start) ROW(on_validationepoch_start) ROW(on_validation_epochstart) ROW(on_val_batch_start) \
  ROW(on_valid_batch_start) ROW(on_validate_batch_start) ROW(on_vaildation_batch_start) ROW(on_validaton_batch_start) \
  ROW(on_validation_batches_start) ROW(on_validation_bacth_start) ROW(on_validation_batch_begin) \
  ROW(on_validation_batch_started) ROW(on_validation_batch_strat) ROW(on_validation_batch_starts) \
  ROW(validation_batch_start) ROW(on_validation_start_batch) ROW(on_batch_validation_start) \
  ROW(onValidationBatchStart) ROW(OnValidationBatchStart) ROW(onvalidation_batch_start) ROW(on_validationbatch_start) \
  ROW(on_validation_batchstart) ROW(on_testing_start) ROW(on_tets_start) ROW(on_test_begin) ROW(on_test_started) \
  ROW(on_test_strat) ROW(on_test_starts) ROW(onTestStart) ROW(OnTestStart) ROW(ontest_start) ROW(on_teststart) \
  ROW(on_testing_end) ROW(on_tets_end) ROW(on_test_finish) ROW(on_test_finished) ROW(on_test_ended) ROW(on_test_edn) \
  ROW(on_test_ends) ROW(onTestEnd) ROW(OnTestEnd) ROW(ontest_end) ROW(on_testend) ROW(on_testing_epoch_start) \
  ROW(on_tets_epoch_start) ROW(on_test_epochs_start) ROW(on_test_epcoh_start) ROW(on_test_epoc_start) \
  ROW(on_test_epoch_begin) ROW(on_test_epoch_started) ROW(on_test_epoch_strat) ROW(on_test_epoch_starts) \
  ROW(test_epoch_start) ROW(on_test_start_epoch) ROW(on_epoch_test_start) ROW(onTestEpochStart) ROW(OnTestEpochStart) \
  ROW(ontest_epoch_start) ROW(on_testepoch_start) ROW(on_test_epochstart) ROW(on_testing_batch_start) \
  ROW(on_tets_batch_start) ROW(on_test_batches_start) ROW(on_test_bacth_start) ROW(on_test_batch_begin) \
  ROW(on_test_batch_started) ROW(on_test_batch_strat) ROW(on_test_batch_starts) ROW(test_batch_start) \
  ROW(on_test_start_batch) ROW(on_batch_test_start) ROW(onTestBatchStart) ROW(OnTestBatchStart) \
  ROW(ontest_batch_start) ROW(on_testbatch_start) ROW(on_test_batchstart) ROW(on_prediction_start) \
  ROW(on_perdict_start) ROW(on_predict_begin) ROW(on_predict_started) ROW(on_predict_strat) ROW(on_predict_starts) \
  ROW(onPredictStart) ROW(OnPredictStart) ROW(onpredict_start) ROW(on_predictstart) ROW(on_prediction_end) \
  ROW(on_perdict_end) ROW(on_predict_finish) ROW(on_predict_finished) ROW(on_predict_ended) ROW(on_predict_edn) \
  ROW(on_predict_ends) ROW(onPredictEnd) ROW(OnPredictEnd) ROW(onpredict_end) ROW(on_predictend) \
  ROW(on_prediction_epoch_start) ROW(on_perdict_epoch_start) ROW(on_predict_epochs_start) ROW(on_predict_epcoh_start) \
  ROW(on_predict_epoc_start) ROW(on_predict_epoch_begin) ROW(on_predict_epoch_started) ROW(on_predict_epoch_strat) \
  ROW(on_predict_epoch_starts) ROW(predict_epoch_start) ROW(on_predict_start_epoch) ROW(on_epoch_predict_start) \
  ROW(onPredictEpochStart) ROW(OnPredictEpochStart) ROW(onpredict_epoch_start) ROW(on_predictepoch_start) \
  ROW(on_predict_epochstart) ROW(on_prediction_epoch_end) ROW(on_perdict_epoch_end) ROW(on_predict_epochs_end) \
  ROW(on_predict_epcoh_end) ROW(on_predict_epoc_end) ROW(on_predict_epoch_finish) ROW(on_predict_epoch_finished) \
  ROW(on_predict_epoch_ended) ROW(on_predict_epoch_edn) ROW(on_predict_epoch_ends) ROW(predict_epoch_end) \
  ROW(on_predict_end_epoch) ROW(on_epoch_predict_end) ROW(onPredictEpochEnd) ROW(OnPredictEpochEnd) \
  ROW(onpredict_epoch_end) ROW(on_predictepoch_end) ROW(on_predict_epochend) ROW(on_prediction_batch_start) \
  ROW(on_perdict_batch_start) ROW(on_predict_batches_start) ROW(on_predict_bacth_start) ROW(on_predict_batch_begin) \
  ROW(on_predict_batch_started) ROW(on_predict_batch_strat) ROW(on_predict_batch_starts) ROW(predict_batch_start) \
  ROW(on_predict_start_batch) ROW(on_batch_predict_start) ROW(onPredictBatchStart) ROW(OnPredictBatchStart) \
  ROW(onpredict_batch_start) ROW(on_predictbatch_start) ROW(on_predict_batchstart) ROW(bakward) ROW(on_backward) \
  ROW(optimiser_step) ROW(optmizer_step) ROW(optimzer_step) ROW(on_optimizer_step) ROW(optimizerStep) \
  ROW(optimizerstep) ROW(optimiser_zero_grad) ROW(optmizer_zero_grad) ROW(optimzer_zero_grad) \
  ROW(optimizer_zero_grads) ROW(optimizer_zero_gradient) ROW(optimizer_zero_gradients) ROW(on_optimizer_zero_grad) \
  ROW(optimizerZeroGrad) ROW(optimizerzero_grad) ROW(optimizer_zerograd) ROW(on_lr_scheduler_step) \
  ROW(lrSchedulerStep) ROW(lrscheduler_step) ROW(lr_schedulerstep) ROW(tbptt_split_batches) ROW(tbptt_split_bacth) \
  ROW(on_tbptt_split_batch) ROW(tbpttSplitBatch) ROW(tbpttsplit_batch) ROW(tbptt_splitbatch) \
  ROW(on_val_model_zero_grad) ROW(on_valid_model_zero_grad) ROW(on_validate_model_zero_grad) \
  ROW(on_vaildation_model_zero_grad) ROW(on_validaton_model_zero_grad) ROW(on_validation_model_zero_grads) \
  ROW(on_validation_model_zero_gradient) ROW(on_validation_model_zero_gradients) ROW(validation_model_zero_grad) \
  ROW(onValidationModelZeroGrad) ROW(OnValidationModelZeroGrad) ROW(onvalidation_model_zero_grad) \
  ROW(on_validationmodel_zero_grad) ROW(on_validation_modelzero_grad) ROW(on_validation_model_zerograd) \
  ROW(on_val_model_eval) ROW(on_valid_model_eval) ROW(on_validate_model_eval) ROW(on_vaildation_model_eval) \
  ROW(on_validaton_model_eval) ROW(on_validation_model_evals) ROW(validation_model_eval) ROW(onValidationModelEval) \
  ROW(OnValidationModelEval) ROW(onvalidation_model_eval) ROW(on_validationmodel_eval) ROW(on_validation_modeleval) \
  ROW(on_val_model_train) ROW(on_valid_model_train) ROW(on_validate_model_train) ROW(on_vaildation_model_train) \
  ROW(on_validaton_model_train) ROW(on_validation_model_training) ROW(on_validation_model_trian) \
  ROW(on_validation_model_trains) ROW(validation_model_train) ROW(onValidationModelTrain) ROW(OnValidationModelTrain) \
  ROW(onvalidation_model_train) ROW(on_validationmodel_train) ROW(on_validation_modeltrain) \
  ROW(on_testing_model_eval) ROW(on_tets_model_eval) ROW(on_test_model_evals) ROW(test_model_eval) \
  ROW(onTestModelEval) ROW(OnTestModelEval) ROW(ontest_model_eval) ROW(on_testmodel_eval) ROW(on_test_modeleval) \
  ROW(on_testing_model_train) ROW(on_tets_model_train) ROW(on_test_model_training) ROW(on_test_model_trian) \
  ROW(on_test_model_trains) ROW(test_model_train) ROW(onTestModelTrain) ROW(OnTestModelTrain) ROW(ontest_model_train) \
  ROW(on_testmodel_train) ROW(on_test_modeltrain) ROW(on_prediction_model_eval) ROW(on_perdict_model_eval) \
  ROW(on_predict_model_evals) ROW(predict_model_eval) ROW(onPredictModelEval) ROW(OnPredictModelEval) \
  ROW(onpredict_model_eval) ROW(on_predictmodel_eval) ROW(on_predict_modeleval) ROW(perpare_data) \
  ROW(on_prepare_data) ROW(prepareData) ROW(preparedata) ROW(on_befor_batch_transfer) ROW(on_before_batches_transfer) \
  ROW(on_before_bacth_transfer) ROW(on_before_batch_tranfer) ROW(on_before_batch_transfers) \
  ROW(before_batch_transfer) ROW(onBeforeBatchTransfer) ROW(OnBeforeBatchTransfer) ROW(onbefore_batch_transfer) \
  ROW(on_beforebatch_transfer) ROW(on_before_batchtransfer) ROW(tranfer_batch_to_device) \
  ROW(transfer_batches_to_device) ROW(transfer_bacth_to_device) ROW(on_transfer_batch_to_device) \
  ROW(transferBatchToDevice) ROW(transferbatch_to_device) ROW(transfer_batchto_device) ROW(transfer_batch_todevice) \
  ROW(on_after_batches_transfer) ROW(on_after_bacth_transfer) ROW(on_after_batch_tranfer) \
  ROW(on_after_batch_transfers) ROW(after_batch_transfer) ROW(onAfterBatchTransfer) ROW(OnAfterBatchTransfer) \
  ROW(onafter_batch_transfer) ROW(on_afterbatch_transfer) ROW(on_after_batchtransfer) ROW(on_log_metrics) \
  ROW(logMetrics) ROW(logmetrics) ROW(finalise) ROW(on_finalize) ROW(befor_save) ROW(before_saving) \
  ROW(on_before_save) ROW(beforeSave) ROW(beforesave) ROW(after_saving) ROW(on_after_save) ROW(afterSave) \
  ROW(aftersave) ROW(befor_statistics_pass) ROW(on_before_statistics_pass) ROW(beforeStatisticsPass) \
  ROW(beforestatistics_pass) ROW(before_statisticspass) ROW(on_limits_time) ROW(limitsTime) ROW(limitstime) \
  ROW(on_profile_action) ROW(profileAction) ROW(profileaction) ROW(finish_if_asked) ROW(finished_if_asked) \
  ROW(ended_if_asked) ROW(edn_if_asked) ROW(on_end_if_asked) ROW(endIfAsked) ROW(endif_asked) ROW(end_ifasked) \
  ROW(on_hyperparameters) ROW(pre_bakward) ROW(on_pre_backward) ROW(preBackward) ROW(prebackward) ROW(post_bakward) \
  ROW(on_post_backward) ROW(postBackward) ROW(postbackward) ROW(on_process_dataloader) ROW(processDataloader) \
  ROW(processdataloader) ROW(on_no_sync) ROW(noSync) ROW(nosync) ROW(on_account) ROW(testing_step) ROW(tets_step) \
  ROW(on_test_step) ROW(testStep) ROW(teststep) ROW(configre_optimizers) ROW(confgure_optimizers) \
  ROW(configure_optimisers) ROW(configure_optimizer) ROW(configure_optmizers) ROW(configure_optimzers) \
  ROW(on_configure_optimizers) ROW(configureOptimizers) ROW(configureoptimizers)

// The same for the loaders of a data module, each with the name that is meant: a class that has both may use such a
// name for a member.
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
  ROW(set_epochs) ROW(set_epcoh) ROW(set_epoc) ROW(on_set_epoch) ROW(setEpoch) ROW(setepoch) ROW(on_in_order) \
  ROW(inOrder) ROW(inorder) ROW(on_limit_each) ROW(limitEach) ROW(limiteach) ROW(on_resume_at) ROW(resumeAt) \
  ROW(resumeat) ROW(batches_is_ready) ROW(bacth_is_ready) ROW(on_batch_is_ready) ROW(batchIsReady) ROW(batchis_ready) \
  ROW(batch_isready) ROW(bacth_size) ROW(on_batch_size) ROW(set_batches_size) ROW(set_bacth_size) \
  ROW(on_set_batch_size) ROW(setBatchSize) ROW(setbatch_size) ROW(set_batchsize) ROW(on_shard)

// Names that look like a callback's functions for files; only callbacks are checked for them.
#define FULGURITE_NEAR_MISSES_OF_CALLBACKS(ROW) \
  ROW(on_state_key) ROW(stateKey) ROW(statekey) ROW(last_chekpoints) ROW(last_checkponts) ROW(on_last_checkpoints) \
  ROW(lastCheckpoints) ROW(lastcheckpoints) ROW(hpc_chekpoints) ROW(hpc_checkponts) ROW(on_hpc_checkpoints) \
  ROW(hpcCheckpoints) ROW(hpccheckpoints) ROW(on_resumes_hpc) ROW(resumesHpc) ROW(resumeshpc) ROW(on_best_model_path) \
  ROW(bestModelPath) ROW(bestmodel_path) ROW(best_modelpath) ROW(do_not_contiune) ROW(do_not_continu) \
  ROW(on_do_not_continue) ROW(doNotContinue) ROW(donot_continue) ROW(do_notcontinue) ROW(contiune_in) ROW(continu_in) \
  ROW(on_continue_in) ROW(continueIn) ROW(continuein) ROW(ealier_runs) ROW(on_earlier_runs) ROW(earlierRuns) \
  ROW(earlierruns)

// The same for optimizers, schedules and strategies; only classes of that kind are checked.
#define FULGURITE_NEAR_MISSES_OF_OPTIMIZERS(ROW) \
  ROW(ZeroGrad) ROW(zero_grads) ROW(zero_gradient) ROW(zero_gradients) ROW(zeroGrad) ROW(zerograd) ROW(setLr) \
  ROW(setlr) ROW(momemtum) ROW(momentun) ROW(set_momemtum) ROW(set_momentun) ROW(setMomentum) ROW(setmomentum) \
  ROW(gradients_are_finite) ROW(gradientsFinite) ROW(gradientsfinite) ROW(setReceived) ROW(setreceived)

#define FULGURITE_NEAR_MISSES_OF_SCHEDULES(ROW) \
  ROW(observes) ROW(obesrve) ROW(move_momentum) ROW(moves_momemtum) ROW(moves_momentun) ROW(movesMomentum) \
  ROW(movesmomentum)

#define FULGURITE_NEAR_MISSES_OF_STRATEGIES(ROW) \
  ROW(isOnGpu) ROW(ison_gpu) ROW(is_ongpu) ROW(reduceInPlace) ROW(reducein_place) ROW(reduce_inplace) \
  ROW(reduceGradients) ROW(reducegradients) ROW(matmulScope) ROW(matmulscope) ROW(shareState) ROW(sharestate) \
  ROW(wholeState) ROW(wholestate) ROW(shareStatistics) ROW(sharestatistics)
// clang-format on
