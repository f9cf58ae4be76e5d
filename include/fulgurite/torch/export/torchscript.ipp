#pragma once
// The bodies of torch/export/torchscript.hpp.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/core/interned_strings.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/remainder.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/nn/modules/activation.h>

#include <fulgurite/checkpoint/durable_file.hpp>
#include <fulgurite/core/error.hpp>
#include <fulgurite/core/text.hpp>
#include <fulgurite/torch/export/torchscript.hpp>
#include <fulgurite/torch/weights/summary.hpp>

namespace fulgurite::libtorch::script {

namespace jit = torch::jit;
using Tensors = std::vector<at::Tensor>;

// The model as a module of TorchScript: the same tree of modules with the same tensors.

/// Makes the tree. A module or a tensor that the model has under two names is one in the file, too.
class Mirror {
 public:
  explicit Mirror(torch::nn::Module const& model) : whole_(of(model)) {}

  jit::Module& whole() { return whole_; }

  /// Replaces the tensors by copies: a slice of an arena would be written with the whole arena.
  void copy_tensors() {
    std::unordered_map<c10::TensorImpl*, at::Tensor> copies;
    for (auto& [module, name, tensor] : tensors_) {
      auto& copy = copies[tensor.unsafeGetTensorImpl()];
      if (!copy.defined()) copy = tensor.detach().clone().set_requires_grad(tensor.requires_grad());
      module.setattr(name, copy);
    }
  }

 private:
  struct Slot {
    jit::Module module;
    std::string name;
    at::Tensor tensor;
  };

  jit::Module of(torch::nn::Module const& model) {
    if (auto const found = made_.find(&model); found != made_.end()) return found->second;
    jit::Module module(c10::QualifiedName(class_name(model)), unit_, true);
    made_.emplace(&model, module);
    module.register_attribute("training", c10::BoolType::get(), false);
    for (auto const& each : model.named_parameters(false)) add(module, each.key(), each.value(), false);
    for (auto const& each : model.named_buffers(false)) add(module, each.key(), each.value(), true);
    for (auto const& each : model.named_children())
      if (each.value()) module.register_module(in_python(module, each.key()), of(*each.value()));
    return module;
  }
  void add(jit::Module& module, std::string const& name, at::Tensor const& tensor, bool buffer) {
    if (!tensor.defined()) return;
    auto const here = in_python(module, name);
    module.register_parameter(here, tensor, buffer);
    tensors_.push_back({module, here, tensor});
  }
  /// A name that is a word of Python gets an underscore, since the file has forward as text of Python's grammar; so
  /// does one that the module has already, as `training`.
  static std::string in_python(jit::Module const& module, std::string name) {
    static constexpr std::string_view words[] = {
        "and",  "as",     "assert", "async",  "await",  "break",   "class",    "continue", "def",
        "del",  "elif",   "else",   "except", "False",  "finally", "for",      "from",     "global",
        "if",   "import", "in",     "is",     "lambda", "None",    "nonlocal", "not",      "or",
        "pass", "raise",  "return", "True",   "try",    "while",   "with",     "yield"};
    while (std::find(std::begin(words), std::end(words), name) != std::end(words) || module.hasattr(name)) name += "_";
    return name;
  }
  /// What Python shows as the module's class: "Linear" for torch::nn::LinearImpl.
  static std::string class_name(torch::nn::Module const& model) {
    auto name = model.name();
    name = name.substr(0, name.find('<'));
    name = name.substr(name.find_last_of(": ") + 1);
    std::erase_if(name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; });
    if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
    return "__torch__." + (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "Net" : name);
  }

  std::shared_ptr<jit::CompilationUnit> unit_ = std::make_shared<jit::CompilationUnit>();
  std::map<torch::nn::Module const*, jit::Module> made_;
  std::vector<Slot> tensors_;
  jit::Module whole_;
};

// Numbers that forward asks a tensor for: what it does with them is not seen by a tracer.

