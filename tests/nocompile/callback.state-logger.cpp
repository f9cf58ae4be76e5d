// refused: [fulgurite.callback.state] this callback has members that a checkpoint would forget: add `void state(auto& archive)`, or `using Stateless = fulgurite::ByChoice`
#include <span>

#include <toy.hpp>

#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

/// A logger, which counts its rows.
struct Rows {
  long rows = 0;
  void log_metrics(std::span<Scalar const>, long) { ++rows; }
#ifdef LEGAL
  void state(auto& archive) { archive("rows", rows); }
#endif
};

int main() {
  toy::P net;
  auto trainer = make_trainer<toy::P>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, Rows{});
  trainer.fit(net, toy::batches(4));
}
