#pragma once
// The bodies of distributed/gradients.hpp.

#include <cstring>

#include <fulgurite/core/text.hpp>
#include <fulgurite/distributed/gradients.hpp>

namespace fulgurite::distributed {

FULGURITE_BODY bool ExchangePlan::overlaps() const { return buckets.size() > tensors.size(); }

FULGURITE_BODY void ExchangePlan::look() {
  for (auto& item : items) item.received = item.slot ? item.slot->received : item.parameter.grad().defined();
}

FULGURITE_BODY std::int64_t ExchangePlan::end_of(Item const& item) { return item.offset + item.parameter.numel(); }

FULGURITE_BODY void ExchangePlan::cut(std::int64_t most) {
  constexpr auto none = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> open(tensors.size(), none);
  for (auto i = items.size(); i-- != 0;) {
    auto& item = items[i];
    auto const bytes = static_cast<std::int64_t>(c10::elementSize(tensors[item.tensor].type));
    auto& now = open[item.tensor];
    if (now == none || (buckets[now].end - item.offset) * bytes > most) {
      now = buckets.size();
      buckets.push_back({item.tensor, item.offset, end_of(item)});
    }
    buckets[now].begin = item.offset;
    ++buckets[now].items;
    item.bucket = now;
  }
  if (items.empty()) return;
  auto const first = items.front().bucket, last = buckets.size() - 1;
  std::swap(buckets[first], buckets[last]);
  for (auto& item : items)
    if (item.bucket == first || item.bucket == last) item.bucket = first + last - item.bucket;
  cut_stretches();
  for (auto const i : loose) buckets[items[i].bucket].loose.push_back(i);
}

FULGURITE_BODY void ExchangePlan::cut_stretches() {
  std::vector<Stretch> parts;
  for (auto const& whole : stretches)
    for (auto first = whole.first, last = first; first != whole.last; first = last) {
      auto const bucket = items[first].bucket;
      while (last != whole.last && items[last].bucket == bucket) ++last;
      auto const offset = items[first].offset, size = end_of(items[last - 1]) - offset;
      buckets[bucket].stretches.push_back(parts.size());
      parts.push_back({whole.gradients.narrow(0, offset - whole.offset, size), whole.cleared, whole.tensor, offset,
                       size, first, last});
    }
  stretches = std::move(parts);
}

FULGURITE_BODY std::size_t ExchangePlan::tensor_of(at::Tensor const& parameter, bool compressed) {
  auto const type = compressed && parameter.is_floating_point() ? at::kBFloat16 : parameter.scalar_type();
  std::size_t i = 0;
  while (i != tensors.size() && (tensors[i].type != type || tensors[i].device != parameter.device())) ++i;
  if (i == tensors.size()) tensors.push_back({type, parameter.device()});
  tensors[i].as_gradients = tensors[i].as_gradients && type == parameter.scalar_type();
  return i;
}

FULGURITE_BODY bool ExchangePlan::has(at::Tensor const& parameter) const {
  for (auto const& item : items)
    if (item.parameter.is_same(parameter)) return true;
  return false;
}

FULGURITE_BODY void ExchangePlan::add_neighbours(libtorch::Arena& arena, libtorch::Arena::Buffer const& buffer,
                                                 bool compressed) {
  bool joined = false;
  for (auto const i : buffer.slots) {
    auto const& slot = arena.slots()[i];
    if (!slot.parameter.requires_grad() || has(slot.parameter)) {
      joined = false;
      continue;
    }
    auto const tensor = tensor_of(slot.parameter, compressed);
    if (!std::exchange(joined, true))
      stretches.push_back({buffer.gradients_too.narrow(0, slot.begin, 0), buffer.gradients, tensor,
                           tensors[tensor].size, 0, items.size(), items.size()});
    auto& stretch = stretches.back();
    auto const begin = slot.begin - stretch.gradients.storage_offset();
    items.push_back({slot.parameter, tensor, stretch.offset + begin, &slot});
    stretch.last = items.size();
    stretch.size = begin + slot.parameter.numel();
    tensors[tensor].size = stretch.offset + stretch.size;
    stretch.gradients = buffer.gradients_too.narrow(0, stretch.gradients.storage_offset(), stretch.size);
  }
}

FULGURITE_BODY void ReadyHooks::add(at::Tensor const& parameter, std::size_t number, Says const& says) {
  auto const accumulator = torch::autograd::impl::grad_accumulator(parameter);
  auto const key = accumulator->add_post_hook(std::make_unique<Hook>(number, says));
  hooks_.emplace_back(accumulator, key);
}

FULGURITE_BODY void ReadyHooks::clear() {
  for (auto const& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
  hooks_.clear();
}

FULGURITE_BODY ReadyHooks::Hook::Hook(std::size_t n, Says s) : number(n), says(std::move(s)) {}

FULGURITE_BODY void GradientBuckets::prepare(Group& group, std::int64_t head) {
  hooks_.clear();
  share_ = 1.0 / group.place().world;
  for (std::size_t i = 0; i != plan.tensors.size(); ++i) {
    auto& tensor = plan.tensors[i];
    tensor.head = i == 0 ? (head + unit - 1) / unit * unit : 0;
    tensor.buffer =
        at::empty({tensor.head + tensor.size}, at::TensorOptions().dtype(tensor.type).device(tensor.device));
  }
  look_at_parts();
  if (!plan.overlaps()) return;
  group.open_buckets();
  for (std::size_t i = 0; i != plan.items.size(); ++i)
    hooks_.add(plan.items[i].parameter, i, [this](std::size_t item) { ready(item); });
}

FULGURITE_BODY bool GradientBuckets::changed() const {
  return std::any_of(sent_.begin(), sent_.end(), [&](Sent const& one) {
    if (one.item != none && !plan.items[one.item].parameter.grad().is_same(one.tensor)) return true;
    return one.tensor.defined() && libtorch::version_of(one.tensor) != one.version;
  });
}

FULGURITE_BODY void GradientBuckets::sum(Group& group) {
  for (auto next = begun_.size(); next != plan.buckets.size(); ++next) {
    fill(plan.buckets[next]);
    if (plan.overlaps()) begin(group, next, false);
    else group.all_reduce(of_buckets_[next], occasion);
  }
  for (auto const& work : begun_) group.end(*work, occasion);
  begun_.clear();
  sent_.clear();
}

FULGURITE_BODY void GradientBuckets::scale() {
  for (auto const& tensor : plan.tensors)
    if (tensor.as_gradients && !tensor.divided_first()) tensor.sums.mul_(share_);
}

FULGURITE_BODY void GradientBuckets::look_at_parts() {
  of_items_.clear();
  of_stretches_.clear();
  of_buckets_.clear();
  for (auto& tensor : plan.tensors) tensor.sums = tensor.buffer.narrow(0, tensor.head, tensor.size);
  head_ = plan.tensors.empty() ? at::Tensor() : plan.tensors.front().buffer.narrow(0, 0, plan.tensors.front().head);
  for (auto const& item : plan.items) of_items_.push_back(part(item));
  for (auto const& stretch : plan.stretches)
    of_stretches_.push_back(plan.tensors[stretch.tensor].sums.narrow(0, stretch.offset, stretch.size));
  // The last bucket also carries the numbers in front.
  for (auto const& bucket : plan.buckets) {
    auto const& tensor = plan.tensors[bucket.tensor];
    auto const begin = of_buckets_.size() + 1 == plan.buckets.size() ? 0 : tensor.head + bucket.begin;
    of_buckets_.push_back(tensor.buffer.narrow(0, begin, tensor.head + bucket.end - begin));
  }
}

FULGURITE_BODY at::Tensor GradientBuckets::part(Item const& item) const {
  auto const flat = plan.tensors[item.tensor].sums.narrow(0, item.offset, item.parameter.numel());
  if (!item.slot) return flat.view(item.parameter.sizes());
  auto const& gradient = item.slot->gradient;
  return flat.as_strided(gradient.sizes(), gradient.strides(), flat.storage_offset());
}

FULGURITE_BODY void GradientBuckets::begin(Group& group, std::size_t index, bool in_backward) {
  begun_.push_back(group.begin_sum(of_buckets_[index], in_backward));
}

FULGURITE_BODY void GradientBuckets::ready(std::size_t index) {
  if (!group_ || ready_[index]) return;
  auto const& item = plan.items[index];
  if (item.slot && !item.parameter.grad().is_same(item.slot->gradient)) return;
  ready_[index] = true;
  --left_[item.bucket];
  for (auto next = begun_.size(); next + 1 < plan.buckets.size() && left_[next] == 0; ++next) {
    at::NoGradGuard const no_graph;
    fill(plan.buckets[next]);
    note(plan.buckets[next]);
    begin(*group_, next, true);
  }
}

FULGURITE_BODY void GradientBuckets::fill(Bucket const& bucket) {
  for (auto const i : bucket.stretches) of_stretches_[i].copy_(plan.stretches[i].gradients);
  for (auto const i : bucket.loose) {
    auto const& gradient = plan.items[i].parameter.grad();
    if (gradient.defined()) of_items_[i].copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
    else of_items_[i].zero_();
  }
  auto const& tensor = plan.tensors[bucket.tensor];
  if (tensor.divided_first()) tensor.sums.narrow(0, bucket.begin, bucket.end - bucket.begin).mul_(share_);
}

FULGURITE_BODY void GradientBuckets::note(Bucket const& bucket) {
  auto const add = [&](at::Tensor const& tensor, std::size_t item) {
    sent_.push_back({tensor, tensor.defined() ? libtorch::version_of(tensor) : 0, item});
  };
  for (auto const i : bucket.stretches) {
    auto const& stretch = plan.stretches[i];
    add(stretch.gradients, none);
    add(stretch.cleared, none);
    for (auto item = stretch.first; item != stretch.last; ++item) add(plan.items[item].parameter.grad(), item);
  }
  for (auto const i : bucket.loose) add(plan.items[i].parameter.grad(), i);
}

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

FULGURITE_BODY void Replica::take_listed(Group& group, std::vector<at::Tensor> all, std::string const& of) const {
  std::vector<std::string> lines;
  for (auto const& one : all) lines.push_back(line(name(one), one));
  require_same(group, lines, of);
  if (!all.empty()) AsBytes(std::move(all)).broadcast(group, "weights of rank 0");
}

FULGURITE_BODY std::string Replica::line(std::string const& name, at::Tensor const& tensor) {
  std::string text(name);
  text.append(" ").append(c10::toString(tensor.scalar_type())).append(" [").append(listed(tensor.sizes()));
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
  for (auto i = stretch.first; i != stretch.last; ++i)
    whole = whole && (numbers[i] > 0) == items[i].received && items[i].slot->held().is_same(items[i].slot->gradient);
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
