"""Keras on JAX: fit, evaluate, predict, save and load, convolutions, recurrence, attention."""

import os
import pathlib
import tempfile

os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

keras.utils.set_random_seed(0)
draw = np.random.RandomState(0)
x = draw.randn(256, 10).astype("float32")
y = (x.sum(1) > 0).astype("int32")
layers = keras.layers
model = keras.Sequential([layers.Input((10,)), layers.Dense(32, activation="relu"),
                          layers.BatchNormalization(), layers.Dropout(0.1),
                          layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, epochs=3, batch_size=32, verbose=0, shuffle=False).history
print("loss", *history["loss"])
print("accuracy", *history["accuracy"])
print("evaluate", *model.evaluate(x, y, verbose=0))
print("predict", *model.predict(x[:2], verbose=0).ravel())
path = pathlib.Path(tempfile.mkdtemp()) / "model.keras"
model.save(path)
again = keras.models.load_model(path)
print("loaded", float(np.abs(again.predict(x, verbose=0) - model.predict(x, verbose=0)).max()))
images = draw.randn(64, 16, 16, 3).astype("float32")
model = keras.Sequential([layers.Input((16, 16, 3)), layers.Conv2D(8, 3, activation="relu"),
                          layers.MaxPooling2D(), layers.Flatten(), layers.Dense(4)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(images, np.arange(64) % 4, epochs=2, verbose=0, shuffle=False).history
print("convolutions", *history["loss"])
series = draw.randn(64, 7, 5).astype("float32")
model = keras.Sequential([layers.Input((7, 5)), layers.LSTM(8, return_sequences=True),
                          layers.GRU(6), layers.Dense(1)])
model.compile("rmsprop", "mse")
history = model.fit(series, series.sum((1, 2)), epochs=2, verbose=0, shuffle=False).history
print("recurrent", *history["loss"])
attention = layers.MultiHeadAttention(2, 8)
print("attention", float(np.asarray(attention(series[:2], series[:2])).sum()))
