// Batches of every kind: moved, counted, converted, and left alone. The meta device stands in for a GPU.
#include "fixtures.hpp"

#include <any>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include <boost/hana/define_struct.hpp>

#include <fulgurite/torch/device/single_device.hpp>

namespace {
using torch::Tensor;
namespace libtorch = fulgurite::libtorch;
using fulgurite::LibTorch;

struct Plain {
  Tensor data, target;
};
struct Mixed {
  Tensor image;
  std::optional<int> index;
  std::string name;
  std::vector<float> weights;
  std::optional<Tensor> mask;
  std::map<std::string, Tensor> more;
  Plain inner;
};
struct WithArray {
  Tensor data;
  char name[4];
};
struct WithTensorArray {
  Tensor levels[2];
};
struct Base {
  int id = 0;
};
struct Derived : Base {
  Tensor data;
};
struct Reflected {
  Reflected() = default;
  BOOST_HANA_DEFINE_STRUCT(Reflected, (Tensor, data), (int, id), (Tensor, target));

 private:
  [[maybe_unused]] int secret_ = 0;
};
struct MovesItself {
  explicit MovesItself(Tensor t) : hidden(std::move(t)) {}
  MovesItself to(torch::Device device) const { return MovesItself(hidden.to(device)); }
  long batch_size() const { return 77; }
  Tensor const& tensor() const { return hidden; }

 private:
  Tensor hidden;
};
struct NoTensors {
  int a;
  std::string b;
  std::vector<std::vector<double>> c;
};
struct Odd {  // types that take much, little, or nothing
  std::any anything;
  std::function<void()> call;
  std::variant<int, std::string> either;
  std::shared_ptr<int> shared;
  std::span<float> view;
  std::string_view text;
  torch::Device device;
  at::Scalar scalar;
  std::chrono::seconds time;
  float const* pointer;
  std::optional<std::string> word;
  Tensor data;
};
struct MoveOnly {
  std::unique_ptr<int> own;
  Tensor data;
};
struct Tree {
  Tensor value;
  std::vector<Tree> children;
};
struct Twelve {
  Tensor a;
  int b, c, d, e, f, g, h, i, j, k;
  Tensor l;
};
}  // namespace
namespace counted {
struct Batch {
  std::vector<int> tokens;
};
inline std::size_t batch_size(Batch const& batch) { return batch.tokens.size(); }
}  // namespace counted

namespace {

template <class B>
std::vector<at::DeviceType> places(B const& batch) {
  std::vector<at::DeviceType> where;
  LibTorch::each_tensor(batch, [&](Tensor const& t) { where.push_back(t.device().type()); });
  return where;
}
Tensor ones(long rows) { return torch::ones({rows, 2}); }

/// All tensors of a copy are on the meta device, those of the batch where they were.
template <class B>
void check_moves(B const& batch, std::size_t tensors) {
  auto const moved = libtorch::moved(batch, at::kMeta);
  static_assert(std::is_same_v<decltype(libtorch::moved(batch, at::kMeta)), B>);
  CHECK(places(moved) == std::vector<at::DeviceType>(tensors, at::kMeta));
  CHECK(places(batch) == std::vector<at::DeviceType>(tensors, at::kCPU));
}

static_assert(fulgurite::aggregate::fields<Plain> == 2);
static_assert(fulgurite::aggregate::fields<Mixed> == 7);
static_assert(fulgurite::aggregate::fields<Twelve> == 12);
static_assert(fulgurite::aggregate::fields<Odd> == 12);
static_assert(fulgurite::aggregate::fields<MoveOnly> == 2);
static_assert(fulgurite::aggregate::fields<WithArray> == 0, "array members are not looked into");
static_assert(fulgurite::aggregate::fields<WithTensorArray> == 0);
static_assert(fulgurite::aggregate::fields<Derived> == 0, "nor are base classes");
static_assert(fulgurite::aggregate::fields<Tensor> == 0);
static_assert(fulgurite::aggregate::fields<NoTensors> == 3);
static_assert(libtorch::holds_tensors<Plain> && libtorch::holds_tensors<Mixed const&> && libtorch::holds_tensors<Tree>);
static_assert(!libtorch::holds_tensors<NoTensors> && !libtorch::holds_tensors<int> &&
              !libtorch::holds_tensors<std::vector<std::string>>);
static_assert(!libtorch::holds_tensors<std::map<std::string, std::vector<int>>> &&
              !libtorch::holds_tensors<std::variant<int>>);
}  // namespace

TEST_CASE("every kind of batch moves to a device", "[batches]") {
  auto const t = ones(3);
  check_moves(t, 1);
  check_moves(std::pair(t, ones(3)), 2);
  check_moves(std::tuple(t, 5, std::string("x"), ones(3)), 2);
  check_moves(std::array{t, t, t}, 3);
  check_moves(std::vector{t, t}, 2);
  check_moves(std::list{t, t}, 2);
  check_moves(std::map<std::string, Tensor>{{"a", t}, {"b", t}}, 2);
  check_moves(std::unordered_map<std::string, Tensor>{{"a", t}, {"b", t}}, 2);
  check_moves(std::optional(t), 1);
  check_moves(std::optional<Tensor>(), 0);
  check_moves(torch::data::Example<>(t, ones(3)), 2);
  check_moves(torch::data::Example<Tensor, void>(t), 1);
  check_moves(std::vector{torch::data::Example<>(t, t)}, 2);
  check_moves(std::map<int, std::vector<std::pair<Tensor, std::optional<Tensor>>>>{{1, {{t, t}, {t, std::nullopt}}}},
              3);
  check_moves(Plain{t, t}, 2);
  check_moves(Mixed{t, 3, "name", {1.0F}, t, {{"k", t}}, {t, t}}, 5);
  check_moves(Twelve{t, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, t}, 2);
  check_moves(Tree{t, {Tree{t, {}}, Tree{t, {Tree{t, {}}}}}}, 4);
  check_moves(Odd{1, {}, 2, {}, {}, "x", torch::kCPU, 1.0, {}, nullptr, {}, t}, 1);
  Reflected reflected;
  reflected.data = reflected.target = t;
  check_moves(reflected, 2);
  CHECK(LibTorch::batch_size(reflected) == 3);
}