/// The first operator that gave a number to the host while this object lives; operators that others call do not count.
class HostReads : Pinned {
 public:
  explicit HostReads(torch::nn::Module const& model) {
    state() = {};
    for (auto const& part : model.modules(false))
      if (dynamic_cast<torch::nn::MultiheadAttentionImpl const*>(part.get()) != nullptr) state().attention = true;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
  }
  ~HostReads() { at::removeCallback(handle_); }

  std::string const& first() const { return state().first; }

 private:
  struct State {
    int depth = 0;
    std::string first = {};
    /// LibTorch's attention asks whether its query equals its key, which only decides in how many products it computes
    /// the same.
    bool attention = false;
  };
  static State& state() {
    static thread_local State now;
    return now;
  }
  static std::unique_ptr<at::ObserverContext> begin(at::RecordFunction const& function) {
    auto& now = state();
    std::string_view const name = function.name();
    bool const reads = name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::is_nonzero" ||
                       name == "aten::allclose" || (name == "aten::equal" && !now.attention);
    if (now.depth++ == 0 && reads && now.first.empty()) now.first = name;
    return nullptr;
  }
  static void end(at::RecordFunction const&, at::ObserverContext*) { --state().depth; }

  at::CallbackHandle handle_{};
};

// Batches of other sizes.

/// The dimension in which batches differ, and how long the example is in it.
struct BatchSize {
  std::int64_t dim, size;

  bool has(at::Tensor const& tensor) const { return tensor.dim() > dim && tensor.size(dim) == size; }
  /// The example for a batch of another size: its rows again and again.
  Tensors resized(Tensors const& example, std::int64_t to) const {
    Tensors all;
    for (auto const& tensor : example) {
      auto const rows = at::arange(to, tensor.options().dtype(at::kLong).requires_grad(false)).remainder(size);
      all.push_back(has(tensor) ? tensor.index_select(dim, rows) : tensor);
    }
    return all;
  }
};

/// For sentences: "[4, 3] and [4]".
FULGURITE_BODY std::string sizes_of(Tensors const& example) {
  std::string text;
  for (auto const& tensor : example)
    append_item(text, tensor.defined() ? shape_text(tensor.sizes()) : "an undefined tensor", " and ");
  return text;
}

/// The first sentence of LibTorch's message.
FULGURITE_BODY std::string first_line(std::exception const& error) {
  std::string const text = error.what();
  return text.substr(0, std::min(text.find('\n'), std::size_t{300}));
}

// One recording of forward.

FULGURITE_BODY std::shared_ptr<jit::Graph> recorded(torch::nn::Module const& model, jit::Module& self, Forward forward,
                                                    Tensors const& example) {
  HostReads const reads(model);
  auto const call = [&](jit::Stack stack) {
    Tensors inputs;
    for (auto const& value : stack) inputs.push_back(value.toTensor());
    return jit::Stack{forward(inputs)};
  };
  std::vector<std::string> names;
  for (std::size_t i = 0; i != example.size(); ++i) names.push_back("x" + (i == 0 ? "" : std::to_string(i)));
  std::shared_ptr<jit::Graph> graph;
  try {
    graph = jit::tracer::trace(
                jit::Stack(example.begin(), example.end()), call,
                [](torch::autograd::Variable const&) { return std::string(); }, false, false, &self, names)
                .first->graph;
  } catch (std::exception const& error) {
    std::throw_with_nested(Error(
        "fulgurite.export.trace",
        "LibTorch cannot record forward on the example of " + sizes_of(example) + ": " + first_line(error) +
            "; register each tensor that forward uses, by register_parameter, register_buffer or register_module"));
  }
  if (!reads.first().empty())
    throw Error("fulgurite.export.host_number",
                "forward reads a number from a tensor, by " + reads.first() +
                    ", and the file would keep the example's: compute with the tensor itself (torch::where in place "
                    "of if), or move the reading out of forward");
  return graph;
}

// Results, and numbers that were recorded, are compared by their bits.

