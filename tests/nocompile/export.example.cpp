// refused: [fulgurite.export.example] an example is one tensor, or a std::tuple with one tensor for each argument of forward: std::tuple{images, lengths}
#include <vector>

#include <toy.hpp>

#include <fulgurite/torch/export/forward.hpp>

using namespace fulgurite;

struct Net {
  toy::Tensor forward(toy::Tensor const& x, toy::Tensor const&) { return x; }
};

#ifdef LEGAL
using Example = std::tuple<toy::Tensor, toy::Tensor>;
#else
using Example = std::vector<toy::Tensor>;  // how many these are is not known
#endif
int main() { return exporting::exportable<Net, Example, toy::Tensor>() ? 0 : 1; }
