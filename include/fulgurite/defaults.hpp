#pragma once
// fulgurite/trainer.hpp and what make_trainer adds to what it is told:
//   auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
// has SingleDevice{automatic}, Float32{}, Automatic{}, ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint{}
// and ResultsTable{}. NoDefaults{} is for a program without the last five. Never included by a header of ours.

#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/torch/device/default_strategy.hpp>
#include <fulgurite/trainer.hpp>
