"""Transformations of functions and Programs.  Map:

  stage.py      call a function on tracers -> Program; replay a Program
  pairs.py      values with a tangent: what the next two have in common
  jvp.py        forward mode: JVPTrace, jvp_program
  linearize.py  primal values now, tangents as a Program (direct linearize)
  transpose.py  the backward pass over a linear Program
  vmap.py       BatchTrace, batch_program
  propagate.py  shardings of a Program's values; explicit.py: shardings in types; sums.py: types of
                sums over devices

A transformation looks rules up on the Primitive record and imports no primitive.
"""
