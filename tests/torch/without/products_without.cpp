// A unit that is built without LIBXSMM, in a program where others have it: it compiles, and it is the same code.
#ifdef FULGURITE_HAS_LIBXSMM
#undef FULGURITE_HAS_LIBXSMM
#endif
#include "../fixtures.hpp"

#include <fulgurite/torch/native/matmul_scope.hpp>

using namespace fulgurite;

TEST_CASE("a unit without LIBXSMM computes with what the program has") {
  auto const a = torch::randn({16, 32}), b = torch::randn({32, 16});
  auto const before = torch::mm(a, b);
  MatmulScope const scope(Matmul::certified);
  CHECK(fixtures::same_bits(torch::mm(a, b), before));
  CHECK_FALSE(libtorch::native::products_account(Matmul::faster).empty());
  CHECK(libtorch::native::products_account(Matmul::libtorch).front().find("as was asked for") != std::string::npos);
}
