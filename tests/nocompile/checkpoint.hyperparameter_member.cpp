// refused: [fulgurite.checkpoint.hyperparameter_member] hyperparameters<H>(file) sets members of H, and this is a temporary, or no number, truth value, enum, std::string or std::vector or std::optional of these: name the member itself
#include <fulgurite/checkpoint/run_file.hpp>

using namespace fulgurite;

struct Settings {
  double lr = 1e-3;
#ifdef LEGAL
  void hyperparameters(auto& list) const { list("lr", lr); }
#else
  void hyperparameters(auto& list) const { list("lr", 2 * lr); }
#endif
};

int main() {
  auto const settings = hyperparameters<Settings>("a.safetensors");
  return settings.lr > 0 ? 0 : 1;
}
