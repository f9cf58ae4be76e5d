// refused: [fulgurite.callback.monitor] the metric is no option of a callback, and no text: pass the model's constant first, as in EarlyStopping{Net::val_loss, {.patience = 5}}
#include <toy.hpp>

#include <fulgurite/callback/early_stopping.hpp>
#include <fulgurite/loop/trainer.hpp>

using namespace fulgurite;

int main() {
#ifdef LEGAL
  SpikeDetection callback{toy::P::loss};
#else
  SpikeDetection callback{{.monitor = "loss"}};
#endif
  return sizeof(callback) == 0;
}