TEST_CASE("a batch with its own to(device) is asked, not walked", "[batches]") {
  MovesItself const batch(ones(2));
  CHECK(libtorch::moved(batch, at::kMeta).tensor().is_meta());
  CHECK(libtorch::moved(std::pair(batch, 1), at::kMeta).first.tensor().is_meta());
  CHECK(LibTorch::batch_size(batch) == 77);
}

TEST_CASE("a batch that cannot be copied is moved in place", "[batches]") {
  MoveOnly batch{std::make_unique<int>(1), ones(2)};
  auto&& moved = libtorch::moved(batch, at::kMeta);
  CHECK(&moved == &batch);
  CHECK(batch.data.is_meta());
  CHECK(libtorch::moved(MoveOnly{nullptr, ones(2)}, at::kMeta).data.is_meta());
}

TEST_CASE("a packed sequence moves and converts as a whole", "[batches]") {
  namespace rnn = torch::nn::utils::rnn;
  auto const packed = rnn::pack_padded_sequence(torch::ones({5, 3, 2}), torch::tensor({5, 4, 2}), false, false);
  CHECK(LibTorch::batch_size(packed) == 3);
  CHECK(LibTorch::batch_size(std::pair(packed, ones(9))) == 3);
  auto const moved = libtorch::moved(packed, at::kMeta);
  CHECK(moved.data().is_meta());
  CHECK(moved.batch_sizes().is_cpu());  // by definition
  auto const converted = LibTorch::convert_input(std::pair(packed, torch::tensor({1})), fulgurite::Bf16True{});
  CHECK(converted.first.data().scalar_type() == at::kBFloat16);
  CHECK(converted.second.scalar_type() == at::kLong);
}

TEST_CASE("on the CPU a batch is handed through: same object, no reference count", "[batches]") {
  fulgurite::SingleDevice strategy{fulgurite::cpu};
  static_assert(decltype(strategy)::on_gpu == fulgurite::Known::no);
  Plain batch{ones(3), ones(3)};
  auto const impl = batch.data.use_count();
  auto&& moved = strategy.move(batch);
  auto&& input = LibTorch::convert_input(moved, fulgurite::Float32{});
  CHECK(&input == &batch);
  CHECK(batch.data.use_count() == impl);
  Plain const& constant = batch;
  CHECK(&strategy.move(constant) == &batch);
  static_assert(std::is_same_v<decltype(strategy.move(Plain{})), Plain>,
                "a temporary is moved into the result, never dangling");
  static_assert(std::is_same_v<decltype(LibTorch::convert_input(Plain{}, fulgurite::Float64{})), Plain>);
}

TEST_CASE("batches without tensors are returned as they came, on any device", "[batches]") {
  NoTensors batch{1, "b", {{1.0}}};
  auto&& moved = libtorch::moved(batch, at::kMeta);
  CHECK(&moved == &batch);
  CHECK(LibTorch::batch_size(batch) == 0);
  CHECK(LibTorch::batch_size(5) == 0);
  WithArray odd{ones(2), "abc"};  // cannot be looked into: untouched
  CHECK(&libtorch::moved(odd, at::kMeta) == &odd);
}

TEST_CASE("the batch size is the leading extent of the first tensor", "[batches]") {
  CHECK(LibTorch::batch_size(ones(7)) == 7);
  CHECK(LibTorch::batch_size(torch::tensor(1.0)) == 1);
  CHECK(LibTorch::batch_size(Tensor()) == 0);
  CHECK(LibTorch::batch_size(std::tuple(std::string("x"), std::optional<Tensor>(), ones(4), ones(9))) == 4);
  CHECK(LibTorch::batch_size(std::map<std::string, Tensor>{{"b", ones(2)}, {"a", ones(5)}}) == 5);
  CHECK(LibTorch::batch_size(counted::Batch{{1, 2, 3}}) == 3);
  CHECK(LibTorch::batch_size(Plain{ones(6), ones(6)}) == 6);
}

TEST_CASE("inputs take the type of the true precisions", "[batches][precision]") {
  Plain const batch{ones(2), torch::tensor({1, 2})};
  auto const check = [&](auto precision, at::ScalarType type) {
    auto const converted = LibTorch::convert_input(batch, precision);
    CHECK(converted.data.scalar_type() == type);
    CHECK(converted.target.scalar_type() == at::kLong);
    CHECK(batch.data.scalar_type() == at::kFloat);
  };
  check(fulgurite::Float64{}, at::kDouble);
  check(fulgurite::Bf16True{}, at::kBFloat16);
  check(fulgurite::Fp16True{}, at::kHalf);
  CHECK(&LibTorch::convert_input(batch, fulgurite::Bf16Mixed{}) == &batch);
  CHECK(&LibTorch::convert_input(batch, fulgurite::Fp16Mixed{}) == &batch);
}
