#pragma once
// The bodies of distributed/pipeline.hpp.

#include <sys/socket.h>

#include <fulgurite/core/error.hpp>
#include <fulgurite/distributed/pipeline.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY void refuse_cut(std::string const& why) {
  throw Error(
      "fulgurite.pipeline.batch",
      "a batch cannot be cut into micro batches: " + why +
          ". Its tensors need one row for each sample, in dimension 0, and its lists one element; .micro_batches = 1 "
          "leaves it whole");
}

FULGURITE_BODY void require_rows(std::int64_t rows, std::int64_t samples) {
  if (rows != samples)
    refuse_cut("one of its tensors or lists has " + std::to_string(rows) + " rows, and the batch " +
               std::to_string(samples) + " samples");
}

FULGURITE_BODY void ModelParts::share_out(torch::nn::Module& model, std::vector<NamedStage> const& stages,
                                          std::vector<int> const& asked, int processes) {
  std::vector<std::int64_t> sizes;
  for (auto const& stage : stages) {
    sizes.push_back(0);
    if (stage.module)
      for (auto const& parameter : stage.module->parameters()) sizes.back() += parameter.numel();
  }
  counts_ = stages_of_ranks(asked, sizes, processes);
  owners_.clear();
  tensors_.clear();
  names_.clear();
  std::size_t at = 0;
  for (int rank = 0; rank != processes; ++rank)
    for (int i = 0; i != counts_[static_cast<std::size_t>(rank)]; ++i)
      if (auto* const module = stages[at++].module) own(model, *module, rank);
  // A buffer outside of all stages belongs to the last process, since only code after the stages can change it.
  for (auto const& buffer : model.buffers()) add(buffer, processes - 1);
  for (auto const& parameter : model.named_parameters()) {
    names_.emplace(parameter.value().unsafeGetTensorImpl(), parameter.key());
    if (!owners_.contains(parameter.value().unsafeGetTensorImpl()))
      throw Error("fulgurite.pipeline.outside",
                  "the parameter '" + parameter.key() +
                      "' is in none of the model's stages(), so no process of the pipeline would train it: name its "
                      "module there, in the place where it computes");
  }
}

FULGURITE_BODY std::vector<NamedStage> ModelParts::of_rank(std::vector<NamedStage> const& stages, int rank) const {
  auto first = stages.begin();
  for (int before = 0; before != rank; ++before) first += counts_[static_cast<std::size_t>(before)];
  return {first, first + counts_[static_cast<std::size_t>(rank)]};
}

FULGURITE_BODY void ModelParts::gather(Group& group) const {
  at::NoGradGuard const no_graph;
  for (auto const& [tensor, owner] : tensors_) take(group, tensor, owner, "weights of all stages");
}

FULGURITE_BODY int ModelParts::add(at::Tensor const& tensor, int rank) {
  if (!tensor.defined()) return rank;
  auto const [found, is_new] = owners_.try_emplace(tensor.unsafeGetTensorImpl(), rank);
  if (is_new) tensors_.emplace_back(tensor, rank);
  return found->second;
}

FULGURITE_BODY void ModelParts::own(torch::nn::Module& model, torch::nn::Module& module, int rank) {
  for (auto const& parameter : module.parameters())
    if (int const owner = add(parameter, rank); owner != rank) refuse_shared(model, parameter, owner, rank);
  for (auto const& buffer : module.buffers()) add(buffer, rank);
}

FULGURITE_BODY void ModelParts::refuse_use(at::Tensor const& parameter, int rank) const {
  auto const found = names_.find(parameter.unsafeGetTensorImpl());
  throw Error("fulgurite.pipeline.other_stages",
              "a step on rank " + std::to_string(rank) + " has a gradient of the parameter '" +
                  (found == names_.end() ? "" : found->second) + "', which rank " +
                  std::to_string(owner_of(parameter)) +
                  " trains and would not receive: a step must use its parameters only by through_stages(*this, x), and "
                  "a penalty on weights is the optimizer's .weight_decay");
}

FULGURITE_BODY void ModelParts::refuse_shared(torch::nn::Module& model, at::Tensor const& tensor, int one, int other) {
  std::string name = "a parameter";
  for (auto const& parameter : model.named_parameters())
    if (parameter.value().is_same(tensor)) name = "the parameter '" + parameter.key() + "'";
  throw Error(
      "fulgurite.pipeline.shared",
      name + " belongs to stages of rank " + std::to_string(one) + " and of rank " + std::to_string(other) +
          ", which would train separate copies: name these stages as one, or set .balance so that one process has "
          "both");
}

