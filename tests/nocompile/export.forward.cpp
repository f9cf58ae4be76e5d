// refused: [fulgurite.export.forward] what is exported is the model's forward, and it has none that takes this example: write a public forward(Tensor const& x), which training_step may call, and give one tensor for each of its arguments
#include <toy.hpp>

#include <fulgurite/torch/export/forward.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor training_step(toy::Tensor const& x) { return x; }
#ifdef LEGAL
  toy::Tensor forward(toy::Tensor const& x) { return x; }
#endif
};

// What export_torchscript asks of a model, here of one on toy tensors.
int main() { return exporting::exportable<Net, toy::Tensor, toy::Tensor>() ? 0 : 1; }
