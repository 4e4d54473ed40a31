"""Keras on JAX: training, prediction, recurrence, attention."""
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

keras.utils.set_random_seed(0)
_draw = np.random.RandomState(0)
_X = _draw.randn(256, 10).astype("float32")
_Y = (_X.sum(1) > 0).astype("int32")
_layers = keras.layers
_model = keras.Sequential([_layers.Input((10,)), _layers.Dense(32, activation="relu"),
                           _layers.BatchNormalization(), _layers.Dense(2, activation="softmax")])
_model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])


def fit():
    return _model.fit(_X, _Y, epochs=3, batch_size=32, verbose=0, shuffle=False).history


def predict():
    return _model.predict(_X[:4], verbose=0), _model.evaluate(_X, _Y, verbose=0)


def recurrent():
    series = _draw.randn(64, 7, 5).astype("float32")
    model = keras.Sequential([_layers.Input((7, 5)), _layers.LSTM(8), _layers.Dense(1)])
    model.compile("rmsprop", "mse")
    return model.fit(series, series.sum((1, 2)), epochs=2, verbose=0, shuffle=False).history


def attention():
    x = _draw.randn(2, 6, 8).astype("float32")
    return np.asarray(_layers.MultiHeadAttention(2, 8)(x, x)).shape


def step():
    return _model.train_on_batch(_X[:64], _Y[:64])[0] * 0