FULGURITE_BODY int ModelParts::owner_of(at::Tensor const& parameter) const {
  auto const found = owners_.find(parameter.unsafeGetTensorImpl());
  return found == owners_.end() ? 0 : found->second;
}

FULGURITE_BODY void ModelParts::take(Group& group, at::Tensor const& tensor, int owner, std::string_view what) {
  auto const here = tensor.detach();
  auto const sent = here.contiguous();
  group.broadcast(sent, owner, what);
  if (group.place().rank != owner && !sent.is_same(here) && sent.const_data_ptr() != here.const_data_ptr())
    here.copy_(sent);
}

FULGURITE_BODY StageRunner::StageRunner(Group& group, torch::nn::Module const& model, std::vector<NamedStage> own)
    : group_(&group), model_(&model), own_(std::move(own)) {
  current() = this;
  int const rank = group.place().rank;
  using enum Channel::Direction;
  if (!is_first()) {
    from_before_.emplace(group, from, rank - 1);
    to_before_.emplace(group, to, rank - 1);
  }
  if (!is_last()) {
    to_next_.emplace(group, to, rank + 1);
    from_next_.emplace(group, from, rank + 1);
  }
}

FULGURITE_BODY StageRunner::~StageRunner() {
  if (current() == this) current() = nullptr;
}

FULGURITE_BODY bool StageRunner::is_first() const { return group_->place().rank == 0; }

FULGURITE_BODY bool StageRunner::is_last() const { return group_->place().rank + 1 == group_->place().world; }

FULGURITE_BODY void StageRunner::begin(int micro_batches) {
  kept_.clear();
  kept_.resize(static_cast<std::size_t>(micro_batches));
}

FULGURITE_BODY void StageRunner::backward(int micro_batch) {
  has_trained_ = true;
  auto [input, output] = std::exchange(kept_.at(static_cast<std::size_t>(micro_batch)), {});
  if (!is_last() && output.requires_grad()) {
    auto const gradient = at::empty(output.sizes(), output.options().requires_grad(false));
    from_next_->post(gradient);
    from_next_->wait("gradients of the next stages");
    output.backward(gradient);
  }
  if (is_first() || !input.requires_grad()) return;
  auto gradient = input.grad();
  if (!gradient.defined()) gradient = at::zeros_like(input);  // the output does not depend on the input
  to_before_->post(gradient.detach().contiguous());
}

FULGURITE_BODY void StageRunner::finish() {
  if (to_next_) to_next_->wait("the next stages to take activations");
  if (to_before_) to_before_->wait("the stages before to take gradients");
}

FULGURITE_BODY std::vector<std::string> StageRunner::account() const {
  long messages = 0, bytes = 0;
  for (auto const* channel : {&to_next_, &to_before_})
    if (*channel) messages += (*channel)->messages(), bytes += (*channel)->bytes();
  return {std::to_string(messages) + " messages to other stages, " + std::to_string(bytes) + " bytes in all"};
}

FULGURITE_BODY bool StageRunner::is_in_step(torch::nn::Module const& model) const {
  if (&model != model_ || in_step_) return &model == model_;
  if (has_trained_ && group_->place().world != 1)
    throw Error("fulgurite.pipeline.hook",
                "through_stages(model, x) is called outside of a step, where rank " +
                    std::to_string(group_->place().rank) +
                    " has old weights of the other processes' stages: call it in a step, or train by another strategy");
  return false;
}

FULGURITE_BODY at::Tensor StageRunner::run(at::Tensor x) {
  if (std::exchange(has_run_, true))
    throw Error("fulgurite.pipeline.twice", "a step calls through_stages(model, x) a second time, when the other "
                                            "processes have finished it: pass all inputs to the stages at once");
  if (!is_first()) x = receive();
  auto output = x;
  for (auto const& stage : own_) output = stage.forward(std::move(output));
  if (at::GradMode::is_enabled()) kept_.at(static_cast<std::size_t>(at_)) = {x, output};
  if (is_last()) return output;
  send(output);
  throw StagesEnd{};
}

FULGURITE_BODY at::Tensor StageRunner::room_for_header() {
  return at::empty({static_cast<std::int64_t>(std::tuple_size_v<Header>)}, at::TensorOptions().dtype(at::kLong));
}

