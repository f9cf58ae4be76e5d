#pragma once
// Forms of operators that write their result into memory which they are given: those with the same arguments, and some
// of other operators.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Reduction.h>

#include <fulgurite/core/cold.hpp>
#include <fulgurite/torch/capture/recorder.hpp>

namespace fulgurite::libtorch::capture {

/// An operator, and where its arguments come from.
struct OutForm {
  /// Where an argument of the form comes from: the call's own arguments, the places of its results, a constant, or what
  /// the form before this one has made.
  struct Source {
    enum class Kind { given, place, constant, before };
    Kind kind;
    std::size_t index = 0;
    IValue constant = {};
  };
  c10::OperatorHandle op;
  std::vector<Source> arguments = {};
  std::optional<std::size_t> rows = std::nullopt;  ///< each row of the place is this argument before the call
  std::vector<OutForm> before = {};                ///< at most one: runs first, into a tensor like the first argument
  double divisor = 1;                              ///< of the result, after the call

  FULGURITE_BULK Stack stack(Stack const& given, Stack const& places, at::Tensor const& made = {}) const {
    Stack all;
    for (auto const& source : arguments) {
      using Kind = Source::Kind;
      if (source.kind == Kind::before) all.emplace_back(made);
      else
        all.push_back(source.kind == Kind::given   ? given[source.index]
                      : source.kind == Kind::place ? places[source.index]
                                                   : source.constant);
    }
    return all;
  }
};

/// All overloads of an operator.
inline std::vector<c10::OperatorHandle> const& overloads(std::string const& name) {
  static auto const all = [] {
    std::unordered_map<std::string, std::vector<c10::OperatorHandle>> found;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (auto const& known : dispatcher.getAllOpNames())
      if (auto const op = dispatcher.findSchema(known)) found[known.name].push_back(*op);
    return found;
  }();
  static std::vector<c10::OperatorHandle> const none;
  auto const found = all.find(name);
  return found == all.end() ? none : found->second;
}

/// The overload that takes the same arguments in the same order, then a place for each result. It must have a kernel of
/// the CPU's own, not one that is made of the plain form.
FULGURITE_BULK std::optional<OutForm> same_arguments(c10::FunctionSchema const& plain, c10::OperatorHandle const& op) {
  auto const& out = op.schema();
  if (out.arguments().size() != plain.arguments().size() + plain.returns().size() ||
      out.returns().size() != plain.returns().size())
    return std::nullopt;
  OutForm form{op, {}, {}};
  std::size_t given = 0, places = 0;
  for (auto const& argument : out.arguments()) {
    if (argument.is_out()) {
      form.arguments.push_back({OutForm::Source::Kind::place, places++});
      continue;
    }
    if (given == plain.arguments().size()) return std::nullopt;
    auto const& same = plain.arguments()[given];
    if (same.name() != argument.name() || *same.real_type() != *argument.real_type()) return std::nullopt;
    form.arguments.push_back({OutForm::Source::Kind::given, given++});
  }
  for (auto const& result : plain.returns())
    if (result.real_type()->kind() != c10::TypeKind::TensorType) return std::nullopt;
  if (places != plain.returns().size() || !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  return form;
}

/// Some operators have no such form, but do the same as another operator that has one.
FULGURITE_BULK std::optional<OutForm> other_name(std::string const& name) {
  using Kind = OutForm::Source::Kind;
  auto const named = [](char const* other, char const* overload) {
    return c10::Dispatcher::singleton().findSchema({other, overload});
  };
  if (name == "aten::relu")
    if (auto const op = named("aten::clamp_min", "out"))
      return OutForm{*op, {{Kind::given, 0}, {Kind::constant, 0, at::Scalar(0)}, {Kind::place, 0}}, {}};
  if (name == "aten::addmm")  // its own form would call an operator to copy the bias into the place
    if (auto const op = named("aten::addmm_", ""))
      return OutForm{
          *op, {{Kind::place, 0}, {Kind::given, 1}, {Kind::given, 2}, {Kind::given, 3}, {Kind::given, 4}}, 0};
  if (name == "aten::clone" || name == "aten::_to_copy")
    if (auto const op = named("aten::copy_", ""))
      return OutForm{*op, {{Kind::place, 0}, {Kind::given, 0}, {Kind::constant, 0, false}}, {}};
  return std::nullopt;
}

/// The mean of squared differences, made of other operators: LibTorch's own form for it warns, and divides the sum by
/// one operator more, which for a few numbers takes longer than all the rest.
FULGURITE_BULK std::optional<OutForm> mean_of_squares(Call const& call) {
  using Kind = OutForm::Source::Kind;
  if (call.name() != "aten::mse_loss" || call.in[2].toInt() != at::Reduction::Mean) return std::nullopt;
  auto const &x = call.in[0].toTensor(), &y = call.in[1].toTensor();
  bool const fits = x.is_contiguous() && y.is_contiguous() && x.sizes() == y.sizes() &&
                    x.scalar_type() == y.scalar_type() && x.numel() != 0 &&
                    (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
  auto const squares = c10::Dispatcher::singleton().findSchema({"aten::mse_loss", "out"}),
             sum = c10::Dispatcher::singleton().findSchema({"aten::sum", "IntList_out"});
  if (!fits || !squares || !sum) return std::nullopt;
  OutForm form{*sum,
               {{Kind::before},
                {Kind::constant, 0, c10::List<std::int64_t>()},
                {Kind::constant, 0, false},
                {Kind::constant, 0, IValue()},
                {Kind::place, 0}}};
  form.before.push_back(
      {*squares,
       {{Kind::given, 0}, {Kind::given, 1}, {Kind::constant, 0, std::int64_t(at::Reduction::None)}, {Kind::place, 0}}});
  form.divisor = static_cast<double>(x.numel());
  return form;
}

}  // namespace fulgurite::libtorch::capture
