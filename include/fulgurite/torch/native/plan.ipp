#pragma once
// The bodies of torch/native/plan.hpp.

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include <fulgurite/torch/device/internals.hpp>
#include <fulgurite/torch/native/plan.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(FULGURITE_HAS_LIBXSMM)
#include <libxsmm.h>
#endif

namespace fulgurite::libtorch::native {

FULGURITE_BULK_BODY std::atomic<ProductKernels const*>& process_kernels() {
  static std::atomic<ProductKernels const*> kernels = nullptr;
  return kernels;
}

#if defined(FULGURITE_HAS_LIBXSMM)
FULGURITE_BULK_BODY Kernel libxsmm_product(int m, int n, int k, int a_distance, bool a_turned, int b_distance,
                                           int c_distance) {
  float const one = 1, zero = 0;
  int const flags = a_turned ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  return libxsmm_smmdispatch(n, m, k, &b_distance, &a_distance, &c_distance, &one, &zero, &flags, nullptr);
}
#endif

// Loops over numbers besides the product: adding to the result, and transposing a matrix. LIBXSMM has a kernel that
// transposes; this one takes a third of its time.

namespace passes {

/// c = d + c, with as many numbers at a time as the processor adds at once; returns how many are done.
template <class Numbers>
[[gnu::always_inline]] inline std::int64_t add(float* c, float const* d, std::int64_t n) {
  constexpr std::int64_t width = sizeof(Numbers) / sizeof(float);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    Numbers x, y{};
    std::memcpy(&x, c + i, sizeof x);
    if (d) std::memcpy(&y, d + i, sizeof y);
    x = y + x;
    std::memcpy(c + i, &x, sizeof x);
  }
  return i;
}

#if defined(__x86_64__)
/// Transposes eight rows of eight numbers each, `next` apart. Written out, since compilers keep arrays of registers in
/// memory at the usual optimization levels.
[[gnu::target("avx2")]] inline void turn_8x8(float* to, std::int64_t distance, float const* from, std::int64_t next) {
  auto const r0 = _mm256_loadu_ps(from);
  auto const r1 = _mm256_loadu_ps(from + 1 * next);
  auto const r2 = _mm256_loadu_ps(from + 2 * next);
  auto const r3 = _mm256_loadu_ps(from + 3 * next);
  auto const r4 = _mm256_loadu_ps(from + 4 * next);
  auto const r5 = _mm256_loadu_ps(from + 5 * next);
  auto const r6 = _mm256_loadu_ps(from + 6 * next);
  auto const r7 = _mm256_loadu_ps(from + 7 * next);
  auto const a0 = _mm256_unpacklo_ps(r0, r1), a1 = _mm256_unpackhi_ps(r0, r1);
  auto const a2 = _mm256_unpacklo_ps(r2, r3), a3 = _mm256_unpackhi_ps(r2, r3);
  auto const b0 = _mm256_unpacklo_ps(r4, r5), b1 = _mm256_unpackhi_ps(r4, r5);
  auto const b2 = _mm256_unpacklo_ps(r6, r7), b3 = _mm256_unpackhi_ps(r6, r7);
  auto const c0 = _mm256_shuffle_ps(a0, a2, 0x44), d0 = _mm256_shuffle_ps(b0, b2, 0x44);
  auto const c1 = _mm256_shuffle_ps(a0, a2, 0xee), d1 = _mm256_shuffle_ps(b0, b2, 0xee);
  auto const c2 = _mm256_shuffle_ps(a1, a3, 0x44), d2 = _mm256_shuffle_ps(b1, b3, 0x44);
  auto const c3 = _mm256_shuffle_ps(a1, a3, 0xee), d3 = _mm256_shuffle_ps(b1, b3, 0xee);
  _mm256_storeu_ps(to, _mm256_permute2f128_ps(c0, d0, 0x20));
  _mm256_storeu_ps(to + 1 * distance, _mm256_permute2f128_ps(c1, d1, 0x20));
  _mm256_storeu_ps(to + 2 * distance, _mm256_permute2f128_ps(c2, d2, 0x20));
  _mm256_storeu_ps(to + 3 * distance, _mm256_permute2f128_ps(c3, d3, 0x20));
  _mm256_storeu_ps(to + 4 * distance, _mm256_permute2f128_ps(c0, d0, 0x31));
  _mm256_storeu_ps(to + 5 * distance, _mm256_permute2f128_ps(c1, d1, 0x31));
  _mm256_storeu_ps(to + 6 * distance, _mm256_permute2f128_ps(c2, d2, 0x31));
  _mm256_storeu_ps(to + 7 * distance, _mm256_permute2f128_ps(c3, d3, 0x31));
}
/// Transposes everything except the rows beyond a multiple of 16 and the columns beyond a multiple of 8. A cache line
/// holds 16 numbers of a column: both halves are used while it is in the cache.
[[gnu::target("avx2")]] inline void turn_256(float* to, float const* from, std::int64_t rows, std::int64_t columns,
                                             std::int64_t distance, std::int64_t to_distance) {
  for (std::int64_t r = 0; r + 16 <= rows; r += 16)
    for (std::int64_t c = 0; c + 8 <= columns; c += 8)
      for (std::int64_t const half : {r, r + 8})
        turn_8x8(to + half * to_distance + c, to_distance, from + c * distance + half, distance);
}
#endif

}  // namespace passes

