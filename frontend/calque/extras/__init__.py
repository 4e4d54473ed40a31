"""Public functions written with calque.numpy that JAX keeps in modules of their own.

  ops.py           reductions by segment (calque.ops)
  image.py         images of another size (calque.image)
  ref.py           arrays that are written into (calque.ref)
  flatten_util.py  a tree as one vector (calque.flatten_util)

Start reading at ops.py.
"""
