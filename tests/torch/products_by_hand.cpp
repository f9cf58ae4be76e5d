// Matrix products by kernels that tests have written: which faults are found, what is said of them, who computes.
#include "products.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include <ATen/ops/from_blob.h>

using namespace fulgurite;
using namespace fulgurite::libtorch::native;

namespace {

/// ProductKernels by hand for 16 rows and an inner length of 16, in LibTorch's order; what is wrong with them is the
/// test's choice. `width`: their columns; `distance`: those of the whole matrix.
enum class Fault { none, last_bit, skips_zeros, flushes_tiny, drops_nan, last_columns_in_two_chains };
template <Fault fault, int width = 16, int distance = width>
void by_hand(float const* b, float const* a, float* c, ...) {
  for (int i = 0; i != 16; ++i)
    for (int j = 0; j != width; ++j) {
      bool const halves = fault == Fault::last_columns_in_two_chains && width % 64 <= 16 && j >= width - width % 64;
      float sum[2] = {0, 0};
      for (int k = 0; k != 16; ++k)
        if (auto const x = a[16 * i + k], y = b[distance * k + j];
            !(fault == Fault::skips_zeros && x == 0) &&
            !(fault == Fault::drops_nan && (std::isnan(x) || std::isnan(y))))
          sum[halves ? k % 2 : 0] = std::fma(x, y, sum[halves ? k % 2 : 0]);
      auto& to = c[distance * i + j] = halves ? sum[0] + sum[1] : sum[0];
      if (fault == Fault::flushes_tiny && std::fpclassify(to) == FP_SUBNORMAL) to = std::copysign(0.0F, to);
    }
  if (fault == Fault::last_bit) c[255] = std::nextafter(c[255], 0.0F);
}
template <Fault fault>
constexpr ProductKernels kernels_by_hand{"a test", [](int, int n, int k, int, bool, int, int distance) -> Kernel {
                                           if (k != 16) return nullptr;  // of other blocks
                                           if (distance == 16) return &by_hand<fault>;
                                           return n == 80   ? &by_hand<fault, 80, 80>
                                                  : n == 48 ? &by_hand<fault, 48, 80>
                                                  : n == 32 ? &by_hand<fault, 32, 80>
                                                            : nullptr;
                                         }};

template <Fault fault>
bool is_certified(std::int64_t columns = 16, Epilogue epilogue = Epilogue::none) {
  Verdicts verdicts(&kernels_by_hand<fault>);
  auto const a = torch::randn({16, 16}), b = torch::randn({16, columns}),
             start = epilogue == Epilogue::row || epilogue == Epilogue::then_row ? torch::randn({columns})
                                                                                 : torch::randn({16, columns});
  return verdicts.find(*product_shape(a, b, epilogue), {numbers(a), numbers(b), numbers(start)}) != nullptr;
}

/// On every processor LibTorch's order "in blocks of 192" for an inner length of 384: the first block is the whole
/// product by LibTorch, and the second one adds nothing to it.
void all_in_first_block(float const* b, float const* a, float* c, ...) {
  static bool first = false;
  first = !first;
  if (!first) return void(std::fill_n(c, 256, -0.0F));
  auto const read = [](float const* from, std::int64_t rows, std::int64_t columns) {
    return at::from_blob(const_cast<float*>(from), {rows, columns}, at::kFloat);
  };
  product_by_libtorch(Epilogue::none, read(a, 16, 384), read(b, 384, 16), read(c, 16, 16), {});
}
constexpr ProductKernels in_two_ways{
    "a test", [](int, int, int k, int, bool, int, int) -> Kernel {
      return k == 16 ? &by_hand<Fault::none> : k == 192 ? &all_in_first_block : nullptr;
    }};

std::mutex lock;
std::set<std::thread::id> workers;
void noted(float const* b, float const* a, float* c, ...) {
  {
    std::lock_guard const held(lock);
    workers.insert(std::this_thread::get_id());
  }
  by_hand<Fault::none>(b, a, c);
}
constexpr ProductKernels noting{"a test", [](int, int, int, int, bool, int, int) -> Kernel { return &noted; }};

/// Notes how many of its calls each thread makes, and computes nothing.
std::map<std::thread::id, int> calls;
void counted(float const*, float const*, float*, ...) {
  std::lock_guard const held(lock);
  ++calls[std::this_thread::get_id()];
}

}  // namespace

