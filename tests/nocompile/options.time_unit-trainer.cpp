// refused: [fulgurite.options.time_unit] a number alone has no unit: write std::chrono::seconds{60}, or "00:00:01:00" (days, hours, minutes, seconds)
#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
  toy::P net;
#ifdef LEGAL
  TrainerOptions const options{.max_time = std::chrono::seconds{60}};
#else
  TrainerOptions const options{.max_time = 60};
#endif
  auto trainer = make_trainer<toy::P>(options, toy::Device{}, Float32{}, Automatic{});
  trainer.fit(net, toy::batches(4));
}
