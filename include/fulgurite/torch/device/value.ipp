#pragma once
// The bodies of torch/device/value.hpp.

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <unordered_set>

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/device/value.hpp>
#include <fulgurite/torch/weights/weights.hpp>

namespace fulgurite::libtorch {

/// True if the tensor's memory may be written to through other handles: it is a parameter or a buffer, or a view or a
/// detached handle of one.
FULGURITE_BULK_BODY bool held_elsewhere(at::Tensor const& value) {
  if (!value.defined()) return false;
  if (value.use_count() > 1) return true;
  return value.is_inference() ? value.storage().use_count() > 1
                              : !value.unsafeGetTensorImpl()->version_counter().unique();
}

FULGURITE_BULK_BODY at::Tensor keep(at::Tensor const& value) {
  if (held_elsewhere(value)) return value.detach().clone();
  if (value.is_cpu() || !value.requires_grad()) return value;
  if (c10::impl::tls_is_dispatch_key_included(recording_key)) return value.detach();
  return value.variable_data();  // not an operator, and the step may log the value again without a copy
}

FULGURITE_BULK_BODY double read(at::Tensor const& value) {
  if (!value.defined() || value.numel() != 1)
    throw Error("fulgurite.metric.one_element",
                "a logged value has " + (value.defined() ? std::to_string(value.numel()) : std::string("no")) +
                    " elements, it must have exactly one: log its mean(), or the sum()");
  if (value.is_cpu() && value.layout() == at::kStrided && !value.is_neg()) {
    switch (value.scalar_type()) {
    case at::ScalarType::Float: return static_cast<double>(*data_of<float>(value));
    case at::ScalarType::Double: return *data_of<double>(value);
    case at::ScalarType::Long: return static_cast<double>(*data_of<std::int64_t>(value));
    case at::ScalarType::BFloat16: return static_cast<double>(float(*data_of<at::BFloat16>(value)));
    case at::ScalarType::Half: return static_cast<double>(float(*data_of<at::Half>(value)));
    default: break;
    }
  }
  return value.item<double>();
}

/// One-element tensors of one type and device, and where they are in a list.
struct OfOneKind {
  std::vector<at::Tensor> values;
  std::vector<std::size_t> places;
};

FULGURITE_BULK_BODY void sort_in(std::vector<OfOneKind>& kinds, at::Tensor const& value, std::size_t place) {
  // A handle of one dimension, as cat takes it. A view would be an operator for each.
  auto handle = value.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true);
  handle->set_sizes_contiguous({1});
  at::Tensor flat(std::move(handle));
  auto kind = std::find_if(kinds.begin(), kinds.end(),
                           [&](OfOneKind const& one) { return same_kind(one.values.front(), flat); });
  if (kind == kinds.end()) kind = kinds.insert(kind, OfOneKind{});
  kind->values.push_back(std::move(flat));
  kind->places.push_back(place);
}

FULGURITE_BULK_BODY void condense(std::vector<at::Tensor>& values) {
  at::NoGradGuard const no_graph;
  std::vector<OfOneKind> kinds;
  for (auto const& value : std::exchange(values, {})) sort_in(kinds, value, 0);
  for (auto const& kind : kinds)
    values.push_back(at::linalg_vector_norm(at::cat(kind.values), std::numeric_limits<double>::infinity()));
}

FULGURITE_BULK_BODY void read_all(std::span<at::Tensor const> values, std::span<double> into) {
  at::NoGradGuard const no_graph;
  std::vector<OfOneKind> kinds;
  for (std::size_t i = 0; i != values.size(); ++i)
    if (!values[i].defined() || values[i].is_cpu() || values[i].numel() != 1)
      into[i] = read(values[i]);  // read also throws the error, if there is one
    else sort_in(kinds, values[i], i);
  std::vector<at::Tensor> gathered;
  for (auto const& kind : kinds) gathered.push_back(at::cat(kind.values));
  auto const host = on_host(gathered);
  for (std::size_t k = 0; k != kinds.size(); ++k) {
    auto const converted = host[k].to(at::kDouble);
    auto const* number = data_of<double>(converted);
    for (auto const place : kinds[k].places) into[place] = *number++;
  }
}

