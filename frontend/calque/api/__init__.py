"""Transformations and control flow for users: functions of trees, over transforms and primitives.

  autodiff.py            grad, value_and_grad, jvp, vjp, linearize; linear_maps.py  what the last
                         two return, trees of residuals; cotangents.py  what a pullback
                         does with them (jax.ad); jacobians.py  jacfwd, jacrev, hessian
  batching.py            vmap; vmappable.py  of objects that a library takes apart
  checkpoint.py          checkpoint (remat) and its policies
  custom_derivatives.py  custom_jvp, custom_vjp; custom_batching.py  custom_vmap;
                         rule_arguments.py  how they take arguments; rule_results.py  what is
                         said of results that do not fit
  control.py             cond, switch, scan; loops.py  while_loop, fori_loop
  callbacks.py           Python inside programs; debugger.py  breakpoint
  ffi.py                 kernels of the user's own
  derivative_checks.py   check_grads and the like (calque.test_util)

Start reading at autodiff.py.
"""