FULGURITE_BULK_BODY void add_to(float* c, float const* d, std::int64_t n) {
  auto i = in_widest_vectors<float>([&]<class Numbers>()
                                        __attribute__((always_inline)) { return passes::add<Numbers>(c, d, n); });
  for (; i != n; ++i) c[i] = (d ? d[i] : 0.0F) + c[i];
}

FULGURITE_BULK_BODY void turn(float* to, float const* from, std::int64_t rows, std::int64_t columns,
                              std::int64_t distance, std::int64_t to_distance) {
  std::int64_t whole_rows = 0, whole_columns = 0;
#if defined(__x86_64__)
  static bool const half = __builtin_cpu_supports("avx2");
  if (half) {
    whole_rows = rows / 16 * 16, whole_columns = columns / 8 * 8;
    passes::turn_256(to, from, rows, columns, distance, to_distance);
  }
#endif
  for (std::int64_t r = 0; r != rows; ++r)
    for (std::int64_t c = r < whole_rows ? whole_columns : 0; c != columns; ++c)
      to[r * to_distance + c] = from[c * distance + r];
}

FULGURITE_BULK_BODY std::int64_t ProductShape::work() const { return matrices() * m * n * k; }

FULGURITE_BULK_BODY std::string ProductShape::text() const {
  auto const with = [](char const* what) { return std::string(what); };
  return (batch == 0 ? "" : std::to_string(batch) + " of ") + std::to_string(m) + "x" + std::to_string(n) + "x" +
         std::to_string(k) + with(a[2] == 1 ? "" : ", A transposed") + with(b[2] == 1 ? "" : ", B transposed") +
         with(epilogue == Epilogue::row         ? ", with a bias"
              : epilogue == Epilogue::zero_plus ? ", added to zero"
              : epilogue == Epilogue::onto      ? ", added to the result"
              : epilogue == Epilogue::then_onto ? ", then added to a gradient"
              : epilogue == Epilogue::then_row  ? ", then a bias"
                                                : "") +
         (threads == 1 ? "" : ", " + std::to_string(threads) + " threads");
}

FULGURITE_BULK_BODY std::size_t ProductHash::operator()(ProductShape const& shape) const {
  std::uint64_t all = 0x9e3779b97f4a7c15U;
  for (std::int64_t const number : {shape.batch, shape.m, shape.n, shape.k, shape.a[1], shape.a[2], shape.b[1],
                                    shape.b[2], std::int64_t(shape.epilogue) + 8 * std::int64_t(shape.threads)})
    all = (all ^ static_cast<std::uint64_t>(number)) * 0xff51afd7ed558ccdU;
  return static_cast<std::size_t>(all ^ (all >> 32));
}

FULGURITE_BULK_BODY std::optional<Order> order_of(std::int64_t rows, std::int64_t columns,
                                                  std::array<std::int64_t, 3> const& strides) {
  if (strides[2] == 1 && strides[1] >= columns) return Order{false, strides[1]};
  if (strides[1] == 1 && strides[2] >= rows) return Order{true, strides[2]};
  return std::nullopt;
}

FULGURITE_BULK_BODY std::uint8_t beyond(void const* where) {
  return static_cast<std::uint8_t>(reinterpret_cast<std::uintptr_t>(where) % 64);
}

