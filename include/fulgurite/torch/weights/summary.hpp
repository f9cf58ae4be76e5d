#pragma once
// The rows of a model summary, read from a torch::nn::Module.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/util/Type.h>
#include <torch/nn/module.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/report/terminal.hpp>
#include <fulgurite/torch/data/walk.hpp>
#include <fulgurite/torch/device/rng.hpp>
#include <fulgurite/torch/device/value.hpp>

namespace fulgurite::libtorch {

// The class of a module whose type only the running program knows, as people write it: "Linear".

/// Without namespaces in front, with template arguments, and without the Impl that module holders add:
/// "torch::nn::LinearImpl" is "Linear".
template <class T>
std::string class_name(T const& object) {
  std::string name = c10::demangle(typeid(object).name());
  if (auto const colons = name.substr(0, name.find('<')).rfind("::"); colons != std::string::npos)
    name.erase(0, colons + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

// How many floating-point operations an operator takes: those of matrix products and convolutions, a multiplication and
// an addition being two.

/// f(tensor) for the defined tensors among the inputs or outputs of an operator, in lists, too.
template <class Values, class F>
void each_tensor_in(Values const& values, F&& f) {
  for (c10::IValue const& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && value.toTensor().has_storage()) f(value.toTensor());
    } else if (value.isTensorList()) {
      for (at::Tensor const& tensor : value.toTensorVector())
        if (tensor.defined() && tensor.has_storage()) f(tensor);
    }
  }
}

/// An operator's share that is counted: known at once, or for each element of its output.
struct Operation {
  enum Kind : std::uint8_t { none, known, for_each_output } kind = none;
  std::int64_t count = 0;

  std::int64_t flops(std::span<std::int64_t const> out) const {
    std::int64_t all = kind == none ? 0 : count;
    if (kind == for_each_output)
      for (auto const size : out) all *= size;
    return all;
  }
};

/// The definitions are those of PyTorch's FlopCounterMode; recurrent layers count their weights once a time step.
FULGURITE_BULK Operation operation_of(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) {
  constexpr std::string_view library = "aten::";
  if (!name.starts_with(library)) return {};
  name.remove_prefix(library.size());
  auto const sizes = [&](std::size_t i) {
    return i < inputs.size() && inputs[i].isTensor() && inputs[i].toTensor().defined() ? inputs[i].toTensor().sizes()
                                                                                       : at::IntArrayRef();
  };
  auto const product = [](at::IntArrayRef all, std::size_t from = 0) {
    std::int64_t made = 1;
    for (std::size_t i = from; i < all.size(); ++i) made *= all[i];
    return made;
  };
  bool const adds = name == "addmm" || name == "baddbmm";
  if (adds || name == "mm" || name == "bmm") {
    auto const left = sizes(adds ? 1 : 0), right = sizes(adds ? 2 : 1);
    if (left.empty() || right.empty()) return {};
    return {Operation::known, 2 * product(left) * right.back()};
  }
  if (name == "convolution" || name == "convolution_overrideable") {
    auto const input = sizes(0), weight = sizes(1);
    bool const transposed = inputs.size() > 6 && inputs[6].isBool() && inputs[6].toBool();
    if (transposed) return {Operation::known, 2 * product(input) * product(weight, 1)};
    return {Operation::for_each_output, 2 * product(weight, 1)};
  }
  if (name == "scaled_dot_product_attention") {
    auto const query = sizes(0), key = sizes(1), value = sizes(2);
    if (query.size() < 2 || key.size() < 2 || value.empty()) return {};
    return {Operation::known, 2 * product(query) / query.back() * key[key.size() - 2] * (query.back() + value.back())};
  }
  if (name == "lstm" || name == "gru" || name == "rnn_tanh" || name == "rnn_relu") {
    auto const input = sizes(0);
    if (input.empty() || input.back() == 0) return {};
    std::int64_t weights = 0;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].isTensorList())
        for (at::Tensor const& tensor : inputs[i].toTensorVector())
          if (tensor.defined() && tensor.dim() == 2) weights += tensor.numel();
    return {Operation::known, 2 * product(input) / input.back() * weights};
  }
  return {};
}

}  // namespace fulgurite::libtorch

namespace fulgurite {

// Modules in C++ have no hooks, so a module of your own says itself what went in and out.

namespace libtorch {

FULGURITE_COLD std::string sizes_text(at::IntArrayRef sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i != sizes.size(); ++i) (text += i == 0 ? "" : ", ") += std::to_string(sizes[i]);
  return text + "]";
}
/// The sizes of all tensors in some values.
template <class... Ts>
std::string all_sizes(Ts const&... values) {
  std::string text;
  auto const add = [&](at::Tensor const& tensor) {
    if (!text.empty()) text += ", ";
    text += sizes_text(tensor.sizes());
  };
  (each_tensor(values, add), ...);
  return text;
}

/// Who wants to know, in this thread.
class SizeListener {
 public:
  virtual void hear(torch::nn::Module const& module, std::string in, std::string out) = 0;
  static SizeListener*& current() {
    static thread_local SizeListener* one = nullptr;
    return one;
  }

