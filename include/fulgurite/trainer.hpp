#pragma once
// What a small program needs: models and their metrics, policies, make_trainer, one device, LibTorch's optimizers with
// their schedulers. What make_trainer adds is in fulgurite/defaults.hpp, which includes this; with NoDefaults{} and a
// strategy that is named this is enough. Never included by a header of ours. Each callback, logger, loader, schedule
// and optimizer of ours has a header of its own to add, as layers of LibTorch have; fulgurite.hpp has all, and takes
// longer to compile.

#include <fulgurite/loop/trainer.hpp>
#include <fulgurite/policy/policies.hpp>
#include <fulgurite/torch/device/single_device.hpp>
#include <fulgurite/torch/optim/optimizer.hpp>
