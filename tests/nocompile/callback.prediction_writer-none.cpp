// refused: [fulgurite.callback.prediction_writer] predictions go to a writer of yours: write PredictionWriter{ToDisk{"out"}}, where ToDisk is a struct with write_on_batch_end or write_on_epoch_end
#include <toy.hpp>

#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double predict_step(double batch) { return batch; }
};
struct ToDisk {
  void write_on_batch_end(double, BatchIndices const&, double, auto&) {}
};

int main() {
  Net net;
#ifdef LEGAL
  PredictionWriter writer{ToDisk{}};
#else
  PredictionWriter writer{};
#endif
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{}, writer);
}