 protected:
  ~SizeListener() = default;
};

}  // namespace libtorch

/// In `forward` of a module of your own, so that the model's summary has its sizes, which are a `?` without:
///   torch::Tensor forward(torch::Tensor x) { return fulgurite::tell_sizes(*this, body->forward(x), x); }
/// Returns `out`. While no summary is made it looks at a pointer, and does nothing else.
template <class Out, class... In>
Out tell_sizes(torch::nn::Module const& module, Out out, In const&... in) {
  if (auto* const listener = libtorch::SizeListener::current()) [[unlikely]]
    listener->hear(module, libtorch::all_sizes(in...), libtorch::all_sizes(out));
  return out;
}

}  // namespace fulgurite

namespace fulgurite::libtorch {

// Watches the operators that a model runs, and tells which of its modules they belong to, what went in and out, and how
// many operations the matrix products among them took.

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

// Runs a model once with its example input, for the sizes and operations in its summary, and leaves no trace.

/// The model has `example_input_array`, a value or a function, for `forward`.
template <class Model>
concept HasExample = std::derived_from<Model, torch::nn::Module> &&
                     (requires(Model& model) { model.example_input_array(); } || (requires(Model& model) {
                        model.example_input_array;
                      } && !std::is_member_function_pointer_v<decltype(&Model::example_input_array)>));

/// Modes and buffers of a model, and random numbers, put back when this ends. The model is in eval mode meanwhile.
class LeavesNoTrace {
 public:
  explicit LeavesNoTrace(torch::nn::Module& model) : model_(model), was_training_(model.is_training()) {
    for (auto const& module : model.modules(false)) modes_.emplace_back(module.get(), module->is_training());
    for (auto const& buffer : model.buffers())
      if (buffer.defined()) buffers_.emplace_back(buffer, buffer.clone());
    model.eval();
  }
  ~LeavesNoTrace() {
    model_.train(was_training_);
    for (auto const& [module, training] : modes_)
      module->train(training);  // from the outside in: each sets those below
    for (auto& [buffer, before] : buffers_) buffer.copy_(before);
    random_.restore();
  }
  LeavesNoTrace(LeavesNoTrace const&) = delete;
  LeavesNoTrace& operator=(LeavesNoTrace const&) = delete;

 private:
  RngState random_;
  torch::NoGradGuard no_grad_;
  torch::nn::Module& model_;
  bool was_training_;
  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

/// A module of LibTorch's own.
inline bool is_builtin(torch::nn::Module const& module) {
  return std::string_view(typeid(module).name()).starts_with("N5torch2nn");
}

/// What is seen of a Sequential: its modules run one after the other. One without parameters, of LibTorch's own, is
/// known by the operator that is called as it is: MaxPool2d by max_pool2d.
class FollowedSequential {
 public:
  FollowedSequential(std::vector<SeenModule>& modules, std::vector<SeenOperator> const& operators)
      : modules_(modules), operators_(operators) {}

  FULGURITE_COLD void follow(SeenModule& whole) {
    std::vector<SeenModule*> parts;
    for (auto const& child : whole.module->named_children())
      parts.push_back(&*std::ranges::find(modules_, whole.name + "." + child.key(), &SeenModule::name));
    auto const anchor = std::ranges::find_if(parts, [&](auto* part) { return first_of(*part) < operators_.size(); });
    if (anchor == parts.end()) return;
    std::size_t at = first_of(**anchor);
    for (auto before = anchor; before != parts.begin() && at > 0;) {
      if (!is_of(operators_[at - 1], **--before)) break;
      take(**before, operators_[--at]);
    }
    Sizes const* last = nullptr;
    for (auto part = anchor; part != parts.end(); ++part) {
      last = nullptr;
      if (auto const own = first_of(**part, at); own < operators_.size()) at = own;
      else if (at < operators_.size() && is_of(operators_[at], **part)) take(**part, operators_[at]);
      else continue;
      ++at;
      last = &(*part)->out;
    }
    whole.in = parts.front()->in;
    if (last != nullptr) whole.out = *last;
  }

 private:
  /// The first operator of a module from `at` on.
  std::size_t first_of(SeenModule const& part, std::size_t at = 0) const {
    auto const module = static_cast<std::size_t>(&part - modules_.data());
    while (at < operators_.size() && operators_[at].module != module) ++at;
    return at;
  }
  FULGURITE_COLD static bool is_of(SeenOperator const& operation, SeenModule const& part) {
    std::string name = part.type;
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return operation.name == name && is_builtin(*part.module);
  }
  static void take(SeenModule& part, SeenOperator const& operation) {
    part.in = operation.in;
    part.out = operation.out;
  }