TEST_CASE("kernels that differ from LibTorch's in one bit, or where zeros meet infinities, are not used") {
  CHECK(is_certified<Fault::none>());
  CHECK_FALSE(is_certified<Fault::last_bit>());
  CHECK_FALSE(is_certified<Fault::skips_zeros>());
}

TEST_CASE("kernels that flush tiny numbers or drop NaN are not used, whatever is added to the product") {
  for (auto const epilogue :
       {Epilogue::none, Epilogue::row, Epilogue::onto, Epilogue::zero_plus, Epilogue::then_onto, Epilogue::then_row}) {
    INFO("epilogue " << int(epilogue));
    CHECK(is_certified<Fault::none>(16, epilogue));
    CHECK_FALSE(is_certified<Fault::flushes_tiny>(16, epilogue));
    CHECK_FALSE(is_certified<Fault::drops_nan>(16, epilogue));
  }
}

TEST_CASE("where a kernel sums the last columns in another order, two strips of columns are tried") {
  CHECK(is_certified<Fault::none>(80));
  CHECK(is_certified<Fault::last_columns_in_two_chains>(80));        // 32 and 48
  CHECK_FALSE(is_certified<Fault::last_columns_in_two_chains>(16));  // nothing to cut
}

TEST_CASE("the account names each product once, wherever its numbers lie: blocks, and those that no block gives") {
  fixtures::Threads const one(1);
  Verdicts verdicts(&in_two_ways);
  auto const beside = [](std::int64_t rows, std::int64_t columns) {  // it begins four bytes further
    return torch::randn({rows * columns + 1}).narrow(0, 1, rows * columns).view({rows, columns});
  };
  auto const find = [&](at::Tensor const& a, at::Tensor const& b) {
    return verdicts.find(*product_shape(a, b, Epilogue::none), {numbers(a), numbers(b)});
  };
  CHECK(verdicts.account().empty());
  CHECK(find(torch::randn({16, 16}), torch::randn({16, 16})));
  CHECK(find(beside(16, 16), torch::randn({16, 16})));
  CHECK(verdicts.account() == "1 matrix products: 1 by a test in one block, 0 by LibTorch");
  CHECK(find(torch::randn({16, 384}), torch::randn({384, 16})));
  CHECK_FALSE(find(torch::randn({16, 24}), torch::randn({16, 24}).t()));
  CHECK_FALSE(find(torch::randn({16, 20}), torch::randn({20, 16})));
  CHECK_FALSE(find(beside(16, 20), beside(20, 16)));
  CHECK(verdicts.count().left == 3);
  CHECK(verdicts.account() == "4 matrix products: 1 by a test in one block, 1 by a test in blocks of 192, 2 by "
                              "LibTorch: no block gives the bits (16x16x20; 16x16x24, B transposed)");
}

TEST_CASE("the rows of a product are shared out evenly, however they are cut for the cache") {
  fixtures::skip_under_thread_sanitizer();
  constexpr ProductKernels counting{"a test", [](int, int, int, int, bool, int, int) -> Kernel { return &counted; }};
  auto const a = torch::randn({65, 768}), b = torch::randn({768, 128});
  fixtures::Threads const two(2);
  auto const shape = *product_shape(a, b, Epilogue::none);
  auto result = new_result(shape);
  calls.clear();
  Plan::make(shape, Blocks{192}, 0, counting)
      ->run(numbers(a), numbers(b), static_cast<float*>(result.mutable_data_ptr()));
  REQUIRE(calls.size() == 2);  // 18 and 18 rows, 18 and 11, for each of four blocks
  for (auto const& [worker, count] : calls) CHECK(count == 8);
}

TEST_CASE("a batched product that is large enough is computed by several threads") {
  fixtures::skip_under_thread_sanitizer();
  auto const a = torch::randn({256, 16, 16}), b = torch::randn({256, 16, 16});
  auto const by = [&](int threads) {
    fixtures::Threads const some(threads);
    auto const shape = *product_shape(a, b, Epilogue::none);
    auto const plan = Plan::make(shape, Blocks{16}, 0, noting).value();
    auto result = new_result(shape);
    workers.clear();
    plan.run(numbers(a), numbers(b), static_cast<float*>(result.mutable_data_ptr()));
    return result;
  };
  auto const alone = by(1);
  CHECK(workers.size() == 1);
  auto const together = by(3);
  CHECK(workers.size() > 1);
  CHECK(fixtures::same_bits(together, alone));
}
