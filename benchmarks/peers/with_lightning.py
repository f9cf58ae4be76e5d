"""Lightning: as bare as it goes (barebones=True), and as one uses it: the defaults and one self.log."""

import logging
import tempfile
import time
import warnings

import nets
import protocol
import lightning
from lightning.pytorch import LightningModule, Trainer

warnings.filterwarnings('ignore')
logging.getLogger('lightning.pytorch').setLevel(logging.ERROR)


class Module(LightningModule):
    def __init__(self, workload: str, logs: bool):
        super().__init__()
        self.workload, self.logs, self.net = workload, logs, nets.net_of(workload)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nets.loss_of(self.net(x), y)
        if self.logs:
            self.log('train_loss', loss)
        return loss

    def configure_optimizers(self):
        return nets.optimizer_of(self.workload, self.parameters())


class Timed:
    """n batches from the prepared ones over and over; the clock runs from the first batch to the request for the one
    after the last."""

    def __init__(self, batches: list, n: int):
        self.batches, self.n, self.seconds = batches, n, 0.0

    def __len__(self):
        return self.n + 1

    def __iter__(self):
        began = time.perf_counter()
        for i in range(self.n):
            yield self.batches[i % len(self.batches)]
        self.seconds = time.perf_counter() - began
        yield self.batches[0]


def loop(workload: str, bare: bool):
    module, batches = Module(workload, logs=not bare), nets.batches_of(workload)
    folder = tempfile.TemporaryDirectory()

    def run(steps: int) -> float:
        loader = Timed(batches, steps)
        options = {'barebones': True} if bare else {'default_root_dir': folder.name}
        Trainer(max_epochs=1, accelerator='cpu', devices=1, **options).fit(module, loader)
        return loader.seconds / steps * 1e6
    run.folder = folder  # lives as long as the loop
    return run


protocol.answer(f'Lightning {lightning.__version__}', {'lightning barebones': lambda workload: loop(workload, True),
                                                      'lightning': lambda workload: loop(workload, False)})
