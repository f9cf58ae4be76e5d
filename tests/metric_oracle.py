"""The figures that tests/torch/metrics.cpp compares with, computed by scikit-learn; `metric_oracle.py` prints them as
constants of C++. It runs in an environment of its own, which no test needs:

    python3 -m venv ENV && ENV/bin/pip install scikit-learn && ENV/bin/python tests/metric_oracle.py

The data are made by integers, so that both languages have the same to the last bit."""

import numpy as np
import sklearn
from sklearn import metrics as m

SAMPLES, CLASSES, THRESHOLDS = 60, 4, 11


def score(i: int, c: int) -> float:
    return ((i * i * 31 + i * 17 + c * 53 + i * c * 29) % 127) / 128


scores = np.array([[score(i, c) for c in range(CLASSES)] for i in range(SAMPLES)])
# Of class 3 there is no label, so that averages over classes have something to decide.
labels = np.array([(i * i + i // 5) % 7 % 3 for i in range(SAMPLES)])
# A model that is right more often than not.
scores[np.arange(SAMPLES), labels] += np.array([i % 3 for i in range(SAMPLES)]) / 4
guesses = scores.argmax(1)
ranks = (scores > scores[np.arange(SAMPLES), labels][:, None]).sum(1)
# All classes occur.
every = np.array([(i * i + i // 3) % CLASSES for i in range(SAMPLES)])

chance = np.array([score(i, 0) for i in range(SAMPLES)])
positive = np.array([int(i * i * 7 % 11 < 4) for i in range(SAMPLES)])
chance = np.round((chance * 96 + positive * 24) / 4) / 32  # many scores are equal
yes = (chance > 0.5).astype(int)

target = np.array([[score(i, c) * 8 - 3 for c in range(2)] for i in range(SAMPLES)])
guess = np.array([[target[i, c] + score(i, c + 2) - 0.375 for c in range(2)] for i in range(SAMPLES)])

softmax = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def binned(values):
    return np.searchsorted(np.linspace(0, 1, THRESHOLDS), values, side='right')


def over_classes(function, values):
    return np.mean([function(every == c, values[:, c]) for c in range(CLASSES)])


FIGURES = {'accuracy': m.accuracy_score(labels, guesses), 'accuracy_top2': np.mean(ranks < 2)}
for name, function in {'precision': m.precision_score, 'recall': m.recall_score, 'f1': m.f1_score}.items():
    for average in ('micro', 'macro', 'weighted'):
        FIGURES[f'{name}_{average}'] = function(labels, guesses, average=average, zero_division=0)
    FIGURES[f'{name}_positive'] = function(positive, yes)
FIGURES |= {
    'auroc': m.roc_auc_score(positive, chance),
    'auroc_binned': m.roc_auc_score(positive, binned(chance)),
    'auroc_classes': over_classes(m.roc_auc_score, softmax),
    'auroc_classes_binned': over_classes(m.roc_auc_score, binned(softmax)),
    'average_precision': m.average_precision_score(positive, chance),
    'average_precision_binned': m.average_precision_score(positive, binned(chance)),
    'average_precision_classes': over_classes(m.average_precision_score, softmax),
    'average_precision_classes_binned': over_classes(m.average_precision_score, binned(softmax)),
    'mean_squared_error': m.mean_squared_error(target, guess),
    'mean_absolute_error': m.mean_absolute_error(target, guess),
    'r2': m.r2_score(target[:, 0], guess[:, 0]),
    'r2_outputs': m.r2_score(target, guess),
    'perplexity': np.exp(m.log_loss(every, softmax)),
}

print(f'// scikit-learn {sklearn.__version__}')
for name, value in FIGURES.items():
    print(f'constexpr double {name} = {float(value)!r};')
matrix = m.confusion_matrix(labels, guesses, labels=range(CLASSES))
print('constexpr double confusion[] = {' + ', '.join(str(int(n)) for n in matrix.flatten()) + '};')
precisions = m.precision_score(labels, guesses, average=None, labels=range(CLASSES), zero_division=0)
print('constexpr double precisions[] = {' + ', '.join(repr(float(p)) for p in precisions) + '};')
