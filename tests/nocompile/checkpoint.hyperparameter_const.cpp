// refused: [fulgurite.checkpoint.hyperparameter_const] hyperparameters<H>(file) sets members of H, and H cannot be assigned: leave out its const members and references, or read a struct of settings without them
#include <fulgurite/checkpoint/run_file.hpp>

using namespace fulgurite;

struct Settings {
#ifdef LEGAL
  double lr = 1e-3;
#else
  double const lr = 1e-3;
#endif
  void hyperparameters(auto& list) const { list("lr", lr); }
};

int main() {
  auto const settings = hyperparameters<Settings>("a.safetensors");
  return settings.lr > 0 ? 0 : 1;
}
