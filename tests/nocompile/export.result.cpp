// refused: [fulgurite.export.result] forward of an exported model returns a tensor, or a std::tuple or std::vector of tensors: other programs do not know its own types
#include <toy.hpp>

#include <fulgurite/torch/export/forward.hpp>

using namespace fulgurite;

struct Moments {
  toy::Tensor mean, deviation;
};
struct Net {
#ifdef LEGAL
  std::tuple<toy::Tensor, toy::Tensor> forward(toy::Tensor const& x) { return {x, x}; }
#else
  Moments forward(toy::Tensor const& x) { return {x, x}; }
#endif
};

int main() { return exporting::exportable<Net, toy::Tensor, toy::Tensor>() ? 0 : 1; }
