// Through fulgurite's trainer with its own optimizers and its own loader (P4).

#include "fitted.hpp"
#include "our_set.hpp"

namespace bench {

Loops fast_loops(fulgurite::Matmul products) {
  using namespace fulgurite;
  using Strategy = decltype(SingleDevice{cpu});
  return fitted_loops<Ours, Strategy>([=] { return SingleDevice{cpu, products}; }, our_digits);
}

}  // namespace bench
