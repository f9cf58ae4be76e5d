#pragma once
// The bodies of distributed/gradients.hpp.

#include <cstring>

#include <fulgurite/distributed/gradients.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY void require_same(Group& group, std::vector<std::string> const& lines, std::string const& of) {
  std::string all;
  for (auto const& line : lines) all.append(line).append("\n");
  auto const said = group.exchange(all, of);
  for (std::size_t rank = 1; rank != said.size(); ++rank) {
    if (said[rank] == said[0]) continue;
    std::string_view zero(said[0]), other(said[rank]);
    auto const next = [](std::string_view& text) {
      auto const line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      return line.empty() ? std::string_view("none") : line;
    };
    for (std::size_t number = 0;; ++number) {
      auto const left = next(zero), right = next(other);
      if (left == right && left != "none") continue;
      std::string sentence("rank ");
      sentence.append(std::to_string(rank)).append(" has another model than rank 0, by the ").append(of);
      sentence.append(": number ").append(std::to_string(number)).append(" is '").append(left);
      sentence.append("' in rank 0 and '").append(right).append("' in rank ").append(std::to_string(rank));
      throw Error("fulgurite.distributed.model",
                  sentence.append(". All ranks have to make the same model and the same optimizers, in the same order: "
                                  "let nothing that they are made from depend on the rank"));
    }
  }
}

FULGURITE_BODY AsBytes::AsBytes(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  std::int64_t size = 0;
  for (auto const& tensor : tensors_) {
    places_.push_back(size);
    size += (static_cast<std::int64_t>(tensor.nbytes()) + unit - 1) / unit * unit;
  }
  if (!tensors_.empty()) bytes_ = at::empty({size}, tensors_.front().options().dtype(at::kByte).requires_grad(false));
}

FULGURITE_BODY void AsBytes::broadcast(Group& group, std::string_view what) {
  at::NoGradGuard const no_graph;
  bool const sends = group.place().rank == 0;
  if (sends)
    for (std::size_t i = 0; i != tensors_.size(); ++i) part(i).copy_(tensors_[i].detach());
  group.broadcast(bytes_, 0, what);
  if (!sends)
    for (std::size_t i = 0; i != tensors_.size(); ++i) tensors_[i].copy_(part(i));
}

FULGURITE_BODY at::Tensor AsBytes::part(std::size_t i) const {
  auto const& tensor = tensors_[i];
  return bytes_.narrow(0, places_[i], static_cast<std::int64_t>(tensor.nbytes()))
      .view(tensor.scalar_type())
      .view(tensor.sizes());
}

FULGURITE_BODY std::string Replica::name(at::Tensor const& parameter) const {
  auto const found = names_.find(parameter.unsafeGetTensorImpl());
  return found == names_.end() ? "a tensor that the model does not have" : found->second;
}

FULGURITE_BODY std::string Replica::line(std::string const& name, at::Tensor const& tensor) {
  std::string text(name);
  text.append(" ").append(c10::toString(tensor.scalar_type())).append(" [");
  for (std::int64_t d = 0; d != tensor.dim(); ++d)
    text.append(d == 0 ? "" : ", ").append(std::to_string(tensor.size(d)));
  return text.append(tensor.requires_grad() ? "]" : "] frozen");
}

FULGURITE_BODY void UsedParameters::check(std::vector<Item> const& items, std::size_t list, Replica const& replica) {
  if (!promised_.all && !promised_.as_in_first) return;
  if (std::none_of(items.begin(), items.end(), [](auto const& item) { return item.received; })) return;
  if (promised_.all) require_all(items, replica);
  if (promised_.as_in_first) require_as_in_first(items, list, replica);
}

FULGURITE_BODY std::vector<bool> const* UsedParameters::used(std::size_t list) const {
  auto const first = first_.find(list);
  return first == first_.end() ? nullptr : &first->second;
}

FULGURITE_BODY void UsedParameters::require_all(std::vector<Item> const& items, Replica const& replica) {
  for (auto const& item : items)
    if (!item.received)
      throw Error("fulgurite.distributed.unused_parameter",
                  "this step gave parameter '" + replica.name(item.parameter) +
                      "' no gradient, and find_unused_parameters = false says that each step uses all of them: use "
                      "it in the loss, freeze it, or leave the option out");
}

