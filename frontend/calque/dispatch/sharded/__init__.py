"""Arrays over several devices and processes.

  shards.py       device_put, arrays made of pieces; parts.py: the pieces of an array
  stacked.py      device_put_sharded, device_put_replicated
  labels.py       the shardings of results, from those of arguments
  placing.py      out_sharding= and device=: where the result of one operation is
  placed.py       jit with shardings; constraints.py  with_sharding_constraint
  partial_arrays.py    arrays of which devices hold summands (unreduced sharding)
  partial_programs.py  programs over them; summed.py  out_sharding= that leaves summands
  local_calls.py  callbacks that get each device's part; custom_parts.py: calls for which the
                  user says what each device does
  spanning.py     arrays that span processes; partition.py  programs over them, for one process

Start reading at shards.py.
"""