  std::vector<SeenModule>& modules_;
  std::vector<SeenOperator> const& operators_;
};

/// Sizes and operations for the rows of a summary.
FULGURITE_COLD void add_seen(std::vector<report::ModelRow>& rows, ExampleObserver& observer) {
  auto& modules = observer.modules();
  for (auto& seen : modules) {
    bool const is_one = is_builtin(*seen.module) && seen.module->children().empty();
    if (!is_one) seen.in = seen.out = {};  // what its operators were given need not be what it was given
  }
  for (auto& seen : modules)
    if (seen.type == "Sequential" && is_builtin(*seen.module))
      FollowedSequential(modules, observer.operators()).follow(seen);
  for (auto& row : rows) {
    if (row.name.empty()) continue;
    row.flops = 0;
    for (auto const& seen : modules) {
      if (seen.name == row.name && !seen.in.empty()) row.in = sizes_text(seen.in);
      if (seen.name == row.name && !seen.out.empty()) row.out = sizes_text(seen.out);
      if (seen.name == row.name && seen.told) row.in = seen.told_in, row.out = seen.told_out;
      if (seen.name == row.name || seen.name.starts_with(row.name + ".")) row.flops += seen.flops;
    }
  }
}

/// Runs `forward` with the example, on the model's device and in its type. Error
/// [fulgurite.model.example_input] with what `forward` threw.
template <HasExample Model>
void run_example(Model& model, std::vector<report::ModelRow>& rows) {
  LeavesNoTrace const unchanged(model);
  auto example = [&] {
    if constexpr (requires { model.example_input_array(); }) return model.example_input_array();
    else return model.example_input_array;
  }();
  for (auto const& parameter : model.parameters())
    if (parameter.is_floating_point()) {
      move_in_place(example, parameter.device());
      convert_in_place(example, parameter.scalar_type());
      break;
    }
  rows.front().in = all_sizes(example);
  ExampleObserver observer(model);
  try {
    auto const run = [&](auto&... arguments) { rows.front().out = all_sizes(model.forward(arguments...)); };
    if constexpr (walk::TupleLike<decltype(example)>) std::apply(run, example);
    else run(example);
  } catch (std::exception const& failed) {
    std::throw_with_nested(
        Error("fulgurite.model.example_input", "forward failed with the model's example_input_array of " +
                                                   rows.front().in + ": " + std::string(failed.what()).substr(0, 300) +
                                                   "; give it sizes and a type that forward takes, or remove it"));
  }
  rows.front().flops = observer.flops();
  add_seen(rows, observer);
}

/// The row of one module with all modules below it. A tensor that two modules share counts once.
FULGURITE_COLD report::ModelRow model_row(std::string name, torch::nn::Module const& module) {
  report::ModelRow row{.name = std::move(name), .type = class_name(module)};
  row.training = module.is_training();
  std::unordered_set<void const*> seen;
  auto const is_new = [&](at::Tensor const& tensor) { return seen.insert(tensor.unsafeGetTensorImpl()).second; };
  for (auto const& parameter : module.parameters()) {
    if (!is_new(parameter)) continue;
    row.parameters += parameter.numel();
    if (parameter.requires_grad()) row.trainable += parameter.numel();
    row.bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
  for (auto const& buffer : module.buffers())
    if (is_new(buffer)) row.bytes += static_cast<std::int64_t>(buffer.nbytes());
  return row;
}

FULGURITE_COLD void add_children(std::vector<report::ModelRow>& rows, torch::nn::Module const& module,
                                 std::string const& prefix, int depth) {
  if (depth == 0) return;
  for (auto const& child : module.named_children()) {
    rows.push_back(model_row(prefix + child.key(), *child.value()));
    add_children(rows, *child.value(), prefix + child.key() + '.', depth - 1);
  }
}

/// Marks parameters that a module has together with one above it in the list: tied weights. `rows` are of this model.
FULGURITE_COLD void mark_shared(std::vector<report::ModelRow>& rows, torch::nn::Module const& model) {
  auto const modules = model.named_modules({}, false);
  auto const is_below = [](std::string const& name, std::string const& of) {
    return name == of || name.starts_with(of + ".");
  };
  std::unordered_map<void const*, std::string> first;  // the module that a parameter was met in first
  for (auto const& module : modules)
    for (auto const& parameter : module.value()->parameters(false))
      first.emplace(parameter.unsafeGetTensorImpl(), module.key());
  for (auto& row : rows) {
    if (row.name.empty()) continue;
    std::unordered_set<void const*> seen;
    for (auto const& module : modules) {
      if (!is_below(module.key(), row.name)) continue;
      for (auto const& parameter : module.value()->parameters(false)) {
        auto const& owner = first.at(parameter.unsafeGetTensorImpl());
        if (is_below(owner, row.name) || !seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
        row.shared += parameter.numel();
        if (row.shared_with.empty()) row.shared_with = owner;
      }
    }
  }
}

/// The whole model first, then its modules depth first; a negative depth means all of them.
template <class Model>
std::vector<report::ModelRow> summarize(Model const& model, int max_depth) {
  std::vector<report::ModelRow> rows;
  if constexpr (std::derived_from<Model, torch::nn::Module>) {
    rows.push_back(model_row("", model));
    add_children(rows, model, "", max_depth);
    mark_shared(rows, model);
  } else {
    rows.push_back({.type = class_name(model)});
  }
  return rows;
}

}  // namespace fulgurite::libtorch
