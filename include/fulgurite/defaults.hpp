#pragma once
// fulgurite/trainer.hpp with the defaults of make_trainer:
//
//     auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 10});
//
// has SingleDevice{automatic}, Float32{}, Automatic{}, ProgressBar{}, ModelSummary{}, CSVLogger{}, ModelCheckpoint{}
// and ResultsTable{}. NoDefaults{} leaves out the last five. No header of the library includes this one.

#include <fulgurite/defaults/callbacks.hpp>
#include <fulgurite/torch/device/default_strategy.hpp>
#include <fulgurite/trainer.hpp>
