#pragma once
// The bodies of torch/weights/summary.hpp.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/weights/summary.hpp>

namespace fulgurite::libtorch {

FULGURITE_BULK_BODY std::int64_t Operation::flops(std::span<std::int64_t const> out) const {
  std::int64_t all = kind == none ? 0 : count;
  if (kind == for_each_output)
    for (auto const size : out) all *= size;
  return all;
}

FULGURITE_BULK_BODY Operation operation_of(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) {
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

FULGURITE_BULK_BODY SizeListener*& SizeListener::current() {
  static thread_local SizeListener* one = nullptr;
  return one;
}

// Observes the operators that a model runs, and finds the modules that they belong to, the sizes of their inputs and
// outputs, and the operations of the matrix products among them.

using Sizes = std::vector<std::int64_t>;

/// The observations for one module: sizes of its first input and its last output, and operations of its own operators.
struct SeenModule {
  std::string name, type;
  torch::nn::Module const* module = nullptr;
  Sizes in = {}, out = {};
  std::int64_t flops = 0;
  bool reported = false;  ///< true if the module itself reported the sizes of its last call, see tell_sizes
  std::string reported_in = {}, reported_out = {};
};

/// An operator that no other operator called; it belongs to a module, or to none that has parameters.
struct SeenOperator {
  std::string name = {};  ///< as in the module's name, "maxpool2d"
  std::size_t module = static_cast<std::size_t>(-1);
  Sizes in = {}, out = {};
};

/// Calls `f(tensor)` for the defined tensors in the inputs or outputs of an operator, including those in lists.
void each_tensor_in(auto const& values, auto&& f) {
  for (c10::IValue const& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && value.toTensor().has_storage()) f(value.toTensor());
    } else if (value.isTensorList()) {
      for (at::Tensor const& tensor : value.toTensorVector())
        if (tensor.defined() && tensor.has_storage()) f(tensor);
    }
  }
}