FULGURITE_BODY void require_scalar(at::Tensor const& loss) {
  if (loss.defined() && loss.numel() == 1) return;
  throw Error("fulgurite.torch.scalar_loss",
              "the loss has " + (loss.defined() ? std::to_string(loss.numel()) : std::string("no")) +
                  " elements, backward starts from exactly one: return its mean() or sum()");
}

FULGURITE_BULK_BODY void require_graph(at::Tensor const& loss) {
  if (!loss.defined() || loss.requires_grad()) return;
  throw Error("fulgurite.torch.loss_without_graph",
              "the loss depends on no parameter that learns, so there is nothing to run backward through: look for "
              "detach(), a NoGradGuard, item() or argmax() between the parameters and the loss, and whether every "
              "parameter is frozen");
}

FULGURITE_BULK_BODY std::vector<at::Tensor> UntrainedLeaves::leaves(at::Tensor const& loss,
                                                                    std::vector<at::Tensor> const& known) {
  using torch::autograd::AccumulateGrad, torch::autograd::Node;
  std::unordered_set<at::TensorImpl const*> others;
  for (auto const& tensor : known) others.insert(tensor.unsafeGetTensorImpl());
  std::vector<at::Tensor> found;
  std::unordered_set<Node const*> seen;
  std::vector<Node*> left;
  auto const visit = [&](Node* node) {
    if (node && seen.insert(node).second) left.push_back(node);
  };
  for (visit(loss.defined() ? loss.grad_fn().get() : nullptr); !left.empty();) {
    auto* const node = left.back();
    left.pop_back();
    for (auto const& edge : node->next_edges()) visit(edge.function.get());
    if (auto const* const leaf = dynamic_cast<AccumulateGrad const*>(node))
      if (leaf->variable.defined() && !others.contains(leaf->variable.unsafeGetTensorImpl()))
        found.push_back(leaf->variable);
  }
  return found;
}

FULGURITE_BULK_BODY std::string UntrainedLeaves::look(at::Tensor const& loss, long batch,
                                                      std::vector<at::Tensor> const& known) {
  if (batch_ == -1) batch_ = batch;
  if (batch == batch_) {
    for (auto const& leaf : leaves(loss, known))
      first_.push_back({decltype(Leaf::tensor)(leaf.getIntrusivePtr()), static_cast<std::uint32_t>(leaf._version())});
    return {};
  }
  if (second_ == -1) second_ = batch;
  std::string sizes;
  if (batch == second_ && !first_.empty())
    for (auto const& now : leaves(loss, known))
      if (std::ranges::any_of(first_, [&](Leaf const& before) {
            return before.tensor.lock().get() == now.unsafeGetTensorImpl() && before.version == now._version();
          }))
        sizes += (sizes.empty() ? "" : ", ") + c10::str(now.sizes());
  if (batch == second_ && !first_.empty() && sizes.empty()) return {};  // another loss of this batch may have it
  done_ = true;
  first_.clear();
  if (sizes.empty()) return {};
  return "the loss gives gradients to tensors of the sizes " + sizes +
         ", which are no parameters of the model and belong to no optimizer: they keep their values, and no file has "
         "them. Register the layer that holds them, register_module(\"fc\", torch::nn::Linear(3, 1)), or the tensor by "
         "register_parameter; inputs whose gradients each step needs by register_buffer; freeze what is not to learn, "
         "by "
         "requires_grad_(false)";
}

FULGURITE_BULK_BODY bool same_kind(at::Tensor const& a, at::Tensor const& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device() && a.sizes() == b.sizes();
}

FULGURITE_BULK_BODY at::Tensor seed(at::Tensor const& loss, double factor) {
  require_scalar(loss);
  if (factor == 1.0) return {};
  struct Made {
    double factor;
    at::Tensor seed;
  };
  thread_local std::vector<Made> cache;
  for (auto const& made : cache)
    if (made.factor == factor && same_kind(made.seed, loss)) return made.seed;
  if (cache.size() == 64) cache.clear();  // limits the cache for a factor that changes in every step
  at::NoGradGuard const no_graph;
  return cache.emplace_back(Made{factor, at::full_like(loss.detach(), factor)}).seed;
}