FULGURITE_BODY void StageRunner::send(at::Tensor const& output) {
  if (output.dim() > static_cast<std::int64_t>(most_dimensions) || !output.is_cpu() || output.is_sparse())
    throw Error("fulgurite.pipeline.activation",
                "a stage must pass a dense tensor on the CPU to the next process, of " +
                    std::to_string(most_dimensions) + " dimensions at most");
  Header header{};
  header[Field::batch] = fingerprint_;
  header[Field::micro_batch] = at_;
  header[Field::type] = static_cast<std::int64_t>(output.scalar_type());
  header[Field::wants_gradient] = output.requires_grad() ? 1 : 0;
  header[Field::dimensions] = output.dim();
  for (std::int64_t d = 0; d != output.dim(); ++d)
    header.at(Field::first_size + static_cast<std::size_t>(d)) = output.size(d);
  auto const packed = room_for_header();
  std::memcpy(packed.mutable_data_ptr(), header.data(), sizeof header);
  to_next_->post(packed);
  if (output.numel() != 0) to_next_->post(output.detach().contiguous());
}

FULGURITE_BODY at::Tensor StageRunner::receive() {
  auto const packed = room_for_header();
  from_before_->post(packed);
  from_before_->wait("activations of the stages before");
  Header header{};
  std::memcpy(header.data(), packed.const_data_ptr(), sizeof header);
  if (header[Field::batch] != fingerprint_ || header[Field::micro_batch] != at_)
    throw Error("fulgurite.pipeline.other_batch",
                "rank " + std::to_string(group_->place().rank) +
                    " has another batch than the rank before it: all "
                    "processes of a pipeline read the same batches in the same order, so give their loaders the same "
                    "seed, and let no sample depend on the rank");
  std::vector<std::int64_t> sizes;
  for (std::int64_t d = 0; d != header[Field::dimensions]; ++d)
    sizes.push_back(header.at(Field::first_size + static_cast<std::size_t>(d)));
  auto input = at::empty(sizes, at::TensorOptions().dtype(static_cast<at::ScalarType>(header[Field::type])));
  if (input.numel() != 0) {
    from_before_->post(input);
    from_before_->wait("activations of the stages before");
  }
  if (header[Field::wants_gradient] != 0 && at::GradMode::is_enabled()) input.requires_grad_();
  return input;
}

}  // namespace fulgurite::distributed

namespace fulgurite {

FULGURITE_BODY int Pipeline::world() const { return run.group ? run.group->place().world : options().place().world; }

FULGURITE_BODY std::optional<MatmulScope> Pipeline::matmul_scope() const {
  return std::optional<MatmulScope>(std::in_place, matmul);
}

FULGURITE_BODY bool Pipeline::agree(bool any) const { return distributed::agree(group(), any); }

FULGURITE_BODY void Pipeline::reduce_in_place(std::span<double> values, std::span<Reduce const> how) const {
  auto const last = of_last(values);
  distributed::reduce_in_place(group(), values, how);
  for (std::size_t i = 0; i != values.size(); ++i)
    if (how[i] == Reduce::sum) values[i] = last[i];
}

FULGURITE_BODY std::string Pipeline::broadcast(std::string bytes, int from) const {
  return group()
      .exchange(rank() == from ? std::string_view(bytes) : std::string_view(), "broadcast")
      .at(static_cast<std::size_t>(from));
}

FULGURITE_BODY std::vector<std::string> Pipeline::gather(std::string const& bytes) const {
  return group().exchange(bytes, "gather");
}

FULGURITE_BODY void Pipeline::barrier(std::string_view what) const { group().exchange({}, what); }

FULGURITE_BODY void Pipeline::abort(std::string_view text) {
  run.has_failed = true;
  if (distributed::Group::is_open()) group().abort(text);
}

FULGURITE_BODY std::vector<std::string> Pipeline::account() const {
  auto lines = libtorch::native::products_account(matmul);
  auto const sent = run.runner ? run.runner->account() : run.account;
  lines.insert(lines.end(), sent.begin(), sent.end());
  return lines;
}

FULGURITE_BODY distributed::Group& Pipeline::group() const {
  return run.group ? *run.group : distributed::Group::of(options());
}

FULGURITE_BODY distributed::GroupOptions Pipeline::options() const {
  return {Collectives::gloo, devices, num_nodes, others, timeout, nullptr};
}

FULGURITE_BODY std::vector<double> Pipeline::of_last(std::span<double const> values) const {
  std::string_view const mine(reinterpret_cast<char const*>(values.data()), values.size_bytes());
  auto const said = group().exchange(mine, "values of the last rank");
  std::vector<double> last(values.size());
  std::memcpy(last.data(), said.back().data(), values.size_bytes());
  return last;
}

FULGURITE_BODY double Pipeline::of_last(double value) const {
  return of_last(std::span<double const>(&value, 1)).front();
}

}  // namespace fulgurite
