#pragma once
// The bodies of torch/export/scripted.hpp.

#include <exception>
#include <utility>

#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/torch/export/scripted.hpp>

namespace fulgurite {

namespace libtorch {

FULGURITE_BODY torch::jit::Module loaded_script(std::filesystem::path const& file, at::Device device) {
  try {
    return torch::jit::load(file.string(), device);
  } catch (std::exception const& error) {
    std::string const said = error.what();
    std::throw_with_nested(
        Error("fulgurite.scripted.file",
              "cannot load " + file.string() + " as TorchScript: " + said.substr(0, said.find('\n')) +
                  "; give a file of export_torchscript or of Python's torch.jit.save (weights alone, "
                  "as of torch.save(model.state_dict(), ...), are loaded by load_weights)"));
  }
}

}  // namespace libtorch

FULGURITE_BODY Scripted::Scripted(std::filesystem::path const& file, at::Device device)
    : Scripted(libtorch::loaded_script(file, device)) {}

FULGURITE_BODY Scripted::Scripted(torch::jit::Module module) : module_(std::move(module)) {
  Parts parts;
  take(parts);
}

FULGURITE_BODY Scripted::Scripted(torch::jit::Module module, Parts& parts) : module_(std::move(module)) { take(parts); }

FULGURITE_BODY void Scripted::take(Parts& parts) {
  // Before there are parts, each of which has a flag of its own.
  torch::nn::Module::train(module_.hasattr("training") && module_.is_training());
  for (auto const& each : module_.named_parameters(false))
    register_parameter(each.name, each.value, each.value.requires_grad());
  for (auto const& each : module_.named_buffers(false)) register_buffer(each.name, each.value);
  for (auto const& each : module_.named_children()) {
    auto& part = parts[each.value._ivalue().get()];
    if (!part) part = std::shared_ptr<Scripted>(new Scripted(each.value, parts));
    register_module(each.name, part);
  }
}

FULGURITE_BODY c10::IValue Scripted::call(std::vector<c10::IValue> inputs, std::string const& method) {
  // LibTorch would first observe some calls and then run other code for the same operators, whose last bits differ: a
  // run that is resumed would not give the numbers of one that was not interrupted.
  torch::jit::GraphOptimizerEnabledGuard const as_written(false);
  return module_.get_method(method)(std::move(inputs));
}

FULGURITE_BODY at::Tensor Scripted::tensor(c10::IValue const& result) {
  if (result.isTensor()) return result.toTensor();
  throw Error("fulgurite.scripted.result", "forward of this TorchScript returns a " + result.tagKind() +
                                               ", not a tensor: use call({...}), whose result "
                                               "has toTuple() and the like");
}

FULGURITE_BODY void Scripted::train(bool on) {
  if (module_.hasattr("training")) module_.setattr("training", on);
  torch::nn::Module::train(on);
}

}  // namespace fulgurite
