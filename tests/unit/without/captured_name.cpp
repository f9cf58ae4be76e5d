// This unit alone of its program is built as one that has CUDA's headers: Captured, which is another class there, must
// not have the name that it has in the others.
#if !defined(FULGURITE_HAS_CUDA_RUNTIME)
#define FULGURITE_HAS_CUDA_RUNTIME 1
#endif

#include <string_view>
#include <typeinfo>

#include <catch2/catch_test_macros.hpp>

#include <fulgurite/policy/policies.hpp>

TEST_CASE("Captured with CUDA's headers has another name than without them") {
  std::string_view const name = typeid(fulgurite::Captured<int>*).name();
  CHECK(name.find("with_cuda_graphs") != std::string_view::npos);
}
