"""What is decided about a Program before it is emitted.

keys.py   parameters of shape primitives on PRNG keys, which have one axis more in memory
rows.py   groups of equations over independent rows, each of which becomes one kernel
graph.py  which equations follow from which, while groups of them become one
cost.py   how much work a Program is: small programs run inline, cheap branches are both computed
"""
