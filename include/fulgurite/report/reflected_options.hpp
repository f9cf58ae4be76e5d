#pragma once
// The trainer's options, reflected: `reflect::text(trainer.options(), TrainerOptions{})` says what was asked for.

#include <fulgurite/loop/options.hpp>
#include <fulgurite/policy/optimization.hpp>
#include <fulgurite/report/options_text.hpp>
#include <fulgurite/report/reflected.hpp>

BOOST_HANA_ADAPT_STRUCT(fulgurite::TrainerOptions, max_epochs, min_epochs, max_steps, min_steps, max_time,
                        limit_train_batches, limit_val_batches, limit_test_batches, limit_predict_batches,
                        val_check_interval, check_val_every_n_epoch, num_sanity_val_steps, log_every_n_steps,
                        fast_dev_run, overfit_batches, reload_dataloaders_every_n_epochs, use_distributed_sampler,
                        inference_mode, non_finite, detect_anomaly, deterministic, benchmark, barebones,
                        default_root_dir, save_in_background, silence, now);
BOOST_HANA_ADAPT_STRUCT(fulgurite::Automatic, accumulate_grad_batches, clip, tbptt);
