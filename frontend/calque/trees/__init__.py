"""Trees: nested tuples, lists, dicts and registered classes, over optree.

  util.py   the functions of jax.tree_util (calque.tree_util, calque.tree)
  spec.py   PyTreeDef: the structure of a tree
  nodes.py  what may stand in a tree: keys of paths, registration of classes, Partial
  tokens.py  Token, a tree without leaves
  differences.py  where a tree is no prefix of another, in words

Start reading at util.py.
"""
