// refused: [fulgurite.tune.names] a list of settings needs names for its table: declare void hyperparameters(auto& list) const { list("rate", rate); }, or use grid or draws
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/tuner/space.hpp>

using namespace fulgurite;

struct Setting {
  double rate = 0.1;
  long width = 8;
#ifdef LEGAL
  void hyperparameters(auto& list) const { list("rate", rate); }
#endif
};

int main() {
#ifdef LEGAL
  static_cast<void>(tune::list<Setting>({{.rate = 1}}));
#else
  static_cast<void>(tune::list<Setting>({{.rate = 1}}));
#endif
}
