// refused: [fulgurite.checkpoint.hyperparameters_of] hyperparameters<H>(file) asks H which settings it has: give it `void hyperparameters(auto& list) const`
#include <fulgurite/checkpoint/run_file.hpp>

using namespace fulgurite;

struct Settings {
  double lr = 1e-3;
#ifdef LEGAL
  void hyperparameters(auto& list) const { list("lr", lr); }
#endif
};

int main() {
  auto const settings = hyperparameters<Settings>("a.safetensors");
  return settings.lr > 0 ? 0 : 1;
}
