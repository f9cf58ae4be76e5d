// refused: [fulgurite.cli.parts] a program's make_trainer is given all that the command line made: write [](auto... parts) { return make_trainer<Net>(parts..., Mine{}); }
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

#include <fulgurite/cli/program.hpp>

using namespace fulgurite;

int main() {
  auto const make = [](TrainerOptions options, [[maybe_unused]] auto... parts) {
#ifdef LEGAL
    return make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{}, parts...);
#else
    return make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
#endif
  };
  using Made = decltype(make(TrainerOptions{}, cli::SaveConfig("")));
  return cli::has_all_parts<Made>() ? 0 : 1;
}
