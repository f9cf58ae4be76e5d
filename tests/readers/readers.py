"""TensorBoard and MLflow read what our loggers write: `readers.py tensorboard|mlflow PROGRAM`.

PROGRAM trains and logs into the folder that it is given. A reader that is not installed is a test that is skipped, by
the exit status 77. To have both: `pip install tensorboard mlflow-skinny` into an environment of its own, and run this
script by its Python."""

import importlib.util
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

LOSSES = [0.0, 1 / 3, 2 / 3, 1.0] * 2
LR = 1e-5


def expect(what: str, found, wanted) -> None:
    if found != wanted:
        sys.exit(f'{what}: {found!r} instead of {wanted!r}')


def single(values):
    """Numbers as TensorBoard has them: a float's worth."""
    return [round(value, 6) for value in values]


def pixels_of(png: bytes) -> bytes:
    at, packed = 8, b''
    while at < len(png):
        length, kind = int.from_bytes(png[at : at + 4], 'big'), png[at + 4 : at + 8]
        expect('the checksum in a PNG', zlib.crc32(png[at + 4 : at + 8 + length]),
               int.from_bytes(png[at + 8 + length : at + 12 + length], 'big'))
        packed += png[at + 8 : at + 8 + length] if kind == b'IDAT' else b''
        at += 12 + length
    lines = zlib.decompress(packed)
    return lines[1:10] + lines[11:]


def tensorboard(root: pathlib.Path) -> None:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util

    def read(folder: pathlib.Path):
        everything = {kind: 0 for kind in ('scalars', 'histograms', 'images', 'tensors')}
        reader = event_accumulator.EventAccumulator(str(folder), size_guidance=everything)
        reader.Reload()
        return reader

    version = root / 'lightning_logs' / 'version_0'
    reader = read(version)
    tensors = lambda tag: [(event.step, tensor_util.make_ndarray(event.tensor_proto)) for event in reader.Tensors(tag)]
    losses = reader.Scalars('train/loss')
    expect('steps', [event.step for event in losses], list(range(8)))
    expect('losses', single(event.value for event in losses), single(LOSSES))
    validated = reader.Scalars('val/loss')
    expect('validations', [event.step for event in validated], [3, 7])
    expect('the last of them', math.isnan(validated[1].value), True)
    expect('epochs', [event.value for event in reader.Scalars('epoch')], [0] * 5 + [1] * 5)
    (weights,) = reader.Histograms('weights')
    expect('values', (weights.step, weights.histogram_value.num, weights.histogram_value.max), (3, 301, 30))
    expect('buckets', sum(weights.histogram_value.bucket), 301)
    expect('what is no number', [(step, float(value)) for step, value in tensors('gradients/not_finite')], [(4, 1.0)])
    (image,) = reader.Images('picture')
    expect('the picture', (image.step, image.width, image.height), (5, 3, 2))
    expect('its pixels', pixels_of(image.encoded_image_string), bytes(i * 13 % 256 for i in range(18)))
    ((step, note),) = tensors('note')
    expect('the text', (step, note.tolist()), (6, [b'# hello\nworld']))
    ((step, table),) = tensors('model')
    expect('the model', b'\n    0 | p    | Parameter | 1' in table.tolist()[0], True)
    metadata = reader.SummaryMetadata('_hparams_/session_start_info').plugin_data
    session = plugin_data_pb2.HParamsPluginData.FromString(metadata.content).session_start_info
    settings = {name: getattr(value, value.WhichOneof('kind')) for name, value in session.hparams.items()}
    expect('hyper-parameters', settings, {'lr': LR, 'layers': 4, 'bias': True, 'optimizer': "adam: 'w'"})

    (events,) = version.glob('events.out.tfevents.*')
    torn = root / 'torn'
    torn.mkdir()
    (torn / events.name).write_bytes(events.read_bytes()[:-5])
    expect('a torn file', len(read(torn).Scalars('train/loss')), 8)
    expect('its last record', 'note' in read(torn).Tags()['tensors'], False)


def mlflow(root: pathlib.Path) -> None:
    os.environ['MLFLOW_ALLOW_FILE_STORE'] = 'true'
    from mlflow import MlflowClient

    client = MlflowClient((root / 'mlruns').as_uri())
    (experiment,) = [one for one in client.search_experiments() if one.name != 'Default']
    expect('the experiment', experiment.name, "it's wide")
    (run,) = client.search_runs([experiment.experiment_id])
    expect('the run', (run.info.run_name, run.info.status, run.data.params['optimizer']),
           ('first', 'FINISHED', "adam: 'w'"))
    expect('settings', (float(run.data.params['lr']), run.data.params['bias']), (LR, 'True'))
    history = client.get_metric_history(run.info.run_id, 'train/loss')
    expect('losses', [(one.step, one.value) for one in history], list(enumerate(LOSSES)))
    expect('the last validation', math.isnan(run.data.metrics['val/loss']), True)
    rows = [json.loads(line) for line in next((root / 'lightning_logs').rglob('*.jsonl')).open()]
    expect('rows of JSON', rows[0]['hparams']['lr'], LR)
    expect('their losses', [row['train/loss'] for row in rows if 'train/loss' in row], LOSSES)


def main() -> None:
    reader, program = sys.argv[1:]
    if importlib.util.find_spec(reader) is None:
        print(f'skipped: {reader} is not installed for {sys.executable}')
        sys.exit(77)
    root = pathlib.Path(tempfile.mkdtemp(prefix='fulgurite-'))
    try:
        subprocess.run([program, root], check=True, stderr=subprocess.DEVNULL)
        {'tensorboard': tensorboard, 'mlflow': mlflow}[reader](root)
        print(f'{reader} reads what was logged')
    finally:
        shutil.rmtree(root)


main()