FULGURITE_BULK_BODY bool is_plain_float(at::Tensor const& tensor) {
  static constexpr c10::DispatchKeySet flags({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                              c10::DispatchKey::ZeroTensor, c10::DispatchKey::Python});
  return tensor.defined() && tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.layout() == at::kStrided &&
         !tensor.key_set().has_any(flags) && !tensor.has_names();
}

FULGURITE_BULK_BODY std::optional<ProductShape> product_shape(at::Tensor const& a, at::Tensor const& b,
                                                              Epilogue epilogue, std::uint8_t c_beyond) {
  auto const dims = a.dim();
  if (!is_plain_float(a) || !is_plain_float(b) || (dims != 2 && dims != 3) || b.dim() != dims) return std::nullopt;
  auto const as = a.sizes(), bs = b.sizes(), ax = a.strides(), bx = b.strides();
  auto const r = static_cast<std::size_t>(dims - 2), c = r + 1;
  ProductShape shape;
  if (dims == 3) {
    if (as[0] != bs[0] || as[0] == 0) return std::nullopt;
    shape.batch = as[0];
    shape.a[0] = ax[0];
    shape.b[0] = bx[0];
  }
  shape.m = as[r];
  shape.k = as[c];
  shape.n = bs[c];
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0 || bs[r] != shape.k) return std::nullopt;
  shape.a[1] = ax[r];
  shape.a[2] = ax[c];
  shape.b[1] = bx[r];
  shape.b[2] = bx[c];
  auto const x = order_of(shape.m, shape.k, shape.a), y = order_of(shape.k, shape.n, shape.b);
  constexpr std::int64_t most = std::numeric_limits<int>::max() / 4;
  if (!x || !y || x->distance > most || y->distance > most || shape.m > most || shape.n > most || shape.a[0] < 0 ||
      shape.b[0] < 0)
    return std::nullopt;
  shape.beyond = {beyond(a.const_data_ptr()), beyond(b.const_data_ptr()), c_beyond};
  shape.epilogue = epilogue;
  shape.threads = at::get_num_threads();
  return shape;
}

FULGURITE_BULK_BODY float* scratch(std::size_t use, std::int64_t size) {
  thread_local std::vector<float> all[4];
  if (all[use].size() < static_cast<std::size_t>(size)) all[use].resize(static_cast<std::size_t>(size));
  return all[use].data();
}

FULGURITE_BULK_BODY std::int64_t Blocks::next(std::int64_t left) const {
  if (!halves) return std::min(length, left);
  return left >= 2 * length ? length : left > length ? (left + 1) / 2 : left;
}

FULGURITE_BULK_BODY std::array<std::int64_t, 3> Blocks::lengths(std::int64_t whole) const {
  std::array<std::int64_t, 3> all{};
  for (std::int64_t left = whole, block = 0; left != 0; left -= block) {
    block = next(left);
    *std::find_if(all.begin(), all.end() - 1, [&](auto known) { return known == 0 || known == block; }) = block;
  }
  return all;
}

FULGURITE_BULK_BODY std::optional<Plan> Plan::make(ProductShape const& shape, Blocks const& blocks, std::int64_t strip,
                                                   ProductKernels const& kernels) {
  Plan plan(shape, blocks, strip);
  std::int64_t const rows[] = {plan.panel_, shape.m % plan.panel_}, widths[] = {shape.n - strip, strip};
  auto const& lengths = plan.lengths_;
  for (std::size_t r = 0; r != 2; ++r)
    for (std::size_t l = 0; l != lengths.size(); ++l)
      for (std::size_t w = 0; w != 2; ++w) {
        if (rows[r] == 0 || lengths[l] == 0 || widths[w] == 0) continue;
        plan.kernel_[r][l][w] = kernels.product(int(rows[r]), int(widths[w]), int(lengths[l]), int(plan.a_.distance),
                                                plan.a_.turned, int(plan.b_next_), int(shape.n));
        if (!plan.kernel_[r][l][w]) return std::nullopt;
      }
  return plan;
}

