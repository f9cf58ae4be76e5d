// refused: [fulgurite.callback.prediction_writer] the writer needs write_on_batch_end(prediction, indices, batch, ctx) or write_on_epoch_end(predictions, indices, ctx)
#include <toy.hpp>

#include <fulgurite/callback/lambda_callback.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

struct Net : toy::P {
  double predict_step(double batch) { return batch; }
};
struct ToDisk {
#ifdef LEGAL
  void write_on_batch_end(double, BatchIndices const&, double, auto&) {}
#else
  void write_on_batch_end(double) {}
#endif
};

int main() {
  Net net;
  auto trainer = make_trainer<Net>(TrainerOptions{.max_epochs = 1}, toy::Device{}, Float32{}, Automatic{},
                                   PredictionWriter{ToDisk{}});
  trainer.predict(net, toy::batches(4));
}