FULGURITE_BODY void flatten(c10::IValue const& value, Tensors& into) {
  if (value.isTensor()) into.push_back(value.toTensor());
  else if (value.isTuple())
    for (auto const& part : value.toTupleRef().elements()) flatten(part, into);
  else
    for (auto const& part : value.toTensorVector()) into.push_back(part);
}
FULGURITE_BODY bool same_bits(c10::IValue const& one, c10::IValue const& two) {
  Tensors a, b;
  flatten(one, a), flatten(two, b);
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](at::Tensor const& x, at::Tensor const& y) {
    if (!x.defined() || !y.defined()) return x.defined() == y.defined();
    if (x.scalar_type() != y.scalar_type() || x.sizes() != y.sizes()) return false;
    auto const left = x.cpu().contiguous(), right = y.cpu().contiguous();
    return left.nbytes() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
  });
}

// What follows from the batch's size in a recorded forward: two recordings are compared, number by number.

/// "norm.weight" for a value that reads this parameter; empty for others.
FULGURITE_BODY std::string path_of(jit::Value const* value) {
  auto const* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return "";
  auto const before = path_of(node->input());
  return (before.empty() ? "" : before + ".") + node->s(c10::attr::name);
}

/// Makes the numbers of a recording that follow from the batch's size expressions of it.
class FollowedBatch {
 public:
  /// `other`: a recording for a batch of size `second`.
  FollowedBatch(std::shared_ptr<jit::Graph> graph, std::shared_ptr<jit::Graph> const& other, BatchSize batch,
                std::int64_t second)
      : graph_(std::move(graph)), batch_(batch), second_(second) {
    pair(graph_->inputs(), other->inputs());
    auto theirs = other->nodes().begin();
    for (auto* node : graph_->nodes()) {
      if (theirs == other->nodes().end()) differ(node, nullptr);
      compare(node, *theirs);
      ++theirs;
    }
    if (theirs != other->nodes().end()) differ(nullptr, *theirs);
    for (auto const& [node, value] : numbers_) replace(node, value);
  }

 private:
  /// a + b * size
  struct Line {
    std::int64_t a, b;
  };

  template <class List>
  void pair(List const& mine, List const& theirs) {
    for (std::size_t i = 0; i != std::min(mine.size(), theirs.size()); ++i) same_[mine[i]] = theirs[i];
  }

  void compare(jit::Node* mine, jit::Node* theirs) {
    bool same = mine->kind() == theirs->kind() && mine->inputs().size() == theirs->inputs().size() &&
                mine->outputs().size() == theirs->outputs().size();
    for (std::size_t i = 0; same && i != mine->inputs().size(); ++i)
      same = same_[mine->inputs()[i]] == theirs->inputs()[i];
    same = same && (mine->kind() != c10::prim::GetAttr || mine->s(c10::attr::name) == theirs->s(c10::attr::name));
    if (!same) differ(mine, theirs);
    pair(mine->outputs(), theirs->outputs());
    if (auto const path = mine->kind() == c10::prim::GetAttr ? path_of(mine->output()) : ""; !path.empty())
      seen_ = path;
    if (mine->kind() != c10::prim::Constant) return;
    auto const one = jit::toIValue(mine->output()), two = jit::toIValue(theirs->output());
    if (!one || !two || equal(*one, *two)) return;
    if (one->isInt() && two->isInt()) {
      auto const rise = two->toInt() - one->toInt(), run = second_ - batch_.size;
      if (rise % run == 0) {
        numbers_.push_back({mine, {one->toInt() - rise / run * batch_.size, rise / run}});
        return;
      }
    }
    throw Error("fulgurite.export.batch", "forward depends on the batch's size: " + place(mine) + " has " + text(*one) +
                                              " for a batch of " + std::to_string(batch_.size) + " and " + text(*two) +
                                              " for one of " + std::to_string(second_) + cure);
  }

  [[noreturn]] void differ(jit::Node* mine, jit::Node* theirs) const {
    auto const name = [&](jit::Node* node) { return node == nullptr ? "no more" : place(node); };
    throw Error("fulgurite.export.batch", "forward depends on the batch's size: for a batch of " +
                                              std::to_string(batch_.size) + " it computes " + name(mine) +
                                              ", where for one of " + std::to_string(second_) + " it computes " +
                                              name(theirs) + cure);
  }