FULGURITE_BODY void UsedParameters::require_as_in_first(std::vector<Item> const& items, std::size_t list,
                                                        Replica const& replica) {
  auto const [known, is_first] = first_.try_emplace(list);
  auto& first = known->second;
  if (is_first)
    for (auto const& item : items) first.push_back(item.received);
  for (std::size_t i = 0; i != items.size(); ++i) {
    bool const used = items[i].received;
    if (used == first[i]) continue;
    std::string const otherwise = used ? "a gradient, and the first one did not" : "no gradient, and the first one did";
    throw Error("fulgurite.distributed.static_graph",
                "this step gave parameter '" + replica.name(items[i].parameter) + "' " + otherwise +
                    ", though static_graph = true says that all steps use the same parameters: leave the option out");
  }
}

FULGURITE_BODY void require_counts(at::ScalarType type, int world) {
  int const most = type == at::kBFloat16 ? 256 : type == at::kHalf ? 2048 : 1 << 24;
  if (world > most)
    throw Error("fulgurite.distributed.too_many",
                std::to_string(world) + " processes exchange gradients of type " + c10::toString(type) +
                    ", which counts to " + std::to_string(most) +
                    " only: exchange float32, without compression and with parameters in float32");
}

FULGURITE_BODY GradientExchange::GradientExchange(bool compressed, double bucket_cap_mb, PromisedUse promised)
    : compressed_(compressed),
      most_(static_cast<std::int64_t>(std::min(bucket_cap_mb, 1e9) * 1024 * 1024)),
      used_(promised) {}

FULGURITE_BODY std::size_t GradientExchange::again() const { return buckets_.plan.items.size() + most_riders_; }

FULGURITE_BODY std::vector<double> GradientExchange::numbers_of(std::span<double const> riders, bool changed) const {
  std::vector<double> numbers;
  for (auto const& item : buckets_.plan.items) numbers.push_back(item.received ? 1.0 : 0.0);
  numbers.insert(numbers.end(), riders.begin(), riders.end());
  numbers.resize(again());
  numbers.push_back(changed ? 1.0 : 0.0);
  return numbers;
}

FULGURITE_BODY std::vector<double> GradientExchange::summed(Group& group, std::span<double const> riders,
                                                            bool changed) {
  auto numbers = numbers_of(riders, changed);
  auto const head = buckets_.head();
  numbers.resize(static_cast<std::size_t>(head.numel()));
  auto as_tensor = at::empty({head.numel()}, at::TensorOptions().dtype(at::kDouble));
  std::memcpy(as_tensor.mutable_data_ptr(), numbers.data(), numbers.size() * sizeof(double));
  head.copy_(as_tensor);
  buckets_.sum(group);
  as_tensor.copy_(head);
  std::memcpy(numbers.data(), as_tensor.const_data_ptr(), numbers.size() * sizeof(double));
  return numbers;
}

FULGURITE_BODY std::vector<double> GradientExchange::exchanged_numbers(Group& group,
                                                                       std::span<double const> riders) const {
  auto const mine = numbers_of(riders, false);
  std::vector<double> sum(mine.size());
  std::string_view const bytes(reinterpret_cast<char const*>(mine.data()), mine.size() * sizeof(double));
  for (auto const& said : group.exchange(bytes, "exchanging who has gradients"))
    for (std::size_t i = 0; i != sum.size(); ++i) {
      double number = 0;
      std::memcpy(&number, said.data() + i * sizeof(double), sizeof(double));
      sum[i] += number;
    }
  return sum;
}

FULGURITE_BODY void GradientExchange::write_stretch(std::size_t index, std::vector<double> const& numbers,
                                                    double share) {
  auto const& stretch = buckets_.plan.stretches[index];
  bool whole = true;
  auto const& items = buckets_.plan.items;
  for (auto i = stretch.first; i != stretch.last; ++i) whole = whole && (numbers[i] > 0) == items[i].received;
  if (whole) return write(stretch.gradients, buckets_.part_of_stretch(index), stretch.tensor, share);
  for (auto i = stretch.first; i != stretch.last; ++i) write_item(i, numbers[i], share);
}

FULGURITE_BODY void GradientExchange::write_item(std::size_t index, double count, double share) {
  if (count == 0) return;
  auto& item = buckets_.plan.items[index];
  auto& gradient = item.parameter.mutable_grad();
  if (!gradient.defined() || gradient.is_sparse())
    gradient = item.slot ? item.slot->gradient : at::empty_like(item.parameter.detach());
  write(gradient, buckets_.part_of_item(index), item.tensor, share);
}

FULGURITE_BODY void GradientExchange::write(at::Tensor const& to, at::Tensor const& sum, std::size_t tensor,
                                            double share) const {
  to.copy_(sum);
  if (!buckets_.plan.tensors[tensor].as_gradients) to.mul_(share);
}

}  // namespace fulgurite::distributed