FULGURITE_BULK_BODY at::Tensor scaled(at::Tensor const& loss, double factor) {
  return factor == 1.0 ? loss : loss.mul(factor);
}

FULGURITE_BULK_BODY at::Tensor detached(at::Tensor const& loss, double factor) {
  auto value = loss.detach();
  return factor == 1.0 ? value : value.mul(factor);
}

FULGURITE_BULK_BODY DeterministicSwitch::State DeterministicSwitch::now() {
  return {at::globalContext().deterministicAlgorithms(), at::globalContext().deterministicAlgorithmsWarnOnly()};
}

FULGURITE_BULK_BODY void DeterministicSwitch::put(State to) {
  if (to.first && at::hasCUDA()) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  at::globalContext().setDeterministicAlgorithms(to.first, to.second);
}

FULGURITE_BULK_BODY BenchmarkSwitch::State BenchmarkSwitch::now() { return at::globalContext().benchmarkCuDNN(); }

FULGURITE_BULK_BODY void BenchmarkSwitch::put(State to) { at::globalContext().setBenchmarkCuDNN(to); }

FULGURITE_BULK_BODY AnomalySwitch::State AnomalySwitch::now() {
  return {torch::autograd::AnomalyMode::is_enabled(), torch::autograd::AnomalyMode::should_check_nan()};
}

FULGURITE_BULK_BODY void AnomalySwitch::put(State to) {
  torch::autograd::AnomalyMode::set_enabled(to.first, to.second);
}

FULGURITE_BULK_BODY AlgorithmScope::AlgorithmScope(bool deterministic, std::optional<bool> benchmark)
    : deterministic_(deterministic ? std::optional(true) : std::nullopt),
      benchmark_(benchmark || !deterministic ? benchmark : std::optional(false)) {}

FULGURITE_BULK_BODY AlgorithmScope::~AlgorithmScope() = default;

FULGURITE_BULK_BODY AnomalyScope::AnomalyScope(bool on) : on_(on ? std::optional(true) : std::nullopt) {}
FULGURITE_BULK_BODY AnomalyScope::~AnomalyScope() = default;

FULGURITE_BULK_BODY FactoryWatch::FactoryWatch(at::ScalarType wanted, Report report)
    : wanted_(wanted), report_(std::move(report)) {
  if (!report_) return;
  outer_ = std::exchange(watching(), this);
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&begins, &ends)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

FULGURITE_BULK_BODY FactoryWatch::~FactoryWatch() {
  if (!report_) return;
  at::removeCallback(handle_);
  watching() = outer_;
  if (!function_.empty()) report_(function_, c10::toString(made_), c10::toString(wanted_));
}

FULGURITE_BULK_BODY FactoryWatch::Call::Call(FactoryWatch& of) : watch(&of) { watch->inside_ = true; }

FULGURITE_BULK_BODY std::unique_ptr<at::ObserverContext> FactoryWatch::begins(at::RecordFunction const& call) {
  auto* const watch = watching();
  if (!watch || watch->inside_ || !watch->function_.empty()) return nullptr;
  auto const schema = call.operator_schema();
  if (!schema) return nullptr;
  auto const type = schema->argumentIndexWithName("dtype");
  auto const& inputs = recorded_inputs(call);
  if (!type || static_cast<std::size_t>(*type) >= inputs.size() || !inputs[static_cast<std::size_t>(*type)].isNone())
    return nullptr;
  for (auto const& input : inputs)
    if (input.isTensor() || input.isTensorList()) return nullptr;  // the result then has the type of this input
  return std::make_unique<Call>(*watch);
}

FULGURITE_BULK_BODY void FactoryWatch::ends(at::RecordFunction const& call, at::ObserverContext* context) {
  if (!context) return;
  auto& watch = *static_cast<Call*>(context)->watch;
  for (auto const& output : call.outputs()) {
    if (!output.isTensor() || !output.toTensor().defined() || !output.toTensor().is_floating_point()) continue;
    watch.made_ = output.toTensor().scalar_type();
    if (watch.made_ != watch.wanted_)
      watch.function_ = std::string_view(call.name()).substr(std::string_view("aten::").size());
  }
}

}  // namespace fulgurite::libtorch