/// While it lives, it observes operators of this thread. LibTorch's modules in C++ have no hooks, so an operator is
/// attributed to the module whose parameters it receives.
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
  /// The operators in the order in which they ran.
  std::vector<SeenOperator> const& operators() const { return operators_; }
  /// The operations of all operators, including those of no module.
  std::int64_t flops() const { return flops_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  /// An operator that is running.
  struct Running {
    std::size_t module = none;  ///< the outermost operator with a module's parameters stands for those inside of it
    std::size_t at = none;      ///< index in the list of operators that no other one called
    bool outermost = false;
    bool counted = false;  ///< counted, so that operators inside of it are not
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

  void report(torch::nn::Module const& module, std::string in, std::string out) override {
    for (auto& seen : seen_)
      if (seen.module == &module) seen.reported = true, seen.reported_in = in, seen.reported_out = out;
  }

  void begin(at::RecordFunction const& function) {
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
      if (!in.empty()) {  // otherwise it prepares parameters, such as the transpose of a weight
        now.at = operators_.size();
        operators_.push_back({plain(name), now.module, std::move(in)});
      }
    }
    if (!inside) now.operation = operation_of(name, inputs);
    now.counted = inside || now.operation.kind != Operation::none;
    running_.push_back(std::move(now));
  }

  void end(at::RecordFunction const& function) {
    if (running_.empty()) return;  // it began before the observation
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

  /// Converts aten::max_pool2d to maxpool2d.
  static std::string plain(std::string_view name) {
    if (auto const colons = name.rfind("::"); colons != name.npos) name.remove_prefix(colons + 2);
    std::string made(name);
    std::erase(made, '_');
    return made;
  }

  /// The module that has the most parameters among the inputs. If weights are tied, an embedding owns those that are
  /// looked up.
  std::size_t owner(std::string_view name, c10::ArrayRef<c10::IValue const> inputs) const {
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

/// True for a module of LibTorch's own, and for those of `modules` that take the place of one.
FULGURITE_BULK_BODY bool is_builtin(torch::nn::Module const& module) {
  std::string_view const name(typeid(module).name());
  return name.starts_with("N5torch2nn") || name.starts_with("N9fulgurite7modules");
}

/// Completes the observations of a Sequential: its modules run one after the other. A LibTorch module without
/// parameters is recognised by the operator with its name: MaxPool2d by max_pool2d.
class FollowedSequential {
 public:
  FollowedSequential(std::vector<SeenModule>& modules, std::vector<SeenOperator> const& operators)
      : modules_(modules), operators_(operators) {}

  void follow(SeenModule& whole) {
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
  /// The first operator of a module at or after `at`.
  std::size_t first_of(SeenModule const& part, std::size_t at = 0) const {
    auto const module = static_cast<std::size_t>(&part - modules_.data());
    while (at < operators_.size() && operators_[at].module != module) ++at;
    return at;
  }
  static bool is_of(SeenOperator const& operation, SeenModule const& part) {
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

/// Adds sizes and operations to the rows of a summary.
FULGURITE_BODY void add_seen(std::vector<report::ModelRow>& rows, ExampleObserver& observer) {
  auto& modules = observer.modules();
  for (auto& seen : modules) {
    bool const is_one = is_builtin(*seen.module) && seen.module->children().empty();
    if (!is_one) seen.in = seen.out = {};  // the inputs of its operators may differ from its own input
  }
  for (auto& seen : modules)
    if (seen.type == "Sequential" && is_builtin(*seen.module))
      FollowedSequential(modules, observer.operators()).follow(seen);
  for (auto& row : rows) {
    if (row.name.empty()) continue;
    row.flops = 0;
    for (auto const& seen : modules) {
      if (seen.name == row.name && !seen.in.empty()) row.in = shape_text(seen.in);
      if (seen.name == row.name && !seen.out.empty()) row.out = shape_text(seen.out);
      if (seen.name == row.name && seen.reported) row.in = seen.reported_in, row.out = seen.reported_out;
      if (seen.name == row.name || seen.name.starts_with(row.name + ".")) row.flops += seen.flops;
    }
  }
}

FULGURITE_BODY void observe_example(torch::nn::Module const& model, std::vector<report::ModelRow>& rows,
                                    FunctionRef<std::string()> forward) {
  ExampleObserver observer(model);
  try {
    rows.front().out = forward();
  } catch (std::exception const& failed) {
    std::throw_with_nested(
        Error("fulgurite.model.example_input", "forward failed with the model's example_input_array of " +
                                                   rows.front().in + ": " + std::string(failed.what()).substr(0, 300) +
                                                   "; give it sizes and a type that forward takes, or remove it"));
  }
  rows.front().flops = observer.flops();
  add_seen(rows, observer);
}

/// The memory of a tensor: that of a sparse one is its indices and its values.
FULGURITE_BODY std::int64_t bytes_of(at::Tensor const& tensor) {
  auto const all = [](auto const&... parts) { return static_cast<std::int64_t>((parts.nbytes() + ...)); };
  auto const layout = tensor.layout();
  if (layout == at::kSparse) return all(tensor._indices(), tensor._values());
  if (layout == at::kSparseCsr || layout == at::kSparseBsr)
    return all(tensor.crow_indices(), tensor.col_indices(), tensor.values());
  if (layout == at::kSparseCsc || layout == at::kSparseBsc)
    return all(tensor.ccol_indices(), tensor.row_indices(), tensor.values());
  return all(tensor);
}

/// The row of one module with all modules below it. A tensor that two modules share counts once.
FULGURITE_BODY report::ModelRow model_row(std::string name, torch::nn::Module const& module) {
  report::ModelRow row{.name = std::move(name), .type = class_name(module)};
  row.training = module.is_training();
  std::unordered_set<void const*> seen;
  auto const is_new = [&](at::Tensor const& tensor) { return seen.insert(tensor.unsafeGetTensorImpl()).second; };
  for (auto const& parameter : module.parameters()) {
    if (!is_new(parameter)) continue;
    row.parameters += parameter.numel();
    if (parameter.requires_grad()) row.trainable += parameter.numel();
    row.bytes += bytes_of(parameter);
  }
  for (auto const& buffer : module.buffers())
    if (is_new(buffer)) row.bytes += bytes_of(buffer);
  return row;
}

FULGURITE_BODY void add_children(std::vector<report::ModelRow>& rows, torch::nn::Module const& module,
                                 std::string const& prefix, int depth) {
  if (depth == 0) return;
  for (auto const& child : module.named_children()) {
    rows.push_back(model_row(prefix + child.key(), *child.value()));
    add_children(rows, *child.value(), prefix + child.key() + '.', depth - 1);
  }
}

/// Marks parameters that a module shares with a module above it in the list: tied weights. `rows` are of this model.
FULGURITE_BODY void mark_shared(std::vector<report::ModelRow>& rows, torch::nn::Module const& model) {
  auto const modules = model.named_modules({}, false);
  auto const is_below = [](std::string const& name, std::string const& of) {
    return name == of || name.starts_with(of + ".");
  };
  std::unordered_map<void const*, std::string> first;  // the module in which a parameter was found first
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

FULGURITE_BODY std::vector<report::ModelRow> module_rows(torch::nn::Module const& model, int max_depth) {
  std::vector<report::ModelRow> rows;
  rows.push_back(model_row("", model));
  add_children(rows, model, "", max_depth);
  mark_shared(rows, model);
  return rows;
}

}  // namespace fulgurite::libtorch
