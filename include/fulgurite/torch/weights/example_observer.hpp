#pragma once
// Watches the operators that a model runs, and tells which of its modules they belong to, what went in and out, and how
// many operations the matrix products among them took.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/record_function.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/device/factory_watch.hpp>
#include <fulgurite/torch/weights/class_name.hpp>
#include <fulgurite/torch/weights/operations.hpp>
#include <fulgurite/torch/weights/tell_sizes.hpp>

namespace fulgurite::libtorch {

using Sizes = std::vector<std::int64_t>;

/// What was seen of one module: sizes of its first input and of its last output, and operations of its own operators.
struct SeenModule {
  std::string name, type;
  torch::nn::Module const* module = nullptr;
  Sizes in = {}, out = {};
  std::int64_t flops = 0;
  bool told = false;  ///< by the module itself, see tell_sizes: of its last call
  std::string told_in = {}, told_out = {};
};

/// An operator that no other one called: of a module, or of none that has parameters.
struct SeenOperator {
  std::string name = {};  ///< "maxpool2d", as its module is called
  std::size_t module = static_cast<std::size_t>(-1);
  Sizes in = {}, out = {};
};

/// While it lives, operators of this thread are watched. LibTorch's modules in C++ have no hooks, so an operator is
/// taken for that of the module whose parameters it is given.
class ExampleObserver final : private SizeListener {
 public:
  explicit ExampleObserver(torch::nn::Module const& model) {
    for (auto const& [name, module] : model.named_modules({}, false).pairs()) {
      for (auto const& parameter : module->parameters(false))
        if (parameter.numel() > 0) owners_[parameter.const_data_ptr()].push_back(seen_.size());
      seen_.push_back({.name = name, .type = class_name(*module), .module = module.get()});
    }
    for (auto const& parameter : model.parameters(false))
      if (parameter.numel() > 0) owners_[parameter.const_data_ptr()];
    current() = this;
    SizeListener::current() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&began, &ended)
                                             .needsInputs(true)
                                             .needsOutputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~ExampleObserver() {
    at::removeCallback(handle_);
    current() = nullptr;
    SizeListener::current() = nullptr;
  }
  ExampleObserver(ExampleObserver const&) = delete;
  ExampleObserver& operator=(ExampleObserver const&) = delete;

  std::vector<SeenModule>& modules() { return seen_; }
  /// In the order in which they ran.
  std::vector<SeenOperator> const& operators() const { return operators_; }
  /// Of all operators, those of no module among them.
  std::int64_t flops() const { return flops_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  /// An operator that is running.
  struct Running {
    std::size_t module = none;  ///< the outermost operator with a module's parameters speaks for those inside of it
    std::size_t at = none;      ///< in the list of operators that no other one called
    bool outermost = false;
    bool counted = false;  ///< so those inside of it are not
    Operation operation = {};
  };

  static ExampleObserver*& current() {
    static thread_local ExampleObserver* one = nullptr;
    return one;
  }
  static std::unique_ptr<at::ObserverContext> began(at::RecordFunction const& function) {
    if (current() != nullptr) current()->begin(function);
    return nullptr;
  }
  static void ended(at::RecordFunction const& function, at::ObserverContext*) {
    if (current() != nullptr) current()->end(function);
  }

  FULGURITE_BULK void hear(torch::nn::Module const& module, std::string in, std::string out) override {
    for (auto& seen : seen_)
      if (seen.module == &module) seen.told = true, seen.told_in = in, seen.told_out = out;
  }

  FULGURITE_BULK void begin(at::RecordFunction const& function) {
    std::string_view const name = function.name();
    c10::ArrayRef<c10::IValue const> const inputs = recorded_inputs(function);
    Running now;
    if (!running_.empty()) now.module = running_.back().module;
    bool const inside = !running_.empty() && running_.back().counted;
    if (now.module == none && (now.module = owner(name, inputs)) != none) {
      now.outermost = true;
      auto& in = seen_[now.module].in;
      each_tensor_in(inputs, [&](at::Tensor const& tensor) {
        if (in.empty() && !owners_.contains(tensor.const_data_ptr())) in = tensor.sizes().vec();
      });
    }
    if (running_.empty()) {
      Sizes in;
      each_tensor_in(inputs, [&](at::Tensor const& tensor) {
        if (in.empty() && !owners_.contains(tensor.const_data_ptr())) in = tensor.sizes().vec();
      });
      if (!in.empty()) {  // else it prepares parameters, as the transpose of a weight
        now.at = operators_.size();
        operators_.push_back({plain(name), now.module, std::move(in)});
      }
    }
    if (!inside) now.operation = operation_of(name, inputs);
    now.counted = inside || now.operation.kind != Operation::none;
    running_.push_back(std::move(now));
  }

  FULGURITE_BULK void end(at::RecordFunction const& function) {
    if (running_.empty()) return;  // it had begun before
    auto const now = std::move(running_.back());
    running_.pop_back();
    Sizes out;
    each_tensor_in(function.outputs(), [&](at::Tensor const& tensor) {
      if (out.empty()) out = tensor.sizes().vec();
    });
    std::int64_t const flops = now.operation.flops(out);
    flops_ += flops;
    if (now.at != none) operators_[now.at].out = out;
    if (now.module == none) return;
    seen_[now.module].flops += flops;
    if (now.outermost) seen_[now.module].out = std::move(out);
  }

  /// aten::max_pool2d is maxpool2d.
  FULGURITE_BULK static std::string plain(std::string_view name) {
    if (auto const colons = name.rfind("::"); colons != name.npos) name.remove_prefix(colons + 2);
    std::string made(name);
    std::erase(made, '_');
    return made;
  }

  /// The module most of whose parameters are among the inputs. Of tied weights an embedding has those that are looked
  /// up in.
  FULGURITE_BULK std::size_t owner(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) const {
    std::unordered_map<std::size_t, int> points;
    bool other = false;
    each_tensor_in(inputs, [&](at::Tensor const& tensor) {
      auto const found = owners_.find(tensor.const_data_ptr());
      if (found == owners_.end()) other = true;
      else
        for (auto const module : found->second) points[module] += 2;
    });
    std::size_t best = none;
    bool const looks_up = name.find("embedding") != name.npos;
    for (auto& [module, count] : points) {
      count += seen_[module].type.starts_with("Embedding") == looks_up;
      if (best == none || count > points[best] || (count == points[best] && module < best)) best = module;
    }
    return other ? best : none;
  }

  std::unordered_map<void const*, std::vector<std::size_t>> owners_;
  std::vector<SeenModule> seen_;
  std::vector<SeenOperator> operators_;
  std::vector<Running> running_;
  std::int64_t flops_ = 0;
  at::CallbackHandle handle_ = 0;
};

}  // namespace fulgurite::libtorch
