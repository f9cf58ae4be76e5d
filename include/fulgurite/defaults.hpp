#pragma once
// What a whole program needs that is told nothing but its model and its options:
//   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
// has SingleDevice{automatic}, Float32{}, Automatic{}, ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint{}
// and ResultsTable{}. Never included by a header of ours.

#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/torch/device/default_strategy.hpp>
#include <fulgurite/torch/device/seed.hpp>
#include <fulgurite/trainer.hpp>