  static bool equal(c10::IValue const& one, c10::IValue const& two) {
    if (one.isTensor() && two.isTensor()) return same_bits(one, two);
    if (one.isDouble() && two.isDouble() && std::isnan(one.toDouble()) && std::isnan(two.toDouble())) return true;
    return one == two;
  }
  static std::string text(c10::IValue const& value) {
    if (value.isTensor()) return "a tensor of " + shape_text(value.toTensor().sizes()) + " made by the host";
    std::ostringstream out;
    out << value;
    return out.str();
  }
  /// "aten::mul (after `fc.weight` was read)": the operator that uses a number.
  std::string place(jit::Node* node) const {
    while (node->kind().is_prim() && node->outputs().size() == 1 && !node->output()->uses().empty())
      node = node->output()->uses().front().user;
    return std::string(node->kind().toQualString()) + (seen_.empty() ? "" : " (after `" + seen_ + "` was read)");
  }

  void replace(jit::Node* node, Line line) {
    jit::WithInsertPoint const there(node);
    if (size_ == nullptr) {
      jit::WithInsertPoint const first(*graph_->nodes().begin());
      // The first input is the module itself, the second one has the batch.
      size_ = graph_->insert(c10::aten::size, {graph_->inputs()[1], batch_.dim});
    }
    auto* value = size_;
    if (line.b != 1) value = graph_->insert(c10::aten::mul, {value, line.b});
    if (line.a != 0) value = graph_->insert(c10::aten::add, {value, line.a});
    node->output()->replaceAllUsesWith(value);
  }

  static constexpr char const* cure = "; take the size from the tensor, as in x.flatten(1) or x.view({x.size(0), -1}), "
                                      "without a branch on it, or export "
                                      "the model for batches of one size by {.batch_dim = std::nullopt}";

  std::shared_ptr<jit::Graph> graph_;
  BatchSize batch_;
  std::int64_t second_;
  jit::Value* size_ = nullptr;
  std::unordered_map<jit::Value*, jit::Value*> same_;
  std::vector<std::pair<jit::Node*, Line>> numbers_;
  std::string seen_;  ///< the last parameter or buffer that was read
};

/// Makes each `x W^T + b` of matrices a `linear`, which has the same bits. A program that loads the file has LibTorch's
/// optimizer of TorchScript, which turns an `addmm` into a product and a sum with other last bits.
FULGURITE_BODY void keep_linear(jit::Graph& graph) {
  auto const is_one = [](jit::Value* value) {
    auto const number = jit::toIValue(value);
    return number && number->isScalar() && number->toScalar().equal(1);
  };
  for (auto* node : graph.nodes()) {
    if (node->kind() != c10::aten::addmm || node->input(2)->node()->kind() != c10::aten::t) continue;
    if (!is_one(node->input(3)) || !is_one(node->input(4))) continue;
    jit::WithInsertPoint const there(node);
    auto* const weight = node->input(2)->node()->input(0);
    node->output()->replaceAllUsesWith(graph.insert(c10::aten::linear, {node->input(1), weight, node->input(0)}));
  }
}

/// Throws an Error unless the loaded file gives the model's results.
FULGURITE_BODY void compare(jit::Module& loaded, Forward forward, Tensors const& inputs) {
  auto const expected = forward(inputs);
  std::string said;
  try {
    jit::GraphOptimizerEnabledGuard const as_recorded(false);
    if (same_bits(loaded.forward(jit::Stack(inputs.begin(), inputs.end())), expected)) return;
    said = "gives other numbers";
  } catch (std::exception const& error) { said = "fails (" + first_line(error) + ")"; }
  throw Error(
      "fulgurite.export.batch",
      "for inputs of " + sizes_of(inputs) + " the recorded forward " + said +
          ", so it depends on sizes that differ from the example's: take them from tensors, as in x.flatten(1), "
          "or export the model for batches of one size by {.batch_dim = std::nullopt}");
}