FULGURITE_BULK_BODY void Plan::run(float const* a, float const* b, float* c, float const* row) const {
  if (panel_ == shape_.m && shape_.batch == 0) return rows(a, b_.turned ? turned(b) : b, c, row, shape_.m);
  auto const panels = (shape_.m + panel_ - 1) / panel_, all = panels * shape_.matrices();
  // Each thread transposes B for itself: a copy that another has written is slower to read than the original.
  auto const share = [&](std::int64_t thread) {
    auto const begin = thread * all / threads_, end = (thread + 1) * all / threads_;
    float const* mine = nullptr;
    for (auto i = begin; i != end; ++i) {
      auto const matrix = i / panels, from = i % panels * panel_;
      if (i == begin || from == 0) {
        mine = b + matrix * shape_.b[0];
        if (b_.turned) mine = turned(mine);
      }
      rows(a + matrix * shape_.a[0] + from * shape_.a[1], mine, c + (matrix * shape_.m + from) * shape_.n, row,
           std::min(panel_, shape_.m - from));
    }
  };
  if (threads_ > 1) on_threads(threads_, share);
  else share(0);
}

FULGURITE_BULK_BODY Plan::Plan(ProductShape const& shape, Blocks const& blocks, std::int64_t strip)
    : shape_(shape),
      a_(*order_of(shape.m, shape.k, shape.a)),
      b_(*order_of(shape.k, shape.n, shape.b)),
      blocks_(blocks),
      lengths_(blocks.lengths(shape.k)),
      strip_(strip),
      panel_(shape.m),
      b_next_(b_.turned ? with_gap(shape.n) : b_.distance),
      threads_(shape.threads_used()) {
  // C is then best kept in the cache. Up to 16 columns are summed in an order that depends on the rows.
  bool const twice = block() != shape.k || shape.epilogue != Epilogue::none;
  if (twice && shape.n > 16) panel_ = std::min(panel_, std::max<std::int64_t>(16, cached / shape.n / 16 * 16));
  if (threads_ > 1 && shape.matrices() < 4 * threads_) {
    // Equal shares: of 65 rows in panels of 32, one of two threads would have 64. Kernels take rows in twos.
    auto const parts = threads_ / std::gcd<std::int64_t>(threads_, shape.matrices());
    auto const panels = ((shape.m + panel_ - 1) / panel_ + parts - 1) / parts * parts;
    auto const each = (shape.m + panels - 1) / panels;
    panel_ = std::min(panel_, std::max<std::int64_t>(8, (each + 1) / 2 * 2));
  }
}

FULGURITE_BULK_BODY float const* Plan::turned(float const* b) const {
  auto* const to = scratch(0, shape_.k * b_next_);
  turn(to, b, shape_.k, shape_.n, b_.distance, b_next_);
  return to;
}

FULGURITE_BULK_BODY void Plan::rows(float const* a, float const* b, float* c, float const* row,
                                    std::int64_t count) const {
  auto const& kernels = kernel_[count == panel_ ? 0 : 1];
  auto const size = count * shape_.n;
  bool const begun = shape_.epilogue == Epilogue::onto, later = shape_.epilogue == Epilogue::then_onto;
  float* const to = later ? scratch(2, size) : c;
  float* const sum = begun || block() != shape_.k ? scratch(1, size) : nullptr;
  for (std::int64_t j = 0, length = 0; j < shape_.k; j += length) {
    length = blocks_.next(shape_.k - j);
    auto const& kernel = kernels[length == lengths_[0] ? 0 : length == lengths_[1] ? 1 : 2];
    if (j == 0 && !begun) {
      strips(kernel, b, a, to);
      if (shape_.epilogue == Epilogue::zero_plus) add_to(to, nullptr, size);
      if (shape_.epilogue == Epilogue::row) add_row(to, row, count);
    } else {
      strips(kernel, b + j * b_next_, a + j * (a_.turned ? a_.distance : 1), sum);
      add_to(to, sum, size);
    }
  }
  if (later) add_to(c, to, size);
  if (shape_.epilogue == Epilogue::then_row) add_row(to, row, count);
}

FULGURITE_BULK_BODY void Plan::add_row(float* c, float const* row, std::int64_t count) const {
  for (std::int64_t i = 0; i != count; ++i) add_to(c + i * shape_.n, row, shape_.n);
}

FULGURITE_BULK_BODY void Plan::strips(Kernel const (&kernel)[2], float const* b, float const* a, float* c) const {
  kernel[0](b, a, c);
  if (strip_ != 0) kernel[1](b + (shape_.n - strip_), a, c + (shape_.n - strip_));
}

}  // namespace fulgurite::libtorch::native
