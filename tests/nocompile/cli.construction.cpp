// refused: [fulgurite.cli.construction] a command line makes the model and the data from their settings: write `explicit Net(Settings)` with a member `Settings hparams`, or a constructor without parameters
#include <toy.hpp>

#include <fulgurite/cli/table.hpp>

using namespace fulgurite;

struct Net : toy::P {
#ifndef LEGAL
  explicit Net(int) {}
#endif
};

int main() { static_cast<void>(cli::made<Net>(cli::NoSettings{})); }
