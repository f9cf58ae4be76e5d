// Which kind of processor this is, of those that bars of matrix products distinguish.

#include <fulgurite/torch/native/products.hpp>

#include <string>

#include "workloads.hpp"

namespace bench {

std::string kind_of_processor() {
  using fulgurite::libtorch::native::Processor, fulgurite::libtorch::native::this_processor;
  auto const amd = this_processor();
#if defined(__x86_64__)
  if (__builtin_cpu_is("intel")) return "Intel";
#endif
  return amd == Processor::amd_whole       ? "AMD with AVX-512"
         : amd == Processor::amd_in_halves ? "AMD with AVX-512 in halves"
                                           : "another";
}

}  // namespace bench
