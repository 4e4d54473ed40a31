"""Functions over several devices for users.

  mapping.py        shard_map: a function of one device's parts
  single_axis.py    smap: the same over one axis, as vmap
  pmap.py           pmap: a function mapped over devices
  mesh_tools.py     make_mesh, reshard, auto_axes, explicit_axes
  sharding_view.py  shardings drawn in the terminal

Start reading at mapping.py.
"""
