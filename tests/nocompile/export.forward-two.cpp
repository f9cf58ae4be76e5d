// refused: [fulgurite.export.forward] what is exported is the model's forward, and it has none that takes this example: write a public forward(Tensor const& x), which training_step may call, and give one tensor for each of its arguments
#include <toy.hpp>

#include <fulgurite/torch/export/forward.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor forward(toy::Tensor const& x, toy::Tensor const&) { return x; }
};

#ifdef LEGAL
using Example = std::tuple<toy::Tensor, toy::Tensor>;
#else
using Example = toy::Tensor;
#endif
int main() { return exporting::exportable<Net, Example, toy::Tensor>() ? 0 : 1; }