/// The size of the batch in the example; nothing if all sizes are fixed.
FULGURITE_BODY std::optional<BatchSize> batch_of(Tensors const& example, ExportOptions const& options) {
  for (auto const& tensor : example)
    if (!tensor.defined())
      throw Error("fulgurite.export.input", "a tensor of the example is undefined: give one tensor, on the model's "
                                            "device, for each argument of forward");
  if (!options.batch_dim) return std::nullopt;
  auto const dim = *options.batch_dim;
  if (dim < 0 || example[0].dim() <= dim || example[0].size(dim) == 0)
    throw Error("fulgurite.export.input",
                "the example of " + sizes_of(example) + " has no rows in dimension " + std::to_string(dim) +
                    ": give an example with at least one row, name the dimension of batches by {.batch_dim = ...}, or "
                    "export for fixed sizes by {.batch_dim = std::nullopt}");
  return BatchSize{dim, example[0].size(dim)};
}

/// The results for the example, computed twice, so that a forward that fails or draws random numbers is not mistaken
/// for a file that is wrong.
FULGURITE_BODY void require_repeatable(Forward forward, Tensors const& example) {
  bool same = false;
  try {
    same = same_bits(forward(example), forward(example));
  } catch (std::exception const& error) {
    std::throw_with_nested(Error("fulgurite.export.input", "forward fails on the example of " + sizes_of(example) +
                                                               ": " + first_line(error) +
                                                               "; give inputs as in training, on the model's device"));
  }
  if (!same)
    throw Error("fulgurite.export.random", "in eval mode forward gives other numbers when it is called again with the "
                                           "same example, so no file can be compared with it: do what draws random "
                                           "numbers or counts calls in training_step, or only where is_training()");
}

}  // namespace fulgurite::libtorch::script

namespace fulgurite {
namespace libtorch {

FULGURITE_BODY void export_torchscript(torch::nn::Module& model, Forward forward, std::vector<at::Tensor> const& given,
                                       std::filesystem::path const& file, ExportOptions const& options) {
  using namespace script;
  c10::InferenceMode const tracked(false);  // tensors of inference mode a tracer cannot distinguish
  LeavesNoTrace const unchanged(model);
  Tensors example;
  for (auto const& tensor : given) example.push_back(tensor.defined() ? tensor.detach().clone() : tensor);
  auto const batch = batch_of(example, options);
  require_repeatable(forward, example);

  Mirror mirror(model);
  auto& whole = mirror.whole();
  auto const graph = recorded(model, whole, forward, example);
  std::vector<Tensors> checked{example};
  if (batch) {
    auto const doubled = batch->resized(example, 2 * batch->size);
    try {
      forward(doubled);
    } catch (std::exception const& error) {
      std::throw_with_nested(
          Error("fulgurite.export.batch", "forward takes the example of " + sizes_of(example) + " and fails for " +
                                              sizes_of(doubled) + ": " + first_line(error) +
                                              "; name the dimension of batches by .batch_dim, give an example whose "
                                              "batch has a size that no other input has, or export the model for "
                                              "batches of one size by {.batch_dim = std::nullopt}"));
    }
    FollowedBatch const replaced(graph, recorded(model, whole, forward, doubled), *batch, 2 * batch->size);
    for (auto const size : {std::int64_t{1}, batch->size + 1, 3 * batch->size})
      checked.push_back(batch->resized(example, size));
  }
  keep_linear(*graph);
  jit::EliminateDeadCode(graph);
  auto* const method =
      whole._ivalue()->compilation_unit()->create_function(c10::QualifiedName(*whole.type()->name(), "forward"), graph);
  whole.type()->addMethod(method);
  mirror.copy_tensors();

  std::string bytes;
  jit::Module loaded;
  try {
    std::ostringstream out;
    whole.save(out);
    bytes = std::move(out).str();
    std::istringstream in(bytes);
    loaded = jit::load(in);
  } catch (std::exception const& error) {
    std::throw_with_nested(
        Error("fulgurite.export.file", "LibTorch cannot read what it wrote of the model: " + first_line(error) +
                                           "; give modules, parameters and buffers names of letters, digits and _"));
  }
  for (auto const& inputs : checked) {
    // A size that the model itself does not take need not be taken by the file.
    if (&inputs != &checked.front()) try {
        forward(inputs);
      } catch (std::exception const&) { continue; }
    compare(loaded, forward, inputs);
  }
  write_durably(file, bytes);
}

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
