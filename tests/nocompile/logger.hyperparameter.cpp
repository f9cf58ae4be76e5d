// refused: [fulgurite.logger.hyperparameter] a hyper-parameter is a number, a truth value, an enum, a text, or a std::vector or std::optional of these: convert it to one of them
#include <fulgurite/core/state.hpp>

using namespace fulgurite;

struct Net {
#ifdef LEGAL
  double betas = 0.9;
#else
  double betas[2] = {0.9, 0.999};
#endif
  void hyperparameters(auto& list) const { list("betas", betas); }
};

int main() {
  HyperparameterList list;
  Net{}.hyperparameters(list);
}
